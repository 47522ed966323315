"""Votes for groups of neighbouring entries: one bit per group instead of per entry.

The paper's votes and their outcome cost two bits an entry, however few entries are then
sent; where a round sends little, that is most of it. Neighbours in a layer tend to be
large together, so a group may vote as one. All entries of a chosen group are sent. The
switch counts votes as before and need not know what they stand for.

A group is as large as its largest magnitude, or as the root mean square of them all:
that is what sending it is worth, and one outlier counts for less, so clients agree on
more of it. Both have the same bits on every machine.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal, get_args

from array_api_compat import array_namespace, device

from fediac import native
from fediac.core.bitpack import n_packed_bytes, unpack_bits
from fediac.core.chunks import chunks
from fediac.core.corrected import Corrected, correct
from fediac.core.exact import block_sums
from fediac.core.integers import as_whole
from fediac.core.rng import Stream
from fediac.core.types import Array, Packed, Update
from fediac.core.voting import Law, draw_votes
from fediac.errors import ArgumentError

RankBy = Literal["peak", "rms"]
RANKS: tuple[RankBy, ...] = get_args(RankBy)

MAX_LENGTH = 4096
"""Entries of the largest group; every chunk is made of whole groups."""


def check_length(name: str, length: object) -> None:
    """Refuse lengths of groups that do not fill whole bytes of a gia and chunks."""
    whole = as_whole(name, length)
    if whole != 1 and (not 8 <= whole <= MAX_LENGTH or whole & (whole - 1)):
        raise ArgumentError(
            name, f"must be 1 or a power of two in 8..{MAX_LENGTH}, got {length}"
        )


def count_groups(n_entries: int, length: int) -> int:
    """Return how many groups there are; the last may be shorter."""
    return -(-n_entries // length)


def draw_group_votes(
    corrected: Corrected,
    n_votes: int,
    stream: Stream,
    *,
    law: Law = "bernoulli",
    length: int = 1,
    rank_by: RankBy = "peak",
) -> Packed:
    """Return one client's votes, one packed bit per group.

    Args:
        corrected: The update to vote on, finite.
        n_votes: k, in entries; so many groups are voted for as hold that many.
        stream: Its purpose must be used for nothing else.
        law: One of `fediac.core.voting.LAWS`.
        length: Entries of a group; with 1 these are the paper's votes.
        rank_by: What a group's magnitude is, one of `RANKS`.
    """
    if length > 1:
        corrected = correct(_MAGNITUDES[rank_by](corrected.values, length), None)
    return draw_votes(corrected, count_groups(n_votes, length), stream, law=law)


def group_peaks(values: Update, length: int) -> Array:
    """Return the largest magnitude of every group."""
    kernels = native.host_kernels_for(values)
    if kernels is not None:
        return kernels.group_peaks(values, length)
    xp = array_namespace(values)
    parts = chunks(values.shape[0], values)
    return xp.concat([_peaks(values[start:stop], length) for start, stop in parts])


def _peaks(values: Update, length: int) -> Array:
    xp = array_namespace(values)
    n_groups = count_groups(values.shape[0], length)
    filled = values
    if values.shape[0] < n_groups * length:
        filled = xp.zeros(n_groups * length, dtype=values.dtype, device=device(values))
        filled[: values.shape[0]] = values
    return xp.max(xp.reshape(xp.abs(filled), (n_groups, length)), axis=1)


def group_rms(values: Update, length: int) -> Array:
    """Return the root mean square of every group; what a short one lacks is zero.

    Squares are float64, so that none is too large and their order alone decides.
    """
    kernels = native.host_kernels_for(values)
    if kernels is not None:
        return kernels.group_rms(values, length)
    xp = array_namespace(values)
    parts = chunks(values.shape[0], values)
    return xp.concat([_rms(values[start:stop], length) for start, stop in parts])


def _rms(values: Update, length: int) -> Array:
    xp = array_namespace(values)
    exact = xp.astype(values, xp.float64)
    means = block_sums(exact * exact, length) / length  # a power of two: exact
    return xp.astype(xp.sqrt(means), values.dtype)


_MAGNITUDES: Mapping[RankBy, Callable[[Update, int], Array]] = MappingProxyType(
    {"peak": group_peaks, "rms": group_rms}
)


def spread_groups(packed: Packed, n_entries: int, length: int) -> Packed:
    """Return one packed bit per entry from one per group.

    Args:
        packed: A bit a group.
        n_entries: Entries of all groups together.
        length: Entries of a group; 1, or whole bytes.
    """
    if length == 1:
        return packed
    n_given = n_packed_bytes(count_groups(n_entries, length))
    if packed.shape[0] != n_given:
        raise ArgumentError(
            "packed",
            f"must have {n_given} bytes for {n_entries} entries in groups of "
            f"{length}, got {packed.shape[0]}",
        )
    xp = array_namespace(packed)
    n_bytes = n_packed_bytes(n_entries)
    kernels = native.host_kernels_for(packed)
    if kernels is not None:
        spread = kernels.spread_groups(packed, n_bytes, length // 8)
    else:
        bits = unpack_bits(packed, count_groups(n_entries, length))
        spread = xp.repeat(xp.astype(bits, xp.uint8) * 255, length // 8)[:n_bytes]
    if n_entries % 8:  # unused bits of the last byte are zero
        spread[-1] = spread[-1] & ((1 << n_entries % 8) - 1)
    return spread
