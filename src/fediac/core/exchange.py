"""What clients may ask of a switch together, and what comes back.

An exchange is one question that all clients of a round ask at the same point. A
compressor yields exchanges and gets answers; how they travel is a transport's business.
An answer counts all clients of the round: sums of some of them are never given out. It
is one object shared by all of them, so nothing in it may be changed.
"""

from dataclasses import dataclass
from typing import TypeAlias

from fediac.core.types import Indices, Levels, Packed, Update

INDEX_BITS = 32
"""Default width of an index."""


def least_index_bits(n_places: int) -> int:
    """Return how many bits distinguish ``n_places`` places."""
    return max(1, (n_places - 1).bit_length())


@dataclass(frozen=True, slots=True)
class Tally:
    """Phase 1 of FediAC: count votes, keep entries with enough of them.

    Attributes:
        votes: One packed bit an entry, or a group of entries that vote as one.
        dim: How many of them there are.
        threshold: Votes that each needs.
        peak: This client's largest magnitude; the largest of all comes back.
        bits: The lane width this client asks for; the widest comes back.
        phase: What the ledger calls this exchange.
    """

    votes: Packed
    dim: int
    threshold: int
    peak: float
    bits: int
    phase: str = "votes"


@dataclass(frozen=True, slots=True)
class Max:
    """Agree on the largest of all clients' peaks."""

    peak: float
    phase: str = "peak"


@dataclass(frozen=True, slots=True)
class Sum:
    """Add levels that stand in the same order on every client.

    Attributes:
        lanes: Levels + limit, packed.
        n_levels: How many.
        bits_up: Width of a lane on its way up, which holds one client's level.
        bits_down: Width of a lane on its way down, which holds the sum of all clients'.
        limit: Largest magnitude of a level; equal on all clients.
        phase: What the ledger calls this exchange.
    """

    lanes: Packed
    n_levels: int
    bits_up: int
    bits_down: int
    limit: int
    phase: str = "levels"


@dataclass(frozen=True, slots=True)
class BlockSum:
    """Add numbered blocks of 32-bit levels; a block a client does not have is zero.

    Attributes:
        blocks: Numbers of this client's blocks, ascending.
        levels: int32, one row of ``block_length`` levels for each block.
        n_blocks: Blocks that there are, whoever has them; equal on all clients.
        phase: What the ledger calls this exchange.
    """

    blocks: Indices
    levels: Levels
    n_blocks: int
    phase: str = "blocks"


@dataclass(frozen=True, slots=True)
class IndexedSum:
    """Add (index, level) pairs in registers that the index addresses.

    Attributes:
        indices: Addresses in ``0..size-1``, ascending.
        levels: int32, one for each address.
        size: Registers needed: one a possible address.
        bits: Width of a level; the sum of all clients' must fit, too.
        is_narrow: Whether an index has only as many bits as ``size`` needs, not 32.
        phase: What the ledger calls this exchange.
    """

    indices: Indices
    levels: Levels
    size: int
    bits: int = 32
    is_narrow: bool = False
    phase: str = "indexed"

    @property
    def index_bits(self) -> int:
        """Width of an index."""
        return least_index_bits(self.size) if self.is_narrow else INDEX_BITS


@dataclass(frozen=True, slots=True)
class ServerSum:
    """Add floats at the far server, past the switch.

    Attributes:
        values: The floats.
        indices: Their entry numbers, ascending; None when all entries are sent.
        bits: Width of a value where they are whole numbers whose sum over all clients
            has no more bits; None: as wide as the floats are.
        index_bits: Width of an index.
        phase: What the ledger calls this exchange.
    """

    values: Update
    indices: Indices | None = None
    bits: int | None = None
    index_bits: int = INDEX_BITS
    phase: str = "server"


Exchange: TypeAlias = Tally | Max | Sum | BlockSum | IndexedSum | ServerSum


@dataclass(frozen=True, slots=True)
class Consensus:
    """Answer to `Tally`: the gia, and what clients agreed on along with it."""

    gia: Packed
    peak: float
    bits: int


@dataclass(frozen=True, slots=True)
class Peak:
    """Answer to `Max`."""

    peak: float


@dataclass(frozen=True, slots=True)
class Totals:
    """Answer to `Sum`: lanes of totals; each holds n_clients · limit too much.

    Attributes:
        bits: Width of a lane, the sum's ``bits_down``.
        n_clients: Clients that were added up.
    """

    lanes: Packed
    n_levels: int
    bits: int
    limit: int
    n_clients: int


@dataclass(frozen=True, slots=True)
class BlockTotals:
    """Answer to `BlockSum`: every block that any client had, int32 totals."""

    blocks: Indices
    totals: Levels
    n_clients: int


@dataclass(frozen=True, slots=True)
class IndexedTotals:
    """Answer to `IndexedSum`: every address that any client used, int32 totals."""

    indices: Indices
    totals: Levels
    n_clients: int


@dataclass(frozen=True, slots=True)
class ServerTotals:
    """Answer to `ServerSum`: the mean over clients, of all entries or of the union."""

    values: Update
    indices: Indices | None


Answer: TypeAlias = (
    Consensus | Peak | Totals | BlockTotals | IndexedTotals | ServerTotals
)
