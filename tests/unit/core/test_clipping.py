from typing import Any

import numpy as np
import pytest

from fediac.core.clipping import check_clip, clipped_peak
from fediac.core.corrected import correct
from tests.support import Make, normal_update, refuses


def test_a_peak_is_clipped_to_the_largest_ones_root_mean_square(make: Make) -> None:
    # The three largest: sqrt((100 + 9 + 16) / 3) = 6.454...
    update = make(np.array([1.0, -10.0, 3.0, 0.5, -4.0], dtype=np.float32))
    corrected = correct(update, None)
    assert clipped_peak(corrected, 3, 1.0) == np.sqrt(125.0 / 3)
    assert clipped_peak(corrected, 3, 1.5) == 1.5 * np.sqrt(125.0 / 3)
    assert clipped_peak(corrected, 1, 0.5) == 5.0


def test_a_peak_is_never_raised(make: Make) -> None:
    corrected = correct(make(np.array([2.0, 1.0], dtype=np.float32)), None)
    assert clipped_peak(corrected, 1, 3.0) == 2.0


def test_where_nothing_is_left_of_it_the_peak_stays(make: Make) -> None:
    zeros = correct(make(np.zeros(9, dtype=np.float32)), None)
    assert clipped_peak(zeros, 4, 2.0) == 0.0
    tiny = correct(make(np.array([1.0, 0.0], dtype=np.float32)), None)
    assert clipped_peak(tiny, 1, 5e-324) == 5e-324
    assert clipped_peak(tiny, 2, 5e-324) == 5e-324  # 0.7 of it rounds up
    tiny = correct(make(np.array([1.0, 0.0, 0.0, 0.0, 0.0], dtype=np.float32)), None)
    assert clipped_peak(tiny, 5, 5e-324) == 1.0  # 0.4 of it rounds to 0


def test_all_libraries_clip_alike(dtype: type[Any], make: Make) -> None:
    values = normal_update(3 * 4096 + 11, dtype)
    largest = np.sort(np.argsort(-np.abs(values), kind="stable")[:5000])
    squares = values[largest].astype(np.float64) ** 2
    found = clipped_peak(correct(make(values), None), 5000, 2.0)
    assert found == pytest.approx(2.0 * np.sqrt(np.sum(squares) / 5000), rel=1e-12)
    assert found == clipped_peak(correct(values, None), 5000, 2.0)


@pytest.mark.parametrize("clip", [0.0, -1, float("nan"), float("inf")])
def test_a_clip_is_finite_and_above_zero(clip: float) -> None:
    with refuses(f"clip must be finite and above 0, got {clip}"):
        check_clip(clip)


@pytest.mark.parametrize("clip", ["2", True])
def test_a_clip_is_a_number(clip: object) -> None:
    with refuses(f"clip must be a number or None, got {clip!r}", TypeError):
        check_clip(clip)
