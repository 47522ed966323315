"""What a round would send, without training: ledger rows by expectation.

Clients' k chosen entries are taken to be spread evenly and independently. Then an entry
is chosen by a given client with probability p = k/d; by some of N clients with
1 − (1 − p)^N, the share of a union; by at least a of them with the tail of a binomial
distribution, the share of a gia; and a block of n entries holds one with 1 − (1 − p)^n.

Real entries are not: some are chosen by many clients, and again and again. `MEASURED`
says by how much real rounds differ.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from fediac.compressors import CATALOG, find
from fediac.core.groups import check_length, count_groups
from fediac.core.ledger import Destination, Direction, Ledger, Row
from fediac.core.shares import parse_share
from fediac.core.widths import Lanes, check_rule, lane_widths
from fediac.errors import ConfigError
from fediac.plan.algorithms import PAPER_THRESHOLD
from fediac.switch import Switch
from fediac.switch.pipeline import DEFAULT_REGISTER_BYTES
from fediac.wire.header import MAX_CLIENTS, PAYLOAD_BYTES

PAPER_BITS = 12
VOTES = "5%"
BLOCK = 360
"""Entries of an OmniReduce block: 32-bit levels that fill a packet."""

PAPER_CHOSEN = {"omnireduce": "5%", "libra": "1%", "topk": "1%"}
"""Entries that a client sends, in the paper's best settings (Sec. V-A)."""

MEASURED = {"fediac": (82, 126), "omnireduce": (8, 100), "libra": (32, 99)}
"""Percent of the expected payload that stored rounds took, from the least to the most.

Of ResNet-18 on CIFAR and of UNIPEN, with 20 clients, one seed; of FediAC with the
paper's votes. libra's begin low: at first clients choose much the same entries.
"""

Blocks = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ExpectedRound:
    """What decides a round's traffic.

    Attributes:
        n_chosen: Entries one client sends: the size of fediac's gia, or k where
            clients send their k largest; None: as in the paper.
        bits: Width of a sum of levels, for fediac and switchml.
        lanes: How wide their lanes are, see `fediac.core.widths`.
        threshold: Votes an entry needs, for fediac.
        entries_per_vote: Neighbouring entries that share a vote, for fediac.
        register_bytes: The switch's memory: libra's hot entries are as many as fit.
    """

    algorithm: str
    dim: int
    n_clients: int
    n_chosen: int | None = None
    bits: int = PAPER_BITS
    threshold: int | None = None
    entries_per_vote: int = 1
    register_bytes: int = DEFAULT_REGISTER_BYTES
    lanes: Lanes = "same"

    def __post_init__(self) -> None:
        find(self.algorithm)
        if self.algorithm not in _FILL:
            raise ConfigError(
                f"algorithm {self.algorithm!r} has no expected traffic in {__name__}"
            )
        if self.dim < 1:
            raise ValueError(f"dim must be at least 1, got {self.dim}")
        check_clients(self.n_clients)
        if self.n_chosen is not None and not 1 <= self.n_chosen <= self.dim:
            raise ValueError(
                f"chosen must be in 1..{self.dim} (dim), got {self.n_chosen}"
            )
        if not 1 <= self.votes_needed <= self.n_clients:
            raise ValueError(
                f"threshold must be in 1..{self.n_clients} (n_clients), "
                f"got {self.threshold}"
            )
        check_length("entries_per_vote", self.entries_per_vote)
        if self.bits > 32:
            raise ValueError(f"bits must be at most 32, got {self.bits}")
        check_rule(self.lanes)
        if self.algorithm in ("fediac", "switchml"):
            lane_widths(bits=self.bits, n_clients=self.n_clients, lanes=self.lanes)

    @property
    def votes_needed(self) -> int:
        """Return the threshold, the paper's where none is given."""
        if self.threshold is None:
            return min(PAPER_THRESHOLD, self.n_clients)
        return self.threshold

    @property
    def widths(self) -> tuple[int, int]:
        """Return the bits of a lane up and down."""
        return lane_widths(bits=self.bits, n_clients=self.n_clients, lanes=self.lanes)

    @property
    def chosen(self) -> int:
        """Return how many entries one client sends."""
        if self.n_chosen is not None:
            return self.n_chosen
        if self.algorithm == "fediac":
            share = self.share_of(VOTES) / self.dim
            n_more = self.n_clients - self.votes_needed + 1
            tail = betainc(self.votes_needed, n_more, share)
            return round(self.dim * float(tail))
        if self.algorithm in PAPER_CHOSEN:
            return self.share_of(PAPER_CHOSEN[self.algorithm])
        return self.dim

    @property
    def measured(self) -> tuple[int, int] | None:
        """Return what real rounds took, in percent, where that differs and is known."""
        is_given = self.n_chosen is not None or self.entries_per_vote > 1
        if self.algorithm == "fediac" and is_given:
            return None
        return MEASURED.get(self.algorithm)

    def share_of(self, share: str) -> int:
        """Return a share of all entries, rounded up."""
        return parse_share(share, of=self.dim, name="share")

    def union_of(self, n_entries: int) -> int:
        """Return how many of ``n_entries`` entries some client chooses."""
        return round(n_entries * _some(self.chosen / self.dim, self.n_clients))


def check_clients(n_clients: int) -> None:
    """Refuse more clients than a switch can tell apart, before anything is computed."""
    if not 1 <= n_clients <= MAX_CLIENTS:
        raise ValueError(f"n_clients must be in 1..{MAX_CLIENTS}, got {n_clients}")


def expected_ledger(setting: ExpectedRound, *, round_number: int = 1) -> Ledger:
    """Return the rows of a round, as a transport would bill them."""
    rows = _Rows(setting.n_clients, round_number)
    _FILL[setting.algorithm](setting, rows)
    return Ledger(tuple(rows.rows))


class _Rows:
    """Rows of all clients, exchange after exchange."""

    def __init__(self, n_clients: int, round_number: int) -> None:
        self._n_clients = n_clients
        self._round_number = round_number
        self._step = -1
        self.rows: list[Row] = []

    def ask(
        self,
        phase: str,
        kind: str,
        *,
        items: tuple[int, int],
        bits: int | tuple[int, int],
        blocks: tuple[Blocks, Blocks] | None = None,
        is_joined: bool = False,
    ) -> None:
        """Add an exchange: items of each client up and down, in a step of its own.

        Args:
            phase: Name of the exchange.
            kind: Its type.
            items: Up and down.
            bits: Bits of an item, or of one up and one down where lanes differ.
            blocks: Block numbers up and down, if it is a block sum.
            is_joined: It travels together with the one before.
        """
        self._step += not is_joined
        destination: Destination = "server" if kind == "serversum" else "switch"
        directions: tuple[Direction, Direction] = ("up", "down")
        bits_up, bits_down = both = (bits, bits) if isinstance(bits, int) else bits
        for side, direction in enumerate(directions):
            numbers = None if blocks is None else blocks[side]
            self.rows += [
                Row(
                    round_number=self._round_number,
                    client=client,
                    phase=phase,
                    kind=kind,
                    direction=direction,
                    destination=destination,
                    n_items=items[side],
                    bits_per_item=both[side],
                    widths=both if bits_up < bits_down else None,
                    blocks=numbers,
                    n_bare=_n_bare(direction, numbers),
                    step=self._step,
                    payload_bytes=PAYLOAD_BYTES,
                )
                for client in range(self._n_clients)
            ]

    def ask_peak(self) -> None:
        self.ask("peak", "max", items=(0, 0), bits=32)


def _n_bare(direction: Direction, blocks: Blocks | None) -> int:
    """Return the announcements of a block sum; see ``fediac.transports.billing``."""
    if blocks is None:
        return 0
    return int(direction == "up" or not len(blocks) or int(blocks[0]) > 0)


def _fediac(setting: ExpectedRound, rows: _Rows) -> None:
    n_groups = count_groups(setting.dim, setting.entries_per_vote)
    rows.ask("votes", "tally", items=(n_groups, n_groups), bits=1)
    if setting.chosen:
        items = (setting.chosen, setting.chosen)
        rows.ask("levels", "sum", items=items, bits=setting.widths)


def _switchml(setting: ExpectedRound, rows: _Rows) -> None:
    rows.ask_peak()
    items = (setting.dim, setting.dim)
    rows.ask("levels", "sum", items=items, bits=setting.widths)


def _omnireduce(setting: ExpectedRound, rows: _Rows) -> None:
    rows.ask_peak()
    n_blocks = -(-setting.dim // BLOCK)
    share = _some(setting.chosen / setting.dim, min(BLOCK, setting.dim))
    n_union = max(1, round(n_blocks * _some(share, setting.n_clients)))
    union = _spread(n_union, n_blocks)
    own = union[_spread(max(1, round(n_blocks * share)), n_union)]
    items = (len(own) * BLOCK, len(union) * BLOCK)
    rows.ask("blocks", "blocksum", items=items, bits=32, blocks=(own, union))


def _libra(setting: ExpectedRound, rows: _Rows) -> None:
    rows.ask_peak()
    switch = Switch(setting.register_bytes)
    n_hot = min(switch.indexed_capacity(setting.n_clients), setting.dim)
    n_cold = setting.dim - n_hot
    n_sent_hot = round(setting.chosen * n_hot / setting.dim)
    hot = (n_sent_hot, setting.union_of(n_hot))
    rows.ask("indexed", "indexedsum", items=hot, bits=64)
    if n_cold:
        cold = (setting.chosen - n_sent_hot, setting.union_of(n_cold))
        rows.ask("server", "serversum", items=cold, bits=64, is_joined=True)


def _fedavg(setting: ExpectedRound, rows: _Rows) -> None:
    rows.ask("server", "serversum", items=(setting.dim, setting.dim), bits=32)


def _topk(setting: ExpectedRound, rows: _Rows) -> None:
    items = (setting.chosen, setting.union_of(setting.dim))
    rows.ask("server", "serversum", items=items, bits=64)


_FILL: dict[str, Callable[[ExpectedRound, _Rows], None]] = {
    "fediac": _fediac,
    "switchml": _switchml,
    "omnireduce": _omnireduce,
    "libra": _libra,
    "fedavg": _fedavg,
    "topk": _topk,
}


def _some(probability: float, n_tries: int) -> float:
    """Return the probability that at least one of ``n_tries`` succeeds."""
    if probability >= 1.0:
        return 1.0
    return float(-np.expm1(n_tries * np.log1p(-probability)))


def _spread(n_chosen: int, n_blocks: int) -> Blocks:
    """Return ``n_chosen`` block numbers at even distances."""
    return np.arange(n_chosen, dtype=np.int64) * n_blocks // n_chosen


def list_expected() -> tuple[str, ...]:
    """Return the algorithms whose traffic is known without training."""
    return tuple(name for name in CATALOG if name in _FILL)
