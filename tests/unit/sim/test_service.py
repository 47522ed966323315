"""Service times: any distribution in a table, with its mean and variance."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from scipy import stats

from fediac.sim import (
    Service,
    deterministic,
    exponential,
    from_distribution,
    gaussian,
    paper_switch,
    switch_of_rate,
)
from fediac.sim.service import FAST_S, N_CELLS, PAPER_STD_S, SLOW_S
from tests.support import refuses


@pytest.mark.parametrize(
    ("distribution", "mean_error", "variance_error"),
    [
        # Both tails of a Gaussian bend alike, so only half a picosecond is left.
        (stats.norm(3.03e-6, 2.15e-8), 2e-7, 1e-5),
        # A straight line is above a quantile function Q by h^2 Q''/12 on average in a
        # cell of width h = 2^-16. In a tail of scale t, Q'' = t/(1-u)^2: all cells add
        # up to at most t h pi^2/72 = 2.1e-6 t. In the last cell the variance is
        # (2t)^2/12 where it should be t^2, which makes 2/3 h = 1e-5 t^2 of the whole;
        # the lines make about as much the other way.
        (stats.expon(scale=3e-6), 2.5e-6, 2e-5),
        (stats.gamma(0.5, scale=1e-4), 5e-6, 4e-5),
        (stats.uniform(1e-6, 1e-6), 1e-9, 1e-9),
        # A heavier tail loses more variance in the last cell.
        (stats.lognorm(1.0, scale=1e-4), 2e-5, 1e-3),
    ],
)
def test_a_table_keeps_mean_and_variance(
    distribution: stats.rv_continuous, mean_error: float, variance_error: float
) -> None:
    service = from_distribution(distribution, name="test")
    assert service.mean_s == pytest.approx(distribution.mean(), rel=mean_error)
    assert service.variance_s2 == pytest.approx(distribution.var(), rel=variance_error)


def test_what_is_drawn_has_the_moments_of_the_table() -> None:
    service = exponential(1e-6)
    cells = np.arange(N_CELLS)
    # The middle of each cell's parts stands for all of them but for rounding down.
    times = (service.table[cells] + service.table[cells + 1]) / 2
    assert times.mean() * 1e-12 == pytest.approx(service.mean_s, rel=1e-12)


def test_deterministic_times_are_all_equal() -> None:
    service = deterministic(1.5e-6)
    assert set(service.table.tolist()) == {1_500_000}
    assert (service.mean_s, service.variance_s2) == (1.5e-6, 0.0)


def test_times_are_above_zero_however_wide_the_distribution() -> None:
    service = gaussian(1e-9, 1e-6)
    assert service.table[0] >= 1
    assert np.all(np.diff(service.table) >= 0)
    # The upper half of a Gaussian around zero has the mean std * sqrt(2 / pi).
    assert service.mean_s == pytest.approx(1e-6 * math.sqrt(2 / math.pi), rel=2e-3)


@pytest.mark.parametrize(("name", "mean"), [("fast", 3.03e-7), ("slow", 3.03e-6)])
def test_profiles_have_the_papers_numbers(name: str, mean: float) -> None:
    service = paper_switch(name)
    assert service.mean_s == pytest.approx(mean, rel=1e-6)
    assert math.sqrt(service.variance_s2) == pytest.approx(2.15e-8, rel=1e-4)
    assert (FAST_S, SLOW_S, PAPER_STD_S) == (3.03e-7, 3.03e-6, 2.15e-8)


def test_the_papers_variance_taken_literally_swamps_the_mean() -> None:
    service = paper_switch("fast", is_variance_literal=True)
    # Nearly half a Gaussian of standard deviation sqrt(2.15e-8).
    assert service.mean_s == pytest.approx(1.17e-4, rel=5e-3)


def test_a_switch_may_have_any_rate() -> None:
    service = switch_of_rate(1e6)
    assert service.mean_s == pytest.approx(1e-6, rel=1e-6)
    spread = math.sqrt(service.variance_s2) / service.mean_s
    assert spread == pytest.approx(2.15e-8 / 3.03e-7, rel=1e-4)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        *(
            (partial(make, mean), f"mean_s must be finite and above 0, got {mean}")
            for make in (deterministic, exponential, gaussian)
            for mean in (0.0, -1e-6, math.nan, math.inf)
        ),
        (
            partial(gaussian, 1e-6, math.nan),
            "std_s must be finite and above 0, got nan",
        ),
        (partial(paper_switch, "quick"), "switch must be fast or slow, got 'quick'"),
        (
            partial(switch_of_rate, 0.0),
            "packets_per_s must be finite and above 0, got 0.0",
        ),
        (
            partial(from_distribution, stats.uniform(-2.0, 1.0), name="x"),
            "service must be above 0 with some probability: x",
        ),
        (
            partial(from_distribution, stats.pareto(0.5), name="heavy"),
            "service times must be below 35 s: heavy",
        ),
    ],
)
def test_what_is_no_time_is_refused(make: Callable[[], Service], text: str) -> None:
    with refuses(text):
        make()
