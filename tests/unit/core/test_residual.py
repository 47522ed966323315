from typing import Any

import numpy as np
import pytest

from fediac.core.bitpack import pack_bits, unpack_lanes
from fediac.core.quantize import Grid, send_chosen
from fediac.core.residual import (
    Counted,
    check_fade,
    fade_residual,
    keep_missed,
    take_back,
)
from tests.support import (
    Make,
    bytes_of,
    kind_of,
    normal_update,
    refuses,
    stream,
    to_numpy,
)

GRID = Grid.of(peak=32.0, bits=12, n_clients=3)
DIM = 300


@pytest.mark.parametrize("share", [0.4, 1.0])
def test_levels_that_were_not_counted_go_back(
    make: Make, dtype: type[Any], share: float
) -> None:
    values = normal_update(DIM, dtype)
    mask = np.random.default_rng(1).random(DIM) < share
    gia = pack_bits(make(mask)) if share < 1.0 else None
    residual = make(values)
    sent = send_chosen(residual, gia, GRID, stream(), out=residual)
    left = to_numpy(residual).copy()
    ranges = [(8, 16), (90, 100)]
    counted = take_back(sent, ranges, residual, gia, GRID, out=residual)
    restored = residual
    levels = (
        to_numpy(unpack_lanes(sent.lanes, sent.n_levels, GRID.bits_up)) - GRID.limit
    )
    missed = np.r_[8:16, 90:100]
    entries = np.flatnonzero(mask)[missed]
    expected = left.copy()
    back = left[entries].astype(np.float64) + levels[missed] / GRID.scale
    expected[entries] = back.astype(dtype)
    assert kind_of(restored) == kind_of(make(values))
    assert bytes_of(restored) == expected.tobytes()
    # U was rounded once to make the residual and once to restore it: each time by
    # half a unit in the last place of a number below 2·max|U|.
    bound = 2 * np.finfo(dtype).eps * np.max(np.abs(values))
    assert np.max(np.abs(to_numpy(restored) - values)[entries]) <= bound
    energy = float(np.sum(expected[mask].astype(np.float64) ** 2))
    assert counted.n_levels == sent.n_levels - 18
    assert counted.left_energy == pytest.approx(energy, rel=1e-12)


def test_without_a_residual_what_was_counted_is_known_all_the_same(
    make: Make, dtype: type[Any]
) -> None:
    values = make(normal_update(DIM, dtype))
    sent = send_chosen(values, None, GRID, stream())
    counted = take_back(sent, [(8, 16)], values, None, GRID, out=None)
    kept = make(normal_update(DIM, dtype))
    again = send_chosen(kept, None, GRID, stream(), out=kept)
    assert counted == take_back(again, [(8, 16)], values, None, GRID, out=kept)
    assert bytes_of(values) == normal_update(DIM, dtype).tobytes()


def test_nothing_missed_leaves_the_residual_alone(make: Make) -> None:
    residual = make(normal_update(DIM))
    sent = send_chosen(residual, None, GRID, stream())
    before = bytes_of(residual)
    counted = take_back(sent, [], residual, None, GRID, out=residual)
    assert counted == Counted(DIM, sent.left_energy)
    assert bytes_of(residual) == before


def test_entries_that_were_not_counted_stay(make: Make) -> None:
    left, chosen = make(np.zeros(4)), make(np.array([1.0, 2.0, 3.0, 4.0]))
    places = make(np.array([3, 8, 9, 20]))
    kept, n_counted = keep_missed(left, chosen, places, [(0, 4), (9, 20)])
    assert to_numpy(kept).tolist() == [1.0, 0.0, 3.0, 0.0]
    assert n_counted == 2
    assert keep_missed(left, chosen, places, []) == (left, 4)


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
