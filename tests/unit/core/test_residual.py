from typing import Any

import numpy as np
import pytest

from fediac.core.quantize import Grid
from fediac.core.residual import (
    check_fade,
    fade_residual,
)
from tests.support import (
    Make,
    bytes_of,
    kind_of,
    normal_update,
    refuses,
)

GRID = Grid.of(peak=32.0, bits=12, n_clients=3)
DIM = 300


def test_a_residual_fades_alike_in_every_library(make: Make, dtype: type[Any]) -> None:
    values = normal_update(DIM, dtype)
    residual = make(values)
    faded = fade_residual(residual, 0.1)
    assert faded is residual
    assert kind_of(faded) == kind_of(make(values))
    assert bytes_of(faded) == (values * dtype(0.9)).tobytes()


def test_what_does_not_fade_is_left_as_it_is() -> None:
    values = normal_update(DIM, np.float32)
    residual = values.copy()
    residual.flags.writeable = False
    assert fade_residual(residual, 0.0) is residual
    assert fade_residual(None, 0.1) is None
    assert residual.tobytes() == values.tobytes()


@pytest.mark.parametrize("fade", [0, 0.0, 0.1, np.float64(0.5), 0.999])
def test_fades_below_one_are_fine(fade: Any) -> None:
    check_fade(fade, residual=True)


@pytest.mark.parametrize("fade", [-0.1, 1, 1.0, float("nan"), float("inf")])
def test_a_fade_leaves_something(fade: float) -> None:
    with refuses(f"fade must be at least 0 and below 1, got {fade}"):
        check_fade(fade, residual=True)


@pytest.mark.parametrize("fade", ["0.1", None, True])
def test_a_fade_is_a_number(fade: object) -> None:
    with refuses(f"fade must be a number, got {fade!r}", TypeError):
        check_fade(fade, residual=True)


def test_nothing_fades_without_a_residual() -> None:
    check_fade(0.0, residual=False)
    with refuses("fade must be 0 without a residual, got 0.1"):
        check_fade(0.1, residual=False)
