"""Axes: round ticks, nothing outside, and sense for any numbers."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fediac.report.figures.scales import (
    Scale,
    fit,
    fit_from_zero,
    fit_log,
    wants_log,
)

NUMBERS = st.lists(st.floats(1e-9, 1e12), min_size=1, max_size=20)


def test_ticks_are_round_numbers() -> None:
    assert fit_from_zero([589.0]).ticks == (0.0, 100.0, 200.0, 300.0, 400.0, 500.0)
    scale = fit([0.16, 0.72])
    assert (scale.low, scale.high) == pytest.approx((0.1, 0.8))
    assert scale.ticks == pytest.approx((0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8))


def test_log_ticks_are_powers_or_their_parts() -> None:
    assert fit_log([3.0, 4_000.0]).ticks == (10.0, 100.0, 1_000.0)
    assert fit_log([3.0, 70.0]).ticks == (5.0, 10.0, 20.0, 50.0)


@given(NUMBERS)
def test_values_lie_between_the_ends(values: list[float]) -> None:
    for scale in (fit(values), fit_from_zero(values), fit_log(values)):
        for value in (*values, *scale.ticks):
            # Both ends are sums or products of a few roundings of 2^-53.
            assert -1e-9 <= scale.share(value) <= 1.0 + 1e-9
        assert 1 <= len(scale.ticks) <= 10


@given(NUMBERS)
@example([1e-9, 1.0000000000000003e-9])  # their logarithms are equal
def test_places_keep_the_order(values: list[float]) -> None:
    scale = fit_log(values)
    places = [scale.share(value) for value in sorted(values)]
    assert places == sorted(places)


def test_one_value_gets_room() -> None:
    for scale in (fit([5.0]), fit_log([5.0]), fit([0.0]), fit_from_zero([0.0])):
        assert scale.low < scale.high
    assert fit([]).high == 1.0


def test_far_apart_values_want_a_logarithm() -> None:
    assert wants_log([1.0, 50.0])
    assert not wants_log([10.0, 50.0])
    assert not wants_log([0.0, 50.0])
    assert not wants_log([])


def test_logarithmic_share_is_by_factors() -> None:
    scale = Scale(1.0, 100.0, (), is_log=True)
    assert math.isclose(scale.share(10.0), 0.5)
