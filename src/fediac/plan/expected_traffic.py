"""What a round is expected to send, as ledger rows, without training.

Each algorithm predicts its own rounds, see `fediac.compressors.forecast`. Clients'
chosen entries are assumed to be spread evenly and independently.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from fediac.compressors import CATALOG, Compressor, Weighted
from fediac.compressors.forecast import (
    Blocks,
    Conditions,
    Expected,
    expect_of,
    measured_of,
)
from fediac.core.exchange import ServerSum
from fediac.core.ledger import Destination, Direction, Ledger, Row
from fediac.defaults import REGISTER_BYTES
from fediac.errors import ArgumentError
from fediac.switch import Switch
from fediac.wire.header import MAX_CLIENTS, PAYLOAD_BYTES


@dataclass(frozen=True)
class ExpectedRound:
    """Everything that determines a round's traffic.

    Attributes:
        algorithm: What the algorithm is called.
        compressor: The algorithm, for the clients of a round.
        dim: Entries in an update.
        n_chosen: Entries that clients agree on, such as the size of fediac's gia; None:
            as many as its settings let expect.
        register_bytes: The switch's memory: libra's hot entries are as many as fit.
        is_weighted: Clients count by their weights, which are added first.
    """

    algorithm: str
    compressor: Compressor
    dim: int
    n_chosen: int | None = None
    register_bytes: int = REGISTER_BYTES
    is_weighted: bool = False

    def __post_init__(self) -> None:
        if self.dim < 1:
            raise ArgumentError("dim", f"must be at least 1, got {self.dim}")
        check_clients(self.n_clients)
        if self.n_chosen is None:
            return
        if not 1 <= self.n_chosen <= self.dim:
            raise ArgumentError(
                "n_chosen", f"must be in 1..{self.dim} (dim), got {self.n_chosen}"
            )
        if not any(each.is_agreed for step in self._by_itself for each in step):
            raise ArgumentError(
                "n_chosen",
                f"does not apply to {self.algorithm}, whose clients agree on no "
                "entries",
            )

    @property
    def n_clients(self) -> int:
        """Clients in the round."""
        return self.compressor.n_clients

    @cached_property
    def steps(self) -> tuple[tuple[Expected, ...], ...]:
        """The round's exchanges, step by step."""
        if self.n_chosen is None:
            steps = self._by_itself
        else:
            steps = tuple(
                tuple(self._given(each) for each in step) for step in self._by_itself
            )
        # Where clients agree on nothing, they ask no more.
        return tuple(step for step in steps if not _is_void(step))

    @cached_property
    def _by_itself(self) -> tuple[tuple[Expected, ...], ...]:
        switch = Switch(self.register_bytes)
        n_addresses = switch.indexed_capacity(self.n_clients)
        compressor = Weighted(self.compressor) if self.is_weighted else self.compressor
        return tuple(expect_of(compressor, Conditions(self.dim, n_addresses)))

    def _given(self, expected: Expected) -> Expected:
        if not expected.is_agreed or self.n_chosen is None:
            return expected
        return replace(expected, up=self.n_chosen, down=self.n_chosen)

    @property
    def measured(self) -> tuple[int, int] | None:
        """Payload of real rounds, in percent of the expected one, if known."""
        return measured_of(self.compressor) if self.n_chosen is None else None


def _is_void(step: tuple[Expected, ...]) -> bool:
    return all(each.is_agreed and not each.up for each in step)


def check_clients(n_clients: int) -> None:
    """Refuse more clients than a switch can serve, before anything is computed."""
    if not 1 <= n_clients <= MAX_CLIENTS:
        raise ArgumentError(
            "n_clients", f"must be in 1..{MAX_CLIENTS}, got {n_clients}"
        )


def list_expected() -> tuple[str, ...]:
    """Return the algorithms of the catalog that predict what their rounds send."""
    return tuple(name for name, kind in CATALOG.items() if hasattr(kind, "expect"))


def expected_ledger(setting: ExpectedRound, *, round_number: int = 1) -> Ledger:
    """Return the rows of a round, as a transport would bill them."""
    rows = (
        row
        for step, exchanges in enumerate(setting.steps)
        for expected in exchanges
        for row in _rows(expected, setting.n_clients, round_number, step)
    )
    return Ledger(tuple(rows))


def _rows(
    expected: Expected, n_clients: int, round_number: int, step: int
) -> Iterator[Row]:
    """Yield the rows of an exchange: what every client sends, then what it gets."""
    destination: Destination = "server" if expected.kind is ServerSum else "switch"
    bits_up, bits_down = widths = expected.widths
    sides: tuple[tuple[Direction, int, int], ...] = (
        ("up", expected.up, bits_up),
        ("down", expected.down, bits_down),
    )
    for side, (direction, n_items, bits) in enumerate(sides):
        blocks = None if expected.blocks is None else expected.blocks[side]
        for client in range(n_clients):
            yield Row(
                round_number=round_number,
                client=client,
                phase=expected.phase,
                kind=expected.kind.__name__.lower(),
                direction=direction,
                destination=destination,
                n_items=n_items,
                bits_per_item=bits,
                widths=widths if bits_up < bits_down else None,
                blocks=blocks,
                n_bare=_n_bare(direction, blocks),
                step=step,
                payload_bytes=PAYLOAD_BYTES,
            )


def _n_bare(direction: Direction, blocks: Blocks | None) -> int:
    """Return the announcements of a block sum; see ``fediac.transports.billing``."""
    if blocks is None:
        return 0
    return int(direction == "up" or not len(blocks) or int(blocks[0]) > 0)
