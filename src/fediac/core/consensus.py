"""Phase 1, switch side, in arrays: votes -> tally -> gia."""

from collections.abc import Sequence

from array_api_compat import array_namespace

from fediac import native
from fediac.core.bitpack import pack_bits, unpack_bits
from fediac.core.chunks import chunks
from fediac.core.types import Array, Packed
from fediac.errors import ArgumentError


def tally_votes(votes: Sequence[Packed], dim: int) -> Array:
    """Return how many clients voted for each entry, as int32."""
    xp = array_namespace(votes[0])
    masks = (xp.astype(unpack_bits(packed, dim), xp.int32) for packed in votes)
    return sum(masks, start=next(masks))


def agree(votes: Sequence[Packed], threshold: int) -> Packed:
    """Return the gia: packed bits of the entries with at least ``threshold`` votes."""
    if threshold < 1:
        raise ArgumentError("threshold", f"must be at least 1, got {threshold}")
    kernels = native.kernels_for(*votes)
    if kernels is not None:
        return kernels.agree(votes, threshold)
    xp = array_namespace(votes[0])
    agreed = []
    for start, stop in chunks(votes[0].shape[0], votes[0]):
        part = [packed[start:stop] for packed in votes]
        agreed.append(pack_bits(tally_votes(part, 8 * (stop - start)) >= threshold))
    return xp.concat(agreed)
