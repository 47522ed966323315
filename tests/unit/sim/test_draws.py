"""Random integers of the simulator: exact, the same in C, in any order of asking."""

import math
from collections.abc import Iterator

import numpy as np
import pytest

from fediac.core.rng import Stream
from fediac.native import library, queueing
from fediac.sim import exponential, gaussian
from fediac.sim.compiled import _fill_draws
from fediac.sim.draws import UNIT, Draws, exponentials, service_times
from tests.planes import instruction_set

STREAM = Stream(5, 1, 3, "draws")
WORDS = np.array([0, 1, 2, 2**31 - 1, 2**31, 3037000499, 2**32 - 2, 2**32 - 1])


@pytest.fixture(params=library.ISAS)
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    with instruction_set(request.param):
        yield request.param


def test_an_exponential_is_the_logarithm_rounded() -> None:
    rng = np.random.default_rng(0)
    words = np.concatenate([WORDS, rng.integers(0, 2**32, 100_000)])
    exact = np.array(
        [-math.log((word + 0.5) / 2**32) * UNIT for word in words.tolist()]
    )
    # Rounding to whole units is half a unit off; the series 2**-46 * 2**32, and a
    # handful of roundings of numbers below 23 * 2**32 in doubles, under 2**-14.
    assert np.abs(exponentials(words) - exact).max() <= 0.5 + 2.0**-13


def test_the_largest_word_still_waits_and_the_smallest_is_finite() -> None:
    assert exponentials(WORDS)[-1] >= 0
    assert exponentials(WORDS)[0] == round(33 * math.log(2.0) * UNIT)


def test_a_service_time_is_interpolated_in_its_cell() -> None:
    table = np.arange(2**16 + 1) * 1000
    words = np.array([0, 0xFFFF, 0x10000, 0xFFFFFFFF])
    assert service_times(table, words).tolist() == [0, 999, 1000, 65_535_999]


@pytest.mark.parametrize("table", [None, gaussian(3.03e-7).table])
def test_numbers_do_not_depend_on_how_they_are_taken(
    table: np.ndarray[tuple[int], np.dtype[np.int64]] | None,
) -> None:
    every = Draws(STREAM, table=table).take(1000).tolist()
    apart = Draws(STREAM, table=table)
    found = apart.take(3).tolist()
    found += [apart.one() for _ in range(300)]
    found += apart.take(400).tolist()
    found += [apart.one() for _ in range(297)]
    assert found == every
    assert Draws(STREAM, table=table, start=123).one() == every[123]


@pytest.mark.usefixtures("isa")
@pytest.mark.parametrize("start", [0, 1, 2, 3, 4, 257])
@pytest.mark.parametrize("table", [None, exponential(1e-6).table])
def test_kernels_draw_the_same_numbers(
    start: int, table: np.ndarray[tuple[int], np.dtype[np.int64]] | None
) -> None:
    kernels = queueing.queue_kernels()
    assert kernels is not None
    structure = queueing.Draws()
    _fill_draws(structure, Draws(STREAM, table=table, start=start))
    expected = Draws(STREAM, table=table, start=start).take(5000)
    assert np.array_equal(kernels.draw(structure, 5000), expected)
