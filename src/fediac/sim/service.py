"""How long a server works on a packet: any distribution, as a table of quantiles.

A table holds the quantiles at multiples of 2**-16 in picoseconds, and a random word is
looked up in it with linear interpolation. So every distribution costs the same, and C
and NumPy draw equal times. The two outermost cells, where a quantile may be infinite,
get the end that keeps the distribution's mean.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import log1p, ndtr, ndtri

from fediac.errors import ArgumentError
from fediac.sim.clock import PS_PER_S
from fediac.sim.draws import Ints

Floats: TypeAlias = NDArray[np.float64]
Anything: TypeAlias = Any

N_CELLS = 1 << 16
MAX_SERVICE_PS = 1 << 45
"""The longest service of a packet, half a minute: products in the lookup must fit."""

FAST_S, SLOW_S = 3.03e-7, 3.03e-6
"""Mean time for a packet of the paper's switches (Sec. V-A)."""

PAPER_STD_S = 2.15e-8
"""The paper calls it the variance, but that would far exceed the squared means."""

_N_HALVINGS = 64
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


class Distribution(Protocol):
    """The part of a frozen SciPy distribution that is used here."""

    def cdf(self, x: Anything, /) -> Anything:
        """Return the probability of at most ``x``."""
        ...

    def ppf(self, q: Anything, /) -> Anything:
        """Return the quantile of ``q``."""
        ...

    def isf(self, q: Anything, /) -> Anything:
        """Return the quantile of 1 − ``q``."""
        ...


@dataclass(frozen=True, slots=True)
class _Gaussian:
    """``scipy.stats.norm``, to the bit; importing that takes half a second."""

    mean: float
    std: float

    def cdf(self, x: Anything, /) -> Anything:
        return ndtr((x - self.mean) / self.std)

    def ppf(self, q: Anything, /) -> Anything:
        return ndtri(q) * self.std + self.mean

    def isf(self, q: Anything, /) -> Anything:
        return -ndtri(q) * self.std + self.mean


@dataclass(frozen=True, slots=True)
class _Exponential:
    """``scipy.stats.expon``, to the bit, from 0 on."""

    mean: float

    def cdf(self, x: Anything, /) -> Anything:
        return -np.expm1(-x / self.mean)

    def ppf(self, q: Anything, /) -> Anything:
        return -log1p(-q) * self.mean

    def isf(self, q: Anything, /) -> Anything:
        return -np.log(q) * self.mean


@dataclass(frozen=True, slots=True, eq=False)
class Service:
    """The time a server takes for a packet.

    Attributes:
        name: In words.
        table: Quantiles at multiples of 2**-16, in picoseconds, ascending.
    """

    name: str
    table: Ints

    @property
    def mean_s(self) -> float:
        """The mean of the drawn times."""
        middles = (self.table[1:] + self.table[:-1]) / 2.0
        return float(middles.mean()) / PS_PER_S

    @property
    def variance_s2(self) -> float:
        """The variance of the drawn times, in square seconds."""
        middles = (self.table[1:] + self.table[:-1]) / 2.0
        inside = np.diff(self.table).astype(np.float64) ** 2 / 12.0
        return float(middles.var() + inside.mean()) / PS_PER_S**2


@lru_cache(maxsize=64)
def deterministic(time_s: float) -> Service:
    """Return a service that always takes ``time_s``."""
    ps = _check_mean(time_s) * PS_PER_S
    return _to_service(f"deterministic, {time_s:g} s", np.full(N_CELLS + 1, ps))


@lru_cache(maxsize=64)
def exponential(mean_s: float) -> Service:
    """Return a service with exponential times."""
    name = f"exponential, mean {mean_s:g} s"
    return from_distribution(_Exponential(_check_mean(mean_s)), name=name)


@lru_cache(maxsize=64)
def gaussian(mean_s: float, std_s: float = PAPER_STD_S) -> Service:
    """Return a service with Gaussian times, truncated at > 0.

    Where ``std_s`` is not small against ``mean_s``, truncation raises the mean.
    """
    _check_mean(mean_s)
    if not 0.0 < std_s < math.inf:
        raise ArgumentError("std_s", f"must be finite and above 0, got {std_s}")
    return from_distribution(
        _Gaussian(mean_s, std_s),
        name=f"Gaussian, mean {mean_s:g} s, standard deviation {std_s:g} s",
    )


def from_distribution(distribution: Distribution, *, name: str) -> Service:
    """Return the service of any frozen SciPy distribution in seconds, given > 0."""
    below = float(distribution.cdf(0.0))
    if not 0.0 <= below < 1.0:
        raise ValueError(f"service must be above 0 with some probability: {name}")

    def lower(probability: Floats) -> Floats:
        shifted = below + probability * (1.0 - below)
        return np.asarray(distribution.ppf(shifted), np.float64)

    def upper(probability: Floats) -> Floats:
        return np.asarray(distribution.isf(probability * (1.0 - below)), np.float64)

    half = N_CELLS // 2
    steps = np.arange(1, half + 1) / N_CELLS
    quantiles = np.concatenate(
        [np.zeros(1), lower(steps), upper(steps[-2::-1]), np.zeros(1)]
    )
    quantiles[0] = max(0.0, 2.0 * _end_mean(lower) - quantiles[1])
    quantiles[-1] = max(quantiles[-2], 2.0 * _end_mean(upper) - quantiles[-2])
    return _to_service(name, quantiles * PS_PER_S)


def paper_switch(name: str, *, is_variance_literal: bool = False) -> Service:
    """Return the paper's ``fast`` or ``slow`` switch (Sec. V-A).

    Args:
        name: fast or slow.
        is_variance_literal: Take 2.15e-8 as the variance in square seconds, as the
            paper writes it; half of all times would be below 0, so truncation makes
            the mean 1.2e-4 s. By default it is the standard deviation in seconds.
    """
    means = {"fast": FAST_S, "slow": SLOW_S}
    if name not in means:
        raise ArgumentError("switch", f"must be fast or slow, got {name!r}")
    std = math.sqrt(PAPER_STD_S) if is_variance_literal else PAPER_STD_S
    return gaussian(means[name], std)


def switch_of_rate(packets_per_s: float) -> Service:
    """Return a switch with the given rate and the relative spread of the fast one."""
    if not 0.0 < packets_per_s < math.inf:
        raise ArgumentError(
            "packets_per_s", f"must be finite and above 0, got {packets_per_s}"
        )
    mean = 1.0 / packets_per_s
    return gaussian(mean, mean * (PAPER_STD_S / FAST_S))


def _check_mean(mean_s: float) -> float:
    if not 0.0 < mean_s < math.inf:
        raise ArgumentError("mean_s", f"must be finite and above 0, got {mean_s}")
    return mean_s


def _end_mean(quantile: Callable[[Floats], Floats]) -> float:
    """Return the mean of a quantile function over the outermost cell.

    The cell is cut in halves toward the end, since the function may go to infinity
    there, as slowly as a logarithm for all usual distributions.
    """
    total = 0.0
    right = 1.0 / N_CELLS
    for _ in range(_N_HALVINGS):
        left = right / 2.0
        places = (left + right) / 2.0 + (right - left) / 2.0 * _NODES
        total += float(np.sum(_WEIGHTS * quantile(places))) * (right - left) / 2.0
        right = left
    return total * N_CELLS


def _to_service(name: str, quantiles_ps: Floats) -> Service:
    if not np.isfinite(quantiles_ps).all() or quantiles_ps.max() > MAX_SERVICE_PS:
        raise ValueError(
            f"service times must be below {MAX_SERVICE_PS / PS_PER_S:.0f} s: {name}"
        )
    table = np.maximum(np.rint(quantiles_ps), 1.0).astype(np.int64)
    return Service(name, np.maximum.accumulate(table))
