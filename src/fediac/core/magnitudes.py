"""Phase 1, client side: the order of magnitudes, from bit patterns, without sorting.

Without its sign bit, the bit pattern of a float orders like an unsigned integer. So a
histogram of leading bits says how many entries are larger than any value, and one more
histogram inside a single bin of it says so more finely. That takes one pass over the
update for each 16 bits and no room; a sort takes twenty passes and a copy.
"""

import numpy as np
from array_api_compat import array_namespace, device

from fediac import native
from fediac.core.bitpack import indices_of, pack_bits
from fediac.core.chunks import chunks
from fediac.core.types import Array, Indices, Packed, Update
from fediac.errors import ArgumentError

N_PATTERNS = 1 << 15
"""Bins of `pattern_counts`: eight exponent bits and seven of the fraction."""

_DIGIT_BITS = 16
_N_DIGITS = 1 << _DIGIT_BITS


def pattern_counts(values: Update) -> Array:
    """Return how many magnitudes have each leading bit pattern, as 32,768 int64 counts.

    Bin ``j`` holds the entries whose float32 pattern without the sign starts with the
    15 bits of ``j``: from ``j`` to ``j + 1``, magnitudes grow by at most 1/128, bin 0
    holds zeros and what is below 2**-133, and bins from 32,640 on what is not finite.
    float64 entries are first rounded to float32.
    """
    kernels = native.host_kernels_for(values)
    if kernels is not None:
        return kernels.pattern_counts(values)
    xp = array_namespace(values)
    counts = xp.zeros(N_PATTERNS, dtype=xp.int64, device=device(values))
    for start, stop in chunks(values.shape[0], values):
        bits = _to_float32(values[start:stop]).view(xp.int32)
        counts = counts + xp.bincount((bits >> 16) & 0x7FFF, minlength=N_PATTERNS)
    return counts


def largest(values: Update, n_largest: int) -> Packed:
    """Return the packed mask of the ``n_largest`` entries of largest magnitude.

    Exactly ``n_largest`` bits are set. Equal magnitudes are taken from the lowest entry
    on, and zeros count as entries like any other.
    """
    dim = values.shape[0]
    if not 1 <= n_largest <= dim:
        raise ArgumentError("n_largest", f"must be in 1..{dim} (dim), got {n_largest}")
    kernels = native.host_kernels_for(values)
    if kernels is not None:
        return kernels.largest(values, n_largest)
    xp = array_namespace(values)
    cut, n_equal = _find_cut(values, n_largest)
    packed = []
    for start, stop in chunks(dim, values):
        pattern = _pattern(values[start:stop])
        equal = pattern == cut
        nth_equal = xp.cumulative_sum(xp.astype(equal, xp.int64))
        packed.append(pack_bits((pattern > cut) | (equal & (nth_equal <= n_equal))))
        n_equal -= min(n_equal, int(nth_equal[-1]))
    return xp.concat(packed)


def indices_of_largest(values: Update, n_largest: int) -> Indices:
    """Return the entries that `largest` marks, ascending."""
    return indices_of(largest(values, n_largest), values.shape[0])


def _to_float32(part: Update) -> Array:
    xp = array_namespace(part)
    if part.dtype == xp.float32:
        return part
    with np.errstate(over="ignore"):  # beyond float32 is its infinity, as in C
        return xp.astype(part, xp.float32)


def _pattern(part: Update) -> Array:
    """Return the bit patterns of ``|part|`` as int64, which order like ``|part|``."""
    xp = array_namespace(part)
    if part.dtype == xp.float32:
        return xp.astype(part.view(xp.int32), xp.int64) & 0x7FFF_FFFF
    return part.view(xp.int64) & 0x7FFF_FFFF_FFFF_FFFF


def _find_cut(values: Update, n_largest: int) -> tuple[int, int]:
    """Return the ``n_largest``-th largest pattern, and how many equal ones to take.

    The pattern is found 16 bits at a time, leading bits first: a histogram of the next
    16 bits of all entries that begin like the cut tells which ones the cut has.
    """
    xp = array_namespace(values)
    cut, n_wanted = 0, n_largest
    n_bits = 32 if values.dtype == xp.float32 else 64
    for shift in range(n_bits - _DIGIT_BITS, -1, -_DIGIT_BITS):
        counts = xp.zeros(_N_DIGITS, dtype=xp.int64, device=device(values))
        for start, stop in chunks(values.shape[0], values):
            prefix = _pattern(values[start:stop]) >> shift
            digits = prefix[prefix >> _DIGIT_BITS == cut] & (_N_DIGITS - 1)
            counts = counts + xp.bincount(digits, minlength=_N_DIGITS)
        # at_least[i] entries have one of the i + 1 largest digits.
        at_least = xp.cumulative_sum(xp.flip(counts))
        place = int(xp.count_nonzero(at_least < n_wanted))
        digit = _N_DIGITS - 1 - place
        n_wanted -= int(at_least[place]) - int(counts[digit])
        cut = (cut << _DIGIT_BITS) | digit
    return cut, n_wanted
