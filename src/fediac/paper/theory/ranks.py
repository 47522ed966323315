"""Entries by rank: an update's magnitudes from the largest down, and sums over ranks.

Everything the theory says is about ranks, of which there are millions. They are grouped
twice: into bins, which are shown, and into steps inside the bins, so fine that whatever
depends on a magnitude may be taken at the step's mean.
"""

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from fediac.core.types import Array, Update

Floats: TypeAlias = NDArray[np.float64]
Ranks: TypeAlias = NDArray[np.int64]

BINS_PER_DECADE = 8
STEPS_PER_DECADE = 512
"""A step is 0.45 % of its rank wide; the first 200 ranks or so have one each."""


@dataclass(frozen=True, slots=True)
class RankGrid:
    """The ranks 1..dim in bins, and in finer steps.

    Attributes:
        edges: First rank of every bin, ascending from 1, and ``dim + 1``.
        steps: The same of every step; every edge of a bin is among them.
    """

    edges: Ranks
    steps: Ranks

    @classmethod
    def of(cls, dim: int) -> "RankGrid":
        """Return the grid for ``dim`` ranks."""
        if dim < 1:
            raise ValueError(f"dim must be at least 1, got {dim}")
        edges = _log_spaced(dim, BINS_PER_DECADE)
        return cls(edges, np.union1d(edges, _log_spaced(dim, STEPS_PER_DECADE)))

    @property
    def lengths(self) -> Ranks:
        """Ranks in every step."""
        return np.diff(self.steps)

    @property
    def middles(self) -> Floats:
        """The mean rank of every step."""
        return np.asarray((self.steps[1:] + self.steps[:-1] - 1) / 2.0)

    def bin_means(self, values: Floats) -> Floats:
        """Return the mean over the ranks of every bin, given one value a step."""
        starts = np.searchsorted(self.steps, self.edges[:-1])
        totals = np.add.reduceat(values * self.lengths, starts)
        return np.asarray(totals / np.diff(self.edges))

    def bin_means_of(self, ranked: Array) -> Floats:
        """Return the mean over the ranks of every bin, given one value a rank."""
        return sums_between(ranked, self.edges) / np.diff(self.edges)


def sort_by_rank(values: Update) -> Array:
    """Return the entries' numbers, that of the largest magnitude first.

    One client's at a time: a sort needs room for a copy and the numbers.
    """
    xp = array_namespace(values)
    return xp.argsort(xp.abs(values), descending=True, stable=True)


def sums_between(ranked: Array, edges: Ranks) -> Floats:
    """Return the sums of ``ranked`` from each edge to the next, as float64.

    Args:
        ranked: One value a rank; also booleans.
        edges: Ascending ranks from 1 on, the last one past the end of a sum.
    """
    xp = array_namespace(ranked)
    up_to = xp.cumulative_sum(xp.astype(ranked, xp.float64))
    places = xp.asarray(edges[1:] - 2, device=device(ranked))
    ends = np.asarray(up_to[places].tolist(), dtype=np.float64)
    return np.diff(ends, prepend=0.0)


def _log_spaced(dim: int, n_per_decade: int) -> Ranks:
    """Return ranks from 1 to ``dim + 1`` at equal steps of log l, each once."""
    last = math.log10(dim + 1)
    n_steps = max(1, math.ceil(last * n_per_decade))
    ranks = np.rint(10.0 ** np.linspace(0.0, last, n_steps + 1)).astype(np.int64)
    ranks[-1] = dim + 1
    return np.unique(ranks)
