"""How far chance goes: what correct code exceeds less than once in a million runs.

Every test of this folder makes one decision from many counts, so a single count may
be as rare as ``FALSE_ALARM`` over their number (Bonferroni). Correct code fails a test
with probability below ``FALSE_ALARM`` for whatever seed; nothing here is tuned. What a
check must catch is an error of twice its margin: that is missed as seldom.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

FALSE_ALARM = 1e-6


def counts_are_likely(counts: ArrayLike, n: ArrayLike, p: ArrayLike) -> bool:
    """Return whether each count may come from Binomial(n, p), by its exact tails."""
    counts, n, p = np.broadcast_arrays(counts, n, p)
    below = binom.cdf(counts, n, p)
    above = binom.sf(counts - 1, n, p)
    rarest = float(np.min(2.0 * np.minimum(below, above)))
    return rarest >= FALSE_ALARM / counts.size


def hoeffding(n: ArrayLike, *, n_checks: int = 1) -> Any:
    """Return how far the mean of ``n`` values in a unit interval may be off.

    It holds for independent values, and for negatively associated ones such as the
    occupied bins of thrown balls (Dubhashi and Ranjan, 1998).
    """
    n = np.asarray(n, dtype=np.float64)
    return np.sqrt(math.log(2.0 * n_checks / FALSE_ALARM) / (2.0 * n))


def means_are_likely(means: NDArray[Any], expected: ArrayLike, n: ArrayLike) -> bool:
    """Return whether means of ``n`` values in unit intervals are as expected."""
    bound = hoeffding(n, n_checks=means.size)
    return bool(np.all(np.abs(means - expected) <= bound))
