"""The start of a client's round: update + residual, and facts about it."""

from dataclasses import dataclass

import numpy as np
from array_api_compat import array_namespace

from fediac import native
from fediac.core.chunks import chunks
from fediac.core.exact import block_sums, tree_sum
from fediac.core.types import Array, Update

MAX_MAGNITUDE = 2.0**100
"""Entries beyond this are refused, in float64 updates too: peaks travel as float32.

Below it nothing a round makes can leave float32. In the narrowest lanes a level stands
for up to ``n_clients`` peaks, so means and residuals stay below 2**111.
"""


@dataclass(frozen=True, slots=True)
class Corrected:
    """A client's corrected update U = update + residual, and its facts.

    Attributes:
        values: U itself.
        mass: Σ|U|, which turns magnitudes into voting probabilities.
        peak: max|U|, which all clients agree on to quantize alike.
        energy: ΣU², against which the compression error is measured.
        n_nonfinite: Entries that are NaN, infinite or beyond `MAX_MAGNITUDE`; the other
            facts mean nothing unless this is zero.
    """

    values: Update
    mass: float
    peak: float
    energy: float
    n_nonfinite: int


# What is not finite is counted and refused; NumPy need not warn of it as well.
@np.errstate(over="ignore", invalid="ignore")
def correct(
    update: Update, residual: Update | None, *, out: Update | None = None
) -> Corrected:
    """Return ``update + residual`` and its facts, read in one pass.

    Args:
        update: This round's model change.
        residual: What earlier rounds left unsent; None counts as zero.
        out: Where to put the sum; it may be ``residual`` itself. Without it and
            without a residual the sum is ``update``, not a copy.
    """
    xp = array_namespace(update)
    if out is None:
        out = update if residual is None else xp.empty_like(update)
    kernels = native.kernels_for(update, residual, out)
    if kernels is not None:
        facts = kernels.first_pass(update, residual, out)
        return Corrected(out, *facts)
    masses, energies, peak, n_nonfinite = [], [], 0.0, 0
    for start, stop in chunks(update.shape[0], update):
        part = _add(update, residual, start, stop)
        if out is not update:
            out[start:stop] = part
        n_nonfinite += _count(part)
        magnitudes = xp.astype(xp.abs(part), xp.float64)
        masses.append(block_sums(magnitudes))
        energies.append(block_sums(magnitudes * magnitudes))
        peak = max(peak, float(xp.max(magnitudes)))
    if not masses:
        return Corrected(out, 0.0, 0.0, 0.0, 0)
    mass, energy = tree_sum(xp.concat(masses)), tree_sum(xp.concat(energies))
    return Corrected(out, mass, peak, energy, n_nonfinite)


@np.errstate(over="ignore", invalid="ignore")
def count_nonfinite(update: Update, residual: Update | None) -> int:
    """Return how many entries of ``update + residual`` are unusable in a round.

    `correct` counts them too, but it may already have written the sum over the
    residual by then. Callers who work in place look first.
    """
    kernels = native.kernels_for(update, residual)
    if kernels is not None:
        return int(kernels.count_nonfinite(update, residual))
    return sum(
        _count(_add(update, residual, start, stop))
        for start, stop in chunks(update.shape[0], update)
    )


def _add(update: Update, residual: Update | None, start: int, stop: int) -> Array:
    part = update[start:stop]
    return part if residual is None else part + residual[start:stop]


def _count(part: Array) -> int:
    """Return how many entries are NaN or beyond the largest magnitude."""
    xp = array_namespace(part)
    n_finite = int(xp.count_nonzero(xp.abs(part) <= MAX_MAGNITUDE))
    return len(part) - n_finite
