"""From a round's ledger to its steps: which packets travel, and what waits for them.

Exchanges with one step number travel together. The switch answers a packet group when
it has served all of the group's packets (see `TimedExchange`), so a step is described
by what each client sends and by the groups of each packet.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

import numpy as np
from array_api_compat import to_device
from numpy.typing import NDArray

from fediac.core.ledger import Row, View
from fediac.errors import ArgumentError, say_count
from fediac.sim.draws import Ints
from fediac.sim.network import Bounded

Left: TypeAlias = NDArray[np.int32]


class Rule(IntEnum):
    """How packets belong to groups; sim_step.h has the same numbers."""

    ALIGNED = 0
    """Packet j of every client belongs to group j; later ones, to the last group."""
    ONE = 1
    """There is one group."""
    ENDS = 2
    """Packet j belongs to the groups from ``ends[j - 1]`` to before ``ends[j]``."""


_RULES = {
    "tally": Rule.ALIGNED,
    "max": Rule.ALIGNED,
    "sum": Rule.ALIGNED,
    "blocksum": Rule.ENDS,
    "indexedsum": Rule.ONE,
    "serversum": Rule.ONE,
}


@dataclass(frozen=True, slots=True, eq=False)
class Flow:
    """What one client sends in one exchange.

    Attributes:
        ends: See `Rule.ENDS`.
        owns: With `Rule.ENDS`: the group whose slot each packet needs, or -1.
        needs: With `Rule.ENDS` and bounded memory: answers to have before each packet.
    """

    n_packets: int
    ends: Ints | None = None
    owns: Ints | None = None
    needs: Ints | None = None

    @property
    def begins(self) -> Ints:
        """The first group of each packet, with `Rule.ENDS`."""
        ends = np.zeros(0, np.int64) if self.ends is None else self.ends
        return np.concatenate([np.zeros(1, np.int64), ends[:-1]])


@dataclass(frozen=True, slots=True, eq=False)
class TimedExchange:
    """One exchange of all clients.

    Attributes:
        is_far: It goes through the switch and on to the server.
        left: How many packets each group waits for.
        n_answers: Packets that come down to each client; those that the groups before
            do not take come with the last one.
        flows: What each client sends.
        n_parts: Packets that answer each group but the last.
        window: Packets of a client in flight with bounded memory; 0: any number.
    """

    phase: str
    rule: Rule
    is_far: bool
    left: Left
    n_answers: int
    flows: dict[int, Flow]
    window: int = 0
    n_parts: int = 1

    @property
    def n_groups(self) -> int:
        """Groups that are answered one by one."""
        return len(self.left)

    @property
    def n_last(self) -> int:
        """Packets that answer the last group."""
        return self.n_answers - (self.n_groups - 1) * self.n_parts


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """Exchanges that travel together, in the order in which a client sends them."""

    clients: tuple[int, ...]
    exchanges: tuple[TimedExchange, ...]

    def n_packets(self, client: int) -> int:
        """Return how many packets a client sends."""
        return sum(exchange.flows[client].n_packets for exchange in self.exchanges)


@dataclass(frozen=True, slots=True)
class _Sides:
    """The rows of one exchange: what each client sent and got."""

    up: dict[int, Row]
    down: dict[int, Row]


def list_steps(rows: Iterable[Row], view: View, memory: Bounded | None) -> list[Step]:
    """Return the steps of a round in their order.

    Raises:
        ValueError: The rows do not make sense together.
    """
    found: dict[int, dict[tuple[str, str], _Sides]] = {}
    for row in rows:
        exchanges = found.setdefault(row.step, {})
        sides = exchanges.setdefault((row.phase, row.kind), _Sides({}, {}))
        side = sides.up if row.direction == "up" else sides.down
        if row.client in side:
            raise ArgumentError(
                "ledger",
                f"must have one {row.direction} row of client {row.client} in "
                f"step {row.step}, phase {row.phase!r}, got two",
            )
        side[row.client] = row
    return [
        _make_step(exchanges.values(), view, memory)
        for _, exchanges in sorted(found.items())
    ]


def _make_step(exchanges: Iterable[_Sides], view: View, memory: Bounded | None) -> Step:
    made = tuple(_make_exchange(sides, view, memory) for sides in exchanges)
    clients = tuple(sorted(made[0].flows))
    for each in made[1:]:
        if sorted(each.flows) != list(clients):
            raise ValueError(
                f"phases {made[0].phase!r} and {each.phase!r} travel together but "
                "have other clients"
            )
    return Step(clients, made)


def _make_exchange(sides: _Sides, view: View, memory: Bounded | None) -> TimedExchange:
    row = next(iter((sides.up or sides.down).values()))
    if sides.up.keys() != sides.down.keys():
        raise ValueError(f"phase {row.phase!r} must have the same clients up and down")
    rule = _RULES.get(row.kind)
    if rule is None:
        raise ArgumentError(
            "kind", f"must be one of {', '.join(_RULES)}, got {row.kind!r}"
        )
    if rule == Rule.ENDS:
        return _blocks(sides, view, memory)
    is_far = row.destination == "server"
    counts = {client: up.n_packets(view) for client, up in sides.up.items()}
    n_answers = max(down.n_packets(view) for down in sides.down.values())
    # Sparse sums of equal length up and down have the same entries everywhere.
    if rule == Rule.ALIGNED or (is_far and _are_equal(sides)):
        rule = Rule.ALIGNED
        left = _aligned(sides, view)
    else:
        left = np.array([sum(counts.values())], np.int32)
    n_parts = row.n_parts(view)
    if n_answers <= (len(left) - 1) * n_parts:
        raise ValueError(
            f"phase {row.phase!r} must have an answer for each of "
            f"{say_count(len(left), 'group')}, got {n_answers}"
        )
    is_streamed = rule == Rule.ALIGNED and not is_far
    window = memory.window_of(row.kind, row.widths) if memory and is_streamed else 0
    flows = {client: Flow(count) for client, count in counts.items()}
    return TimedExchange(
        row.phase, rule, is_far, left, n_answers, flows, window, n_parts
    )


def _are_equal(sides: _Sides) -> bool:
    every = [*sides.up.values(), *sides.down.values()]
    return len({(row.n_items, row.bits_per_item) for row in every}) == 1


def _aligned(sides: _Sides, view: View) -> Left:
    """Return how many packets each group waits for; repeated ones are in the last."""
    counts = [row.n_packets(view) for row in sides.up.values()]
    n_groups = max(
        row.n_packets(view) - row.n_retransmitted for row in sides.up.values()
    )
    left = np.zeros(n_groups, np.int32)
    for count in counts:
        left[:count] += 1
        left[-1] += max(0, count - n_groups)
    return left


def _blocks(sides: _Sides, view: View, memory: Bounded | None) -> TimedExchange:
    """Return a block sum: one group per block of the union, and one of announcements.

    Block j is complete when each client's first packet numbered j or higher has been
    served, or its last one. With bounded memory that rule could wait forever, since a
    client may be too far behind to send that packet. There the switch goes by what
    every packet says about the client's next block, as it does in reality.
    """
    first = next(iter(sides.down.values()))
    union = _numbers(first)
    n_bare = first.n_bare
    n_groups = n_bare + len(union)
    window = memory.window_of("blocksum") if memory else 0
    made: dict[tuple[int, int, int], Flow] = {}
    flows = {}
    for client, row in sides.up.items():
        # Clients often share one array of block numbers; so do their flows then.
        key = id(row.blocks), row.n_bare, row.n_retransmitted
        if key not in made:
            made[key] = _block_flow(row, union, n_bare, window)
        flows[client] = made[key]
    n_senders = sum(flow.n_packets > 0 for flow in flows.values())
    if not n_senders or not n_groups:
        raise ValueError(f"phase {first.phase!r} must have packets up and down")
    left = np.full(n_groups, n_senders, np.int32)
    n_answers = max(row.n_packets(view) for row in sides.down.values())
    return TimedExchange(
        first.phase,
        Rule.ENDS,
        is_far=False,
        left=left,
        n_answers=n_answers,
        flows=flows,
    )


def _block_flow(row: Row, union: Ints, n_bare: int, window: int) -> Flow:
    """Return a client's announcements, blocks and repeated packets as a flow."""
    blocks = _numbers(row)
    n_groups = n_bare + len(union)

    def whole(before: int, values: Ints, after: int) -> Ints:
        front = np.full(row.n_bare, before, np.int64)
        back = np.full(row.n_retransmitted, after, np.int64)
        return np.concatenate([front, values.astype(np.int64), back])

    n_below = np.searchsorted(union, blocks)
    n_up_to = np.searchsorted(union, blocks, side="right")
    owns = whole(-1, np.where(n_up_to > n_below, n_bare + n_below, -1), -1)
    if window:
        # Each packet, announcements too, says that no block comes before the next.
        following = np.append(n_bare + n_below, n_groups)
        ends = whole(int(following[0]), following[1:], n_groups)
    else:
        ends = whole(n_bare, n_bare + n_up_to, n_groups)
    ends[-1:] = n_groups
    if not window:
        return Flow(len(ends), ends, owns)
    n_before = n_bare + np.searchsorted(union, blocks - window, side="right")
    needs = whole(0, np.where(blocks < window, 0, n_before), 0)
    return Flow(len(ends), ends, owns, needs)


def _numbers(row: Row) -> Ints:
    blocks = np.zeros(0, np.int64)
    if row.blocks is not None:
        blocks = np.asarray(to_device(row.blocks, "cpu"), np.int64)
    if np.any(np.diff(blocks) <= 0):
        raise ValueError(f"phase {row.phase!r}: block numbers must ascend")
    return blocks
