import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fediac.core.powerlaw import (
    N_RANKS,
    PowerLaw,
    fit_power_law,
    log_spaced_ranks,
)
from tests.support import refuses

Make = Callable[[NDArray[Any]], Any]


@pytest.fixture(params=["numpy", "torch"])
def make(request: pytest.FixtureRequest) -> Make:
    return torch.from_numpy if request.param == "torch" else np.asarray


def exact_law(dim: int, alpha: float, phi: float = 0.32) -> NDArray[np.float32]:
    magnitudes = phi * np.arange(1.0, dim + 1.0) ** alpha
    rng = np.random.default_rng(dim)
    signs = rng.choice([-1.0, 1.0], size=dim)
    return rng.permutation(signs * magnitudes).astype(np.float32)


def alpha_tolerance(dim: int) -> float:
    """How far off α may be when every log-magnitude is off by one bin's width.

    An estimate lies in the same bin as the magnitude, so their logarithms differ by at
    most log(1 + 2^-7), and by 2^-24 for rounding to float32. The slope of least
    squares is Σ(x−x̄)y / Σ(x−x̄)², linear in y.
    """
    x = np.log(log_spaced_ranks(dim))
    x = x - x.mean()
    error = math.log1p(2.0**-7) + 2.0**-24
    return float(error * np.sum(np.abs(x)) / np.sum(x * x))


@pytest.mark.parametrize("alpha", [-0.1, -0.37, -1.0, -2.5])
@pytest.mark.parametrize("dim", [30, 1000, 200_000])
def test_an_exact_power_law_is_recovered(make: Make, dim: int, alpha: float) -> None:
    tolerance = alpha_tolerance(dim)
    assert tolerance < 0.01
    fit = fit_power_law(make(exact_law(dim, alpha)))
    assert fit.alpha == pytest.approx(alpha, abs=tolerance)
    # log φ is the mean log-magnitude minus α times the mean log-rank.
    mean_log_rank = float(np.log(log_spaced_ranks(dim)).mean())
    log_tolerance = math.log1p(2.0**-7) + 2.0**-24 + tolerance * mean_log_rank
    assert math.log(fit.phi / 0.32) == pytest.approx(0.0, abs=log_tolerance)
    assert fit.misfit < math.log1p(2.0**-7) + 2.0**-24


def test_the_peak_is_the_largest_magnitude_itself(make: Make) -> None:
    values = np.array([0.1, -0.7, 0.3], np.float32)
    assert fit_power_law(make(values)).peak == float(np.float32(0.7))


def test_a_known_peak_is_kept(make: Make) -> None:
    assert fit_power_law(make(np.ones(3, np.float32)), peak=5.0).peak == 5.0


def test_zeros_are_left_out(make: Make) -> None:
    values = exact_law(1000, -0.5)
    with_zeros = np.concatenate([np.zeros(5000, np.float32), values])
    assert fit_power_law(make(with_zeros)) == fit_power_law(make(values))


def test_float32_and_float64_of_equal_values_fit_alike(make: Make) -> None:
    values = exact_law(1000, -0.5)
    assert fit_power_law(make(values)) == fit_power_law(make(values.astype(np.float64)))


def test_numpy_and_torch_fit_to_the_last_bit() -> None:
    values = np.random.default_rng(3).standard_normal(200_000).astype(np.float32)
    assert fit_power_law(values) == fit_power_law(torch.from_numpy(values))


def test_misfit_is_the_size_of_a_departure_from_the_law() -> None:
    # Ranks are alternately e^0.3 above and below the law, and so few that all are
    # fitted: the rms of residuals is near 0.3.
    dim = 12
    assert log_spaced_ranks(dim).tolist() == list(range(1, dim + 1))
    law = np.arange(1.0, dim + 1.0) ** -8.0
    wiggled = law * np.exp(0.3 * (-1.0) ** np.arange(dim))
    assert np.all(np.diff(wiggled) < 0.0)
    # The best line follows the wiggle a little, so compare with NumPy's best line.
    x = np.log(np.arange(1.0, dim + 1.0))
    design = np.stack([np.ones(dim), x], axis=1)
    residuals = np.log(wiggled) - design @ np.linalg.lstsq(design, np.log(wiggled))[0]
    expected = float(np.sqrt(np.mean(residuals**2)))
    assert 0.25 < expected < 0.3
    fit = fit_power_law(wiggled.astype(np.float32))
    # rms is a norm: changing every log-magnitude by one bin changes it by no more.
    assert fit.misfit == pytest.approx(expected, abs=math.log1p(2.0**-7) + 2.0**-24)


def test_a_constant_update_is_nearly_flat() -> None:
    fit = fit_power_law(np.full(1000, 0.5, np.float32))
    assert -alpha_tolerance(1000) <= fit.alpha < 0.0


@pytest.mark.parametrize("n_ranked", [2, 3, 17, 1000, 11_173_962, 10**10])
def test_ranks_are_distinct_ascending_and_in_range(n_ranked: int) -> None:
    ranks = log_spaced_ranks(n_ranked)
    assert 2 <= len(ranks) <= N_RANKS
    assert ranks[0] == 1
    assert ranks[-1] <= n_ranked
    assert np.all(np.diff(ranks) > 0)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            [0.0, 0.0, 0.0],
            "values must have at least 2 non-zero entries to fit a power law, got 0",
        ),
        ([], "values must have at least 2 non-zero entries to fit a power law, got 0"),
        (
            [0.0, 4.0],
            "values must have at least 2 non-zero entries to fit a power law, got 1",
        ),
        (
            [1.0, math.nan, math.inf],
            "values must be finite in float32, got 2 that are not",
        ),
    ],
)
def test_an_update_without_a_law_is_refused(
    make: Make, values: list[float], message: str
) -> None:
    with refuses(message):
        fit_power_law(make(np.array(values, np.float32)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": 0.0}, "alpha must be finite and below 0, got 0.0"),
        ({"alpha": -math.inf}, "alpha must be finite and below 0, got -inf"),
        ({"phi": 0.0}, "phi must be finite and above 0, got 0.0"),
        ({"peak": math.nan}, "peak must be finite and above 0, got nan"),
        ({"misfit": -1.0}, "misfit must be finite and at least 0, got -1.0"),
    ],
)
def test_a_law_that_cannot_be_is_refused(
    settings: dict[str, float], message: str
) -> None:
    with refuses(message):
        PowerLaw(**({"alpha": -0.5, "phi": 1.0, "peak": 1.0} | settings))
