from dataclasses import replace
from fractions import Fraction
from functools import cache
from math import floor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fediac.core.bitpack import pack_bits, unpack_lanes
from fediac.core.exact import tree_sum
from fediac.core.quantize import (
    MIN_PEAK,
    Grid,
    energy_of,
    float32_above,
    level_limit,
    send_chosen,
    stochastic_round,
    subtract_sent,
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

pytestmark = pytest.mark.usefixtures("both_paths")

GRID = Grid.of(peak=32.0, bits=12, n_clients=3)


def levels_of(values: NDArray[Any], grid: Grid) -> list[int]:
    """Rounding in exact fractions, but for the product that float64 rounds."""
    words = stream().words(0, len(values), like=values).tolist()
    levels = []
    for value, word in zip(values.tolist(), words, strict=True):
        scaled = Fraction(value * grid.scale)
        level = floor(scaled) + (Fraction(word, 1 << 32) < scaled - floor(scaled))
        levels.append(max(-grid.limit, min(grid.limit, level)))
    return levels


class TestLevelLimit:
    @pytest.mark.parametrize("n_clients", [1, 2, 3, 20, 1023, 1024])
    def test_levels_of_all_clients_fit_and_one_more_would_not(
        self, n_clients: int
    ) -> None:
        for bits in range(n_clients.bit_length() + 1, 33):
            limit = level_limit(bits=bits, n_clients=n_clients)
            assert limit >= 1
            assert n_clients * limit < 1 << (bits - 1) <= n_clients * (limit + 1)
            # Lanes hold level + limit: their sum must stay below 2**bits.
            assert 2 * n_clients * limit <= (1 << bits) - 2

    @pytest.mark.parametrize(
        ("bits", "n_clients", "text"),
        [
            (2, 2, "2 clients (at least 3), got 2"),
            (5, 20, "20 clients (at least 6), got 5"),
            (11, 1024, "1024 clients (at least 12), got 11"),
            *((bits, 1, f"1 client (at least 2), got {bits}") for bits in (1, 0, -3)),
        ],
    )
    def test_width_without_room_for_all_is_refused(
        self, bits: int, n_clients: int, text: str
    ) -> None:
        with refuses(f"bits must leave room for {text}"):
            level_limit(bits=bits, n_clients=n_clients)


class TestGrid:
    def test_scale_is_the_papers(self) -> None:
        grid = Grid.of(peak=0.5, bits=12, n_clients=20)
        assert grid.scale == (2**11 - 20) / (20 * 0.5)
        assert grid.limit == 2047 // 20
        assert (grid.bits_up, grid.bits_down) == (12, 12)

    @pytest.mark.parametrize("peak", [0.0, MIN_PEAK / 2, float("inf"), float("nan")])
    def test_peak_that_has_no_scale_is_refused(self, peak: float) -> None:
        with refuses(f"peak must be finite and at least 2**-100, got {peak}"):
            Grid.of(peak=peak, bits=12, n_clients=20)

    @pytest.mark.parametrize("peak", [MIN_PEAK, float(np.finfo(np.float32).max)])
    def test_scale_of_any_peak_is_a_normal_float(self, peak: float) -> None:
        for bits, n_clients in ((2, 1), (32, 1), (12, 1024), (32, 1024)):
            scale = Grid.of(peak=peak, bits=bits, n_clients=n_clients).scale
            assert np.finfo(np.float64).tiny < scale < 2.0**132


@pytest.mark.parametrize(
    "peak",
    [0.0, 1.0, 0.1, 1e-45, 1e-60, 1 + 2.0**-40, float(np.finfo(np.float32).max)],
)
def test_peak_never_travels_below_itself(peak: float) -> None:
    above = float32_above(peak)
    assert above == np.float32(above)
    assert above >= peak
    below = np.nextafter(np.float32(above), np.float32(-1.0))
    assert float(below) < peak or peak == 0.0


def test_peak_beyond_float32_is_refused() -> None:
    with refuses("peak must be in the range of float32, got 1e+39"):
        float32_above(1e39)


class TestRounding:
    def test_levels_are_neighbours_chosen_by_the_entrys_uniform(
        self, make: Make, dtype: type[Any]
    ) -> None:
        values = normal_update(500, dtype)
        given, indices = make(values), make(np.arange(500))
        levels = stochastic_round(given, indices, GRID, stream())
        assert kind_of(levels) == kind_of(given)
        assert to_numpy(levels).tolist() == levels_of(values, GRID)
        assert bytes_of(given) == values.tobytes()

    def test_uniform_belongs_to_the_entry_not_to_its_place(self, make: Make) -> None:
        values = normal_update(500)
        picked = np.array([3, 77, 78, 400])
        found = stochastic_round(make(values[picked]), make(picked), GRID, stream())
        every = levels_of(values, GRID)
        assert to_numpy(found).tolist() == [every[i] for i in picked.tolist()]

    def test_integers_stay_what_they_are(self, make: Make) -> None:
        values = np.array([-7.0, -1.0, 0.0, 1.0, 9.0])
        grid = Grid(scale=1.0, limit=100, bits_up=8, bits_down=8)
        found = stochastic_round(make(values), make(np.arange(5)), grid, stream())
        assert to_numpy(found).tolist() == [-7, -1, 0, 1, 9]

    def test_what_exceeds_the_limit_is_cut(self, make: Make, dtype: type[Any]) -> None:
        values = np.array([-200.0, -100.5, 100.5, 3e38], dtype)
        grid = Grid(scale=1.0, limit=100, bits_up=8, bits_down=8)
        found = stochastic_round(make(values), make(np.arange(4)), grid, stream())
        assert to_numpy(found).tolist() == [-100, -100, 100, 100]

    @pytest.mark.parametrize("n_clients", [1, 20, 1023, 1024])
    @pytest.mark.parametrize("peak", [2.0**-100, 0.1, 1 / 3, 1.0, 3e38])
    def test_peak_itself_needs_no_cut(self, n_clients: int, peak: float) -> None:
        # In exact arithmetic: f·m = 2^(b−1)/N − 1, rounded up at most the limit.
        values = np.array([peak, -peak], dtype=np.float32)
        for bits in (n_clients.bit_length() + 1, 16, 32):
            agreed = float32_above(float(values[0]))
            grid = Grid.of(peak=agreed, bits=bits, n_clients=n_clients)
            uncut = Grid(grid.scale, 1 << 40, bits, bits)
            levels = stochastic_round(values, np.arange(2), uncut, stream())
            assert np.all(np.abs(levels) <= grid.limit)


def test_what_is_left_is_the_difference(make: Make, dtype: type[Any]) -> None:
    chosen = normal_update(500, dtype)
    levels = np.arange(-250, 250)
    left = subtract_sent(make(chosen), make(levels), GRID)
    expected = (chosen.astype(np.float64) - levels / GRID.scale).astype(dtype)
    assert to_numpy(left).dtype == dtype
    assert np.array_equal(to_numpy(left), expected)


def test_energy_is_the_tree_sum_of_squares(make: Make, dtype: type[Any]) -> None:
    values = normal_update(9001, dtype)
    squares = values.astype(np.float64) ** 2
    assert energy_of(make(values)) == tree_sum(squares)
    assert energy_of(make(values[:0])) == 0.0


DIM = 4500


@cache
def all_levels(dtype: str) -> NDArray[np.int64]:
    return np.array(levels_of(normal_update(DIM, dtype), GRID))


class TestSendChosen:
    def expect(
        self, values: NDArray[Any], mask: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Levels of the chosen entries, and the residual of all."""
        levels = all_levels(values.dtype.name)[mask]
        left = values.copy()
        sent = levels / GRID.scale
        left[mask] = (values[mask].astype(np.float64) - sent).astype(values.dtype)
        return levels, left

    @pytest.mark.parametrize("share", [0.0, 0.05, 1.0])
    def test_chosen_entries_become_lanes_and_leave_their_error(
        self, make: Make, dtype: type[Any], share: float
    ) -> None:
        values = normal_update(DIM, dtype)
        mask = np.random.default_rng(1).random(DIM) < share
        levels, left = self.expect(values, mask)
        given, out = make(values), make(values)
        sent = send_chosen(given, pack_bits(make(mask)), GRID, stream(), out=out)
        assert sent.n_levels == len(levels)
        assert kind_of(sent.lanes) == kind_of(given)
        assert sent.lanes.shape[0] == -(-len(levels) * GRID.bits_up // 8)
        lanes = to_numpy(unpack_lanes(sent.lanes, len(levels), GRID.bits_up))
        assert np.array_equal(lanes - GRID.limit, levels)
        assert bytes_of(out) == left.tobytes()
        assert bytes_of(given) == values.tobytes()
        # Squares are summed in the order of the chosen entries, not of all.
        for energy, part in (
            (sent.chosen_energy, values[mask]),
            (sent.left_energy, left[mask]),
        ):
            assert energy == tree_sum(part.astype(np.float64) ** 2)

    def test_without_a_gia_all_entries_are_sent(
        self, make: Make, dtype: type[Any]
    ) -> None:
        given = make(normal_update(DIM, dtype))
        everything = pack_bits(make(np.ones(DIM, dtype=bool)))
        every, chosen = (
            send_chosen(given, gia, GRID, stream()) for gia in (None, everything)
        )
        assert bytes_of(every.lanes) == bytes_of(chosen.lanes)
        assert every.n_levels == DIM
        assert every.left_energy == chosen.left_energy

    def test_residual_may_replace_the_values(
        self, make: Make, dtype: type[Any]
    ) -> None:
        values = normal_update(DIM, dtype)
        mask = np.random.default_rng(1).random(DIM) < 0.3
        _, left = self.expect(values, mask)
        kept = make(values)
        send_chosen(kept, pack_bits(make(mask)), GRID, stream(), out=kept)
        assert bytes_of(kept) == left.tobytes()

    def test_what_the_clamp_cuts_stays_in_the_residual(self, make: Make) -> None:
        values = np.array([500.0, 1.0, -500.0], dtype=np.float32)
        out = make(values)
        sent = send_chosen(
            out,
            None,
            Grid(scale=1.0, limit=7, bits_up=8, bits_down=8),
            stream(),
            out=out,
        )
        assert to_numpy(out).tolist() == [493.0, 0.0, -493.0]
        assert to_numpy(unpack_lanes(sent.lanes, 3, 8)).tolist() == [14, 8, 0]
        assert sent.n_clamped == 2

    @pytest.mark.parametrize("dim", [3, 4096, 9001])
    def test_only_levels_beyond_the_limit_count_as_clamped(
        self, make: Make, dim: int
    ) -> None:
        values = normal_update(dim)
        grid = Grid(scale=4.0, limit=7, bits_up=8, bits_down=8)
        free = stochastic_round(
            values, np.arange(dim), replace(grid, limit=1 << 30), stream()
        )
        n_beyond = int(np.count_nonzero(np.abs(free) > 7))
        assert n_beyond or dim == 3
        assert np.any(np.abs(free) == 7) or dim == 3
        sent = send_chosen(make(values), None, grid, stream())
        assert sent.n_clamped == n_beyond
