"""Where two vectors differ, in words."""

import numpy as np

from fediac.selftest.comparison import say_difference

A = np.array([1.0, -0.0, 3.0], dtype=np.float32)


def test_the_same_bits_are_no_difference() -> None:
    nan = np.full(3, np.nan, dtype=np.float32)
    assert say_difference("mean", A, A.copy()) is None
    assert say_difference("mean", nan, nan.copy()) is None
    assert say_difference("residual", None, None) is None


def test_the_first_entry_that_differs_is_named_with_both_values() -> None:
    other = A.copy()
    other[1:] = 0.0, 4.0
    assert say_difference("round 2: mean", other, A) == (
        "round 2: mean: 2 of 3 entries differ, the first one is 1: "
        "np.float32(0.0) instead of np.float32(-0.0)"
    )


def test_another_shape_or_type_is_a_difference() -> None:
    said = say_difference("mean", A[:2], A)
    assert said == "mean: float32 of (2,) instead of float32 of (3,)"
    said = say_difference("mean", A.astype(np.float64), A)
    assert said == "mean: float64 of (3,) instead of float32 of (3,)"


def test_nothing_is_not_something() -> None:
    assert say_difference("residual", None, A) == (
        "residual: nothing instead of something"
    )
    assert say_difference("residual", A, None) == (
        "residual: something instead of nothing"
    )
