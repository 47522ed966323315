"""Phase 1, client side: choose entries by magnitude, with one vote bit per entry.

The paper's probability that entry ``l`` is voted for (Sec. IV-B, eq. 2 and 3) is
q = 1 − (1 − p)^k with p = |U_l| / Σ|U|: that of ``k`` draws with replacement. Three
laws are offered:

* ``bernoulli`` votes for each entry on its own with probability q. One pass over the
  update, any chunking; the number of votes varies a little. The default.
* ``draws`` makes the ``k`` draws. Same q for every entry, at most ``k`` votes.
* ``topk`` votes for the ``k`` largest entries that are not zero, no randomness.
"""

import math
from typing import Literal, get_args

from array_api_compat import array_namespace, device

from fediac import native
from fediac.core.bitpack import pack_bits
from fediac.core.chunks import chunks
from fediac.core.corrected import Corrected
from fediac.core.exact import divide
from fediac.core.magnitudes import largest
from fediac.core.rng import Stream, to_unit
from fediac.core.types import Array, Packed
from fediac.errors import ArgumentError

Law = Literal["bernoulli", "draws", "topk"]
LAWS: tuple[Law, ...] = get_args(Law)


def power(base: Array, exponent: int) -> Array:
    """Return ``base ** exponent`` by repeated squaring, least significant bit first.

    Multiplications in a fixed order round alike on every machine; a library's ``pow``
    does not.
    """
    result = None
    while exponent:
        if exponent & 1:
            result = base if result is None else result * base
        exponent >>= 1
        if exponent:
            base = base * base
    if result is None:
        raise ArgumentError("exponent", "must be at least 1, got 0")
    return result


def draw_votes(
    corrected: Corrected, n_votes: int, stream: Stream, *, law: Law = "bernoulli"
) -> Packed:
    """Return one client's votes as packed bits.

    Args:
        corrected: The update to vote on, finite.
        n_votes: k; how many entries to vote for, exactly or in the sense of the law.
        stream: Its purpose must be used for nothing else.
        law: One of `LAWS`; the module says what each does.
    """
    dim = corrected.values.shape[0]
    if not 1 <= n_votes <= dim:
        raise ArgumentError("n_votes", f"must be in 1..{dim} (dim), got {n_votes}")
    if law not in LAWS:
        raise ArgumentError("law", f"must be one of {', '.join(LAWS)}, got {law!r}")
    if corrected.mass == 0.0:
        return pack_bits(_zeros(corrected, dim))
    if law == "bernoulli":
        return _draw_bernoulli(corrected, n_votes, stream)
    if law == "draws":
        return _draw_with_replacement(corrected, n_votes, stream)
    return _vote_for_largest(corrected, n_votes)


def _vote_for_largest(corrected: Corrected, n_votes: int) -> Packed:
    """Return votes for the largest entries, except those that are zero.

    All clients would choose the same zeros, the first, and agree to send nothing.
    """
    values = corrected.values
    xp = array_namespace(values)
    parts = chunks(values.shape[0], values)
    nonzero = [pack_bits(values[start:stop] != 0.0) for start, stop in parts]
    return largest(values, n_votes) & xp.concat(nonzero)


def _zeros(corrected: Corrected, dim: int) -> Array:
    xp = array_namespace(corrected.values)
    return xp.zeros(dim, dtype=xp.bool, device=device(corrected.values))


def _draw_bernoulli(corrected: Corrected, n_votes: int, stream: Stream) -> Packed:
    values = corrected.values
    kernels = native.kernels_for(values)
    if kernels is not None:
        return kernels.draw_votes(values, corrected.mass, n_votes, stream)
    xp = array_namespace(values)
    packed = []
    for start, stop in chunks(values.shape[0], values):
        magnitudes = xp.astype(xp.abs(values[start:stop]), xp.float64)
        share = divide(magnitudes, corrected.mass)
        probability = 1.0 - power(1.0 - share, n_votes)
        unit = to_unit(stream.words(start, stop, like=values))
        packed.append(pack_bits(unit < probability))
    return xp.concat(packed)


def _draw_with_replacement(
    corrected: Corrected, n_votes: int, stream: Stream
) -> Packed:
    """Return the votes of ``n_votes`` draws, by inverting the cumulative magnitudes.

    Magnitudes are first made integers, so fine that their sum just fits 62 bits:
    integer sums are exact in any order, so every machine draws the same entries.
    """
    values = corrected.values
    xp = array_namespace(values)
    dim = values.shape[0]
    unit = 2.0 ** (62 - math.ceil(math.log2(dim + 1)))
    weights = xp.empty(dim, dtype=xp.int64, device=device(values))
    for start, stop in chunks(dim, values):
        magnitudes = xp.astype(xp.abs(values[start:stop]), xp.float64)
        share = divide(magnitudes, corrected.peak)
        weights[start:stop] = xp.astype(share * unit, xp.int64)
    cumulative = xp.cumulative_sum(weights)
    total = int(cumulative[-1])
    mask = _zeros(corrected, dim)
    for start, stop in chunks(n_votes, values):
        words = xp.reshape(stream.words(2 * start, 2 * stop, like=values), (-1, 2))
        unit53 = xp.astype((words[:, 0] << 21) | (words[:, 1] >> 11), xp.float64)
        targets = xp.astype(unit53 * 2.0**-53 * total, xp.int64)
        targets = xp.minimum(targets, xp.full_like(targets, total - 1))
        mask[xp.searchsorted(cumulative, targets, side="right")] = True
    return pack_bits(mask)
