"""What the event-by-event simulator moves: groups, exchanges, packets, servers."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fediac.core.ledger import Row
from fediac.sim import Network
from tests.reference.draws import Numbers, Trace


@dataclass
class Group:
    """Packets that one answer waits for."""

    waits_for: set[tuple[int, int]]
    n_answers: int = 1
    own: set[tuple[int, int]] | None = None
    is_open: bool = False

    def needs_slot_for(self, client: int, number: int) -> bool:
        """Whether the packet is one of the group's own; by default all are."""
        return (client, number) in (self.waits_for if self.own is None else self.own)


@dataclass
class Exchange:
    """Groups in order; for each client what it must have before each packet."""

    is_far: bool
    groups: list[Group]
    n_packets: dict[int, int]
    needs: dict[int, Callable[[int], int]]

    @property
    def n_answers(self) -> int:
        return sum(group.n_answers for group in self.groups)


@dataclass
class Packet:
    step: int
    client: int
    exchange: int
    number: int
    arrival: int
    start: int = 0


@dataclass
class Server:
    """A queue and one packet in service."""

    numbers: Numbers
    waiting: deque[Any] = field(default_factory=deque)
    serving: Any = None


@dataclass
class Client:
    trace: Trace
    gaps: Numbers
    down_gaps: Numbers
    down_services: Numbers
    begins_at: int = 0
    last_arrival: int = -1
    exchange: int = 0
    number: int = 0
    is_blocked: bool = False
    ready: deque[tuple[int, int]] = field(default_factory=deque)
    is_receiving: bool = False
    arrived: deque[tuple[int, int]] = field(default_factory=deque)
    is_serving: bool = False
    got: dict[int, int] = field(default_factory=dict)


def make_exchanges(rows: Sequence[Row], network: Network) -> list[list[Exchange]]:
    """The exchanges of each step, literally by the rules."""
    keys = list(dict.fromkeys((row.step, row.phase, row.kind) for row in rows))
    steps: dict[int, list[Exchange]] = {}
    for key in sorted(keys, key=lambda each: each[0]):
        mine = [row for row in rows if (row.step, row.phase, row.kind) == key]
        ups = {row.client: row for row in mine if row.direction == "up"}
        downs = {row.client: row for row in mine if row.direction == "down"}
        steps.setdefault(key[0], []).append(make_exchange(ups, downs, network))
    return list(steps.values())


def make_exchange(
    ups: dict[int, Row], downs: dict[int, Row], network: Network
) -> Exchange:
    first, down = next(iter(ups.values())), next(iter(downs.values()))
    if first.kind == "blocksum":
        return make_block_exchange(ups, down, network)
    counts = {client: row.n_packets(network.view) for client, row in ups.items()}
    n_answers = down.n_packets(network.view)
    sizes = {(r.n_items, r.bits_per_item) for r in [*ups.values(), *downs.values()]}
    is_aligned = first.kind in ("tally", "max", "sum")
    is_aligned |= first.kind == "serversum" and len(sizes) == 1
    if not is_aligned:
        every = {(c, j) for c, count in counts.items() for j in range(count)}
        groups = [Group(every, n_answers)]
    else:
        parts = part_counts(down, network) or [1] * max(counts.values())
        groups = [
            Group({(c, j) for c, count in counts.items() if j < count}, parts[j])
            for j in range(max(counts.values()))
        ]
    is_far = first.destination == "server"
    window = 0
    if network.memory is not None and is_aligned and not is_far:
        window = network.memory.window_of(first.kind, first.widths)

    def needs(number: int) -> int:
        n_groups = max(0, number - window + 1) if window else 0
        return sum(group.n_answers for group in groups[:n_groups])

    return Exchange(is_far, groups, counts, dict.fromkeys(ups, needs))


def part_counts(row: Row, network: Network) -> list[int] | None:
    """Packets that answer each packet up, where lanes are narrower up."""
    if row.widths is None:
        return None
    per_packet, per_part = (
        8 * network.view.payload_bytes // bits for bits in row.widths
    )
    counts: list[int] = []
    n_left = row.n_items
    while n_left > 0 or not counts:
        counts.append(max(1, -(-min(n_left, per_packet) // per_part)))
        n_left -= per_packet
    return counts


def make_block_exchange(ups: dict[int, Row], down: Row, network: Network) -> Exchange:
    """Packet 0 of every client announces; packet p carries its (p − 1)-th block."""
    union = blocks_of(down)
    blocks = {client: blocks_of(row) for client, row in ups.items()}
    counts = {client: len(each) + 1 for client, each in blocks.items()}
    memory = network.memory

    def closes(client: int, block: int) -> int:
        """The client's packet after which ``block`` needs nothing more of it."""
        own = blocks[client]
        if memory is None:
            later = [p for p, b in enumerate(own, start=1) if b >= block]
            return later[0] if later else len(own)
        # The first packet that names a next block beyond, or none.
        return next((p for p, b in enumerate(own) if b > block), len(own))

    groups = [Group({(c, 0) for c in ups}, own=set())] * down.n_bare
    for block in union:
        carriers = [c for c in ups if block in blocks[c]]
        own = {(c, blocks[c].index(block) + 1) for c in carriers}
        groups.append(Group({(c, closes(c, block)) for c in ups}, own=own))
    needs: dict[int, Callable[[int], int]] = dict.fromkeys(ups, lambda _: 0)
    if memory is not None:
        window = memory.window_of("blocksum")
        for client, sent in blocks.items():
            needs[client] = block_needs(sent, union, down.n_bare, window)
    return Exchange(is_far=False, groups=groups, n_packets=counts, needs=needs)


def blocks_of(row: Row) -> list[int]:
    assert row.blocks is not None
    return [int(block) for block in row.blocks]


def block_needs(
    own: list[int], union: list[int], n_bare: int, window: int
) -> Callable[[int], int]:
    def needs(number: int) -> int:
        if number == 0 or own[number - 1] < window:
            return 0
        return n_bare + sum(block <= own[number - 1] - window for block in union)

    return needs
