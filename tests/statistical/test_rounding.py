"""Stochastic rounding: unbiased, of the variance it must have, independent."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fediac.core.quantize import Grid, stochastic_round
from fediac.core.rng import Stream
from tests.statistical.tails import counts_are_likely, means_are_likely

Rounding = Callable[[NDArray[Any], Stream], NDArray[np.int64]]

N = 100_000
GRID = Grid(scale=1.0, limit=1000, bits_up=16, bits_down=16)
VALUES = [-7.9, -3.5, -1.0, -0.25, -0.001, 0.001, 0.3, 2.5, 6.0, 41.99]
STREAM = Stream(11, 2, 3).purpose("rounding")


def by_the_package(values: NDArray[Any], stream: Stream) -> NDArray[np.int64]:
    levels: NDArray[np.int64] = stochastic_round(
        values, np.arange(len(values)), GRID, stream
    )
    return levels


def to_the_nearest(values: NDArray[Any], stream: Stream) -> NDArray[np.int64]:
    del stream
    levels: NDArray[np.int64] = np.rint(values).astype(np.int64)
    return levels


def away_from_zero(values: NDArray[Any], stream: Stream) -> NDArray[np.int64]:
    """Unbiased for positive values, and wrong by the sign for negative ones."""
    unit = stream.uniform_at(np.arange(len(values)))
    whole = np.trunc(values)
    levels: NDArray[np.int64] = (whole + (unit < np.abs(values - whole))).astype(
        np.int64
    )
    return levels


def in_pairs(values: NDArray[Any], stream: Stream) -> NDArray[np.int64]:
    """Unbiased, but two neighbours share a random number."""
    unit = stream.uniform_at(np.arange(len(values)) // 2)
    floor = np.floor(values)
    levels: NDArray[np.int64] = (floor + (unit < values - floor)).astype(np.int64)
    return levels


def ups(rounding: Rounding, value: float, stream: Stream = STREAM) -> NDArray[np.bool_]:
    """Which of many equal entries are rounded up; the others must be rounded down."""
    up = rounding(np.full(N, value), stream) - int(np.floor(value))
    assert np.all((up == 0) | (up == 1))
    return up.astype(np.bool_)


def fraction(value: float) -> float:
    return float(value - np.floor(value))


# Must catch a probability that is off by 0.017: with 100,000 entries and ten counts the
# margin is 5.3 standard deviations of at most 0.0016.
def is_unbiased(rounding: Rounding) -> bool:
    counts = [np.count_nonzero(ups(rounding, value)) for value in VALUES]
    return counts_are_likely(counts, N, [fraction(value) for value in VALUES])


def test_rounding_is_unbiased() -> None:
    assert is_unbiased(by_the_package)


@pytest.mark.parametrize("wrong", [to_the_nearest, away_from_zero])
def test_biased_rounding_is_found(wrong: Rounding) -> None:
    def clipped(values: NDArray[Any], stream: Stream) -> NDArray[np.int64]:
        floor = np.floor(values)
        return np.clip(wrong(values, stream), floor, floor + 1).astype(np.int64)

    assert not is_unbiased(clipped)


# Must catch a variance that is off by 0.019: Hoeffding's bound on the mean of 100,000
# squared errors, each below 1, is 0.0092 for one of ten values.
def has_the_variance_of_a_coin(rounding: Rounding) -> bool:
    fractions = np.array([fraction(value) for value in VALUES])
    errors = [
        np.mean(np.square(rounding(np.full(N, value), STREAM) - value))
        for value in VALUES
    ]
    return means_are_likely(np.array(errors), fractions * (1.0 - fractions), N)


def test_variance_is_that_of_a_coin() -> None:
    assert has_the_variance_of_a_coin(by_the_package)


def test_wrong_variance_is_found() -> None:
    assert not has_the_variance_of_a_coin(to_the_nearest)


# Must catch a probability that is off by 0.019: of 50,000 pairs of neighbours 0.25 go
# up together, with a standard deviation of 0.0019, and the margin is 4.9 of these.
def are_neighbours_independent(rounding: Rounding) -> bool:
    up = ups(rounding, 2.5)
    together = np.count_nonzero(up[::2] & up[1::2])
    return counts_are_likely(together, N // 2, 0.25)


def test_neighbours_are_rounded_independently() -> None:
    assert are_neighbours_independent(by_the_package)


def test_neighbours_that_share_a_number_are_found() -> None:
    assert is_unbiased(in_pairs)
    assert not are_neighbours_independent(in_pairs)


@pytest.mark.parametrize(
    "other",
    [
        Stream(11, 2, 4).purpose("rounding"),
        Stream(11, 3, 3).purpose("rounding"),
        Stream(12, 2, 3).purpose("rounding"),
        Stream(11, 2, 3).purpose("votes"),
    ],
    ids=["client", "round", "seed", "purpose"],
)
def test_entry_is_rounded_independently_of_itself_elsewhere(other: Stream) -> None:
    # Must catch a probability that is off by 0.009: 0.09 of 100,000 entries go up
    # twice, with a standard deviation of 0.0009, and the margin is 4.9 of these.
    twice = ups(by_the_package, 0.3) & ups(by_the_package, 0.3, other)
    assert counts_are_likely(np.count_nonzero(twice), N, 0.09)
    # The control: the same stream again goes up together 0.3 of the time.
    same = ups(by_the_package, 0.3) & ups(by_the_package, 0.3)
    assert not counts_are_likely(np.count_nonzero(same), N, 0.09)
