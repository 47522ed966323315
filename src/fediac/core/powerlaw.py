"""Round 1, client side: the power law that an update's sorted magnitudes follow.

The theory in `bounds` rests on |U{l}| = φ·l^α for the l-th largest magnitude
(Definition 1 of the paper). Here α and φ are read off an update without sorting it.
"""

import math
from dataclasses import dataclass

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from fediac.core.chunks import chunks
from fediac.core.magnitudes import pattern_counts
from fediac.core.types import Update
from fediac.errors import ArgumentError

N_RANKS = 256
"""Ranks that a fit looks at, at most."""

_FIRST_NONFINITE = 0x7F80


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """The law |U{l}| = φ·l^α over the ranks l = 1, 2, … of one update.

    Attributes:
        alpha: α < 0, the decay exponent.
        phi: φ, the law's magnitude at rank 1.
        peak: The largest magnitude there really is; it may be far from φ.
        misfit: Root mean square of log|U{l}| − log(φ·l^α) over the ranks of the fit.
            0.1 means that magnitudes are about 10 % off the law.
    """

    alpha: float
    phi: float
    peak: float
    misfit: float = 0.0

    def __post_init__(self) -> None:
        if not -math.inf < self.alpha < 0.0:
            raise ArgumentError(
                "alpha", f"must be finite and below 0, got {self.alpha}"
            )
        for name in ("phi", "peak"):
            value = getattr(self, name)
            if not 0.0 < value < math.inf:
                raise ArgumentError(name, f"must be finite and above 0, got {value}")
        if not 0.0 <= self.misfit < math.inf:
            raise ArgumentError(
                "misfit", f"must be finite and at least 0, got {self.misfit}"
            )


def fit_power_law(values: Update, *, peak: float | None = None) -> PowerLaw:
    """Return the power law nearest to an update's magnitudes.

    Least squares of log|U{l}| on log l over log-spaced ranks: each decade of ranks
    counts alike, where a fit over all ranks would be one of the tail. Magnitudes come
    from a histogram whose bins are 1/128 wide, so none is off by more than that.

    Args:
        values: The corrected update.
        peak: The largest magnitude, if known already; it is looked for otherwise.

    Raises:
        ValueError: Fewer than two entries are not zero, or some are not finite.
            Magnitudes below 2**-133 count as zero.
    """
    counts = np.asarray(pattern_counts(values).tolist(), dtype=np.int64)
    _check_counts(counts)
    ranks = log_spaced_ranks(int(counts[1:].sum()))
    log_ranks = np.log(ranks.astype(np.float64))
    log_magnitudes = _log_magnitudes(counts, ranks)
    x, y = log_ranks - log_ranks.mean(), log_magnitudes - log_magnitudes.mean()
    alpha: float = np.sum(x * y) / np.sum(x * x)
    log_phi: float = log_magnitudes.mean() - alpha * log_ranks.mean()
    mean_square: float = np.mean((y - alpha * x) ** 2)
    return PowerLaw(
        alpha=float(alpha),
        phi=math.exp(log_phi),
        peak=_find_peak(values) if peak is None else peak,
        misfit=math.sqrt(mean_square),
    )


def log_spaced_ranks(n_ranked: int) -> NDArray[np.int64]:
    """Return at most `N_RANKS` ranks in ``1..n_ranked``, from 1 on.

    They are the middles of equal steps of log l. The very last rank is left out when
    there are many: the smallest magnitude is nearly zero, its logarithm anything.
    """
    middles = (np.arange(N_RANKS) + 0.5) / N_RANKS * math.log(n_ranked)
    return np.unique(np.rint(np.exp(middles)).astype(np.int64))


def _check_counts(counts: NDArray[np.int64]) -> None:
    n_nonfinite = int(counts[_FIRST_NONFINITE:].sum())
    if n_nonfinite:
        raise ArgumentError(
            "values", f"must be finite in float32, got {n_nonfinite} that are not"
        )
    n_nonzero = int(counts[1:].sum())
    if n_nonzero < 2:
        raise ArgumentError(
            "values",
            "must have at least 2 non-zero entries to fit a power law, "
            f"got {n_nonzero}",
        )


def _log_magnitudes(
    counts: NDArray[np.int64], ranks: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return log|U{l}| for each rank, interpolated inside its bin by rank.

    The n entries of a bin are taken to divide it evenly on the log scale: the i-th
    largest stands (i − ½)/n of the way down.
    """
    patterns = np.arange(1, _FIRST_NONFINITE + 1, dtype=np.uint32) << 16
    edges = patterns.view(np.float32).astype(np.float64)
    edges[-1] = 2.0**128  # where the first bin that is not finite begins
    log_edges = np.log(edges)
    # Bins from the largest magnitudes down; bin 0 holds the zeros and stays out.
    falling = counts[_FIRST_NONFINITE - 1 : 0 : -1]
    n_up_to = np.cumsum(falling)
    places = np.searchsorted(n_up_to, ranks)
    n_inside = falling[places]
    down = (ranks - (n_up_to[places] - n_inside) - 0.5) / n_inside
    tops = log_edges[::-1][places]
    bottoms = log_edges[::-1][places + 1]
    return np.asarray(tops + down * (bottoms - tops))


def _find_peak(values: Update) -> float:
    xp = array_namespace(values)
    return max(
        float(xp.max(xp.abs(values[start:stop])))
        for start, stop in chunks(values.shape[0], values)
    )
