"""What an algorithm says about its rounds in advance: what they ask, and how much.

Both are methods that an algorithm may have. ``asks()`` yields what needs room in a
switch, so that one without it is refused before anything is sent, and so that a switch
with bounded memory can be timed. ``expect(conditions)`` yields the exchanges of a round
as they are expected to be: what `fediac simulate` times. ``check_dim(dim)`` refuses
settings that do not fit a model before anything is trained.

For expectations, clients' k chosen entries are taken to be spread evenly and
independently: an entry is chosen by a given client with probability p = k/d, and by
some of N clients with 1 − (1 − p)^N, the share of a union.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fediac.compressors.protocol import Compressor
from fediac.core.exchange import Exchange, ServerSum
from fediac.core.widths import Widths
from fediac.errors import AlgorithmError, ConfigError

Blocks: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class AsksTally:
    """A tally of votes.

    Attributes:
        threshold: Votes that each entry needs.
    """

    threshold: int
    kind: ClassVar[str] = "tally"


@dataclass(frozen=True, slots=True)
class AsksSum:
    """A sum of levels in lanes.

    Attributes:
        widths: Bits of a lane up and down: all pairs that there may be, where clients
            are still to agree on one.
    """

    widths: tuple[Widths, ...]
    kind: ClassVar[str] = "sum"

    @property
    def known_widths(self) -> Widths | None:
        """The only widths that there may be."""
        return self.widths[0] if len(self.widths) == 1 else None


@dataclass(frozen=True, slots=True)
class AsksBlockSum:
    """A sum of blocks.

    Attributes:
        block: 32-bit levels of a block, which travels in one packet.
    """

    block: int
    kind: ClassVar[str] = "blocksum"


@dataclass(frozen=True, slots=True)
class AsksIndexedSum:
    """A sum of (index, level) pairs.

    Attributes:
        size: Addresses that it needs; with none it is not asked.
        pair_bits: Bits of an index and its level.
    """

    size: int
    pair_bits: int
    kind: ClassVar[str] = "indexedsum"


Asks: TypeAlias = AsksTally | AsksSum | AsksBlockSum | AsksIndexedSum
"""An exchange that a round may ask, as far as known; others need no room."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What determines a round besides the algorithm's settings.

    Attributes:
        dim: Entries in an update.
        n_addresses: Addresses that the switch has for an indexed sum.
    """

    dim: int
    n_addresses: int = 0


@dataclass(frozen=True, slots=True)
class Expected:
    """An expected exchange, the same for every client.

    Attributes:
        kind: What is asked.
        up: Items that a client sends.
        down: Items that it gets.
        bits: Width of an item, or of one up and one down.
        blocks: Numbers of the blocks up and down, if it is a block sum.
        is_agreed: Whether it is up to the clients' updates how many there are, which
            are the same up and down: those that they agree on.
        name: Its name in the ledger, if it is not the usual one of its kind.
    """

    kind: type[Exchange]
    up: int = 0
    down: int = 0
    bits: int | Widths = 32
    blocks: tuple[Blocks, Blocks] | None = None
    is_agreed: bool = False
    name: str = ""

    @property
    def phase(self) -> str:
        """Its name in the ledger."""
        return self.name or next(
            str(each.default) for each in fields(self.kind) if each.name == "phase"
        )

    @property
    def widths(self) -> Widths:
        """Bits of an item up and of one down."""
        return (self.bits, self.bits) if isinstance(self.bits, int) else self.bits


def asks_of(compressor: Compressor) -> tuple[Asks, ...]:
    """Return the exchanges that an algorithm announces; none if it does not."""
    say: Any = getattr(compressor, "asks", None)
    said = tuple(say()) if callable(say) else ()
    for each in said:
        if not isinstance(each, Asks):
            raise AlgorithmError(
                "asks must yield AsksTally, AsksSum, AsksBlockSum or AsksIndexedSum, "
                f"got {type(each).__name__}"
            )
    return said


def tally_threshold(compressor: Compressor) -> int:
    """Return the votes that an entry needs, which determines the length of slots."""
    asked = (each for each in asks_of(compressor) if isinstance(each, AsksTally))
    return max((each.threshold for each in asked), default=1)


def check_dim(compressor: Compressor, dim: int) -> None:
    """Raise if an algorithm says that it cannot take updates with this many entries."""
    check: Any = getattr(compressor, "check_dim", None)
    if callable(check):
        check(dim)


def expect_of(
    compressor: Compressor, conditions: Conditions
) -> Iterator[tuple[Expected, ...]]:
    """Yield the exchanges that a round is expected to ask, a tuple for each step.

    Raises:
        ConfigError: The algorithm does not say.
    """
    say: Any = getattr(compressor, "expect", None)
    if not callable(say):
        raise ConfigError(
            "the algorithm must have a method expect, which says what its rounds send; "
            "CONTRIBUTING.md shows one"
        )
    check_dim(compressor, conditions.dim)
    yield from say(conditions)


def measured_of(compressor: Compressor) -> tuple[int, int] | None:
    """Return the payload of real rounds, in percent of the expected one, if known.

    Real choices are not spread evenly: some entries are chosen by many clients, and
    again and again.
    """
    found: tuple[int, int] | None = getattr(compressor, "measured", None)
    return found


def doubts_of(compressor: Compressor, dim: int) -> tuple[str, ...]:
    """Return what speaks against an algorithm's settings in a model of this size."""
    say: Any = getattr(compressor, "doubts", None)
    return tuple(say(dim)) if callable(say) else ()


def share_of_some(probability: float, n_tries: int) -> float:
    """Return the probability that at least one of ``n_tries`` succeeds."""
    if probability >= 1.0:
        return 1.0
    return float(-np.expm1(n_tries * np.log1p(-probability)))


def union_of(n_chosen: int, conditions: Conditions, n_clients: int, of: int) -> int:
    """Return how many of ``of`` entries at least one client is expected to choose.

    Args:
        n_chosen: Entries that each client chooses, of all there are.
        conditions: How many there are.
        n_clients: Clients that choose.
        of: Entries that are looked at.
    """
    return round(of * share_of_some(n_chosen / conditions.dim, n_clients))


def sends_to_server(compressor: Compressor, dim: int) -> bool:
    """Return whether a round is expected to need the far server, if that is known."""
    return ServerSum in _expected_kinds(compressor, dim)


def needs_no_switch(compressor: Compressor, dim: int) -> bool:
    """Return whether a round is expected to ask the far server alone."""
    return _expected_kinds(compressor, dim) == {ServerSum}


def _expected_kinds(compressor: Compressor, dim: int) -> set[type[Exchange]]:
    expect = getattr(compressor, "expect", None)
    if expect is None:
        return set()
    return {each.kind for step in expect(Conditions(dim)) for each in step}
