from functools import partial

import numpy as np
import pytest

from fediac.core.quantize import Grid, level_limit
from fediac.core.widths import LANES, Lanes, check_rule, lane_widths, next_width
from tests.support import refuses

WORDS = {(4, 8), (4, 16), (8, 16), (16, 32), (32, 32)}
EVERY = [
    (bits, n_clients)
    for n_clients in (1, 2, 3, 18, 19, 20, 100, 1023, 1024)
    for bits in range(n_clients.bit_length() + 1, 33)
]


@pytest.mark.parametrize(
    ("bits", "dense", "words"),
    [
        (7, (3, 7), (4, 8)),
        (8, (4, 8), (4, 8)),
        (10, (6, 10), (8, 16)),
        (12, (8, 12), (8, 16)),
        (14, (10, 14), (16, 32)),
        (32, (28, 32), (32, 32)),
    ],
)
def test_twenty_clients_send_narrow_lanes(
    bits: int, dense: tuple[int, int], words: tuple[int, int]
) -> None:
    expected = {"same": (bits, bits), "dense": dense, "words": words}
    for lanes in LANES:
        found = lane_widths(bits=bits, n_clients=20, lanes=lanes)
        assert found == expected[lanes]


def test_dense_lanes_hold_every_level_and_no_bit_more() -> None:
    for bits, n_clients in EVERY:
        limit = level_limit(bits=bits, n_clients=n_clients)
        bits_up, bits_down = lane_widths(bits=bits, n_clients=n_clients, lanes="dense")
        assert bits_down == bits
        assert 1 << (bits_up - 1) < 2 * limit + 1 <= 1 << bits_up


def test_dense_lanes_round_to_the_same_grid() -> None:
    for bits, n_clients in EVERY:
        bits_up, _ = lane_widths(bits=bits, n_clients=n_clients, lanes="dense")
        for peak in (2.0**-100, 0.3, 1e30):
            of = partial(Grid.of, peak=peak, bits=bits, n_clients=n_clients)
            same, narrow = of(), of(bits_up=bits_up)
            assert (same.scale, same.limit) == (narrow.scale, narrow.limit)


def test_words_leave_levels_more_room_and_hold_them_and_their_sums() -> None:
    for bits, n_clients in EVERY:
        widths = lane_widths(bits=bits, n_clients=n_clients, lanes="words")
        bits_up, bits_down = widths
        assert widths in WORDS
        grid = Grid.of(peak=1.0, bits=bits_down, n_clients=n_clients, bits_up=bits_up)
        narrow = Grid.of(peak=1.0, bits=bits, n_clients=n_clients)
        most = (2 ** (bits_down - 1) - 1) // n_clients
        assert grid.limit == min(most, 2 ** (bits_up - 1) - 1)
        assert grid.limit >= narrow.limit
        assert grid.scale >= narrow.scale
        # An entry at the peak, rounded up, is inside the limit.
        assert grid.scale <= grid.limit * (1 + np.finfo(float).eps)
        assert 2 * grid.limit < 1 << bits_up
        assert n_clients * 2 * grid.limit < 1 << bits_down


def test_a_width_grows_to_the_next_lanes() -> None:
    for lanes, expected in zip(LANES, (11, 11, 13), strict=True):
        assert next_width(bits=10, n_clients=20, lanes=lanes) == expected
        assert next_width(bits=32, n_clients=20, lanes=lanes) == 32


@pytest.mark.parametrize("lanes", LANES)
def test_widths_without_room_are_refused_under_any_rule(lanes: Lanes) -> None:
    with refuses("bits must leave room for 20 clients (at least 6), got 5"):
        lane_widths(bits=5, n_clients=20, lanes=lanes)
    with refuses("bits must be at most 32 (a lane), got 33"):
        lane_widths(bits=33, n_clients=20, lanes=lanes)


@pytest.mark.parametrize("lanes", ["narrow", None, 8])
def test_a_rule_there_is_not_is_refused(lanes: object) -> None:
    with refuses(f"lanes must be one of same, dense, words, got {lanes!r}"):
        check_rule(lanes)


@pytest.mark.parametrize("bits_up", [1, 13])
def test_lanes_too_narrow_or_wider_than_sums_are_refused(bits_up: int) -> None:
    with refuses(f"bits_up must be in 2..12 (bits), got {bits_up}"):
        Grid.of(peak=1.0, bits=12, n_clients=20, bits_up=bits_up)
