"""How long a member waits, and how much it has on its way."""

from itertools import pairwise

import pytest

from fediac.sessions.pacing import (
    FIRST_TIMEOUT_US,
    FIRST_WINDOW,
    MAX_TIMEOUT_US,
    MIN_TIMEOUT_US,
    RoundTrip,
    Window,
)


def test_before_an_answer_the_timer_is_the_first_one() -> None:
    assert RoundTrip().timeout_us == FIRST_TIMEOUT_US


def test_the_first_answer_sets_the_timer_to_three_times_what_it_took() -> None:
    trip = RoundTrip()
    trip.measure(20_000)
    assert trip.timeout_us == 60_000  # smoothed + 4 * half of it, as RFC 6298 has it


def test_equal_answers_bring_the_timer_down_to_its_floor() -> None:
    trip = RoundTrip()
    for _ in range(100):
        trip.measure(500)
    assert trip.timeout_us == MIN_TIMEOUT_US


def test_the_timer_never_waits_longer_than_its_ceiling() -> None:
    trip = RoundTrip()
    trip.measure(10_000_000)
    assert trip.timeout_us == MAX_TIMEOUT_US


def test_a_late_answer_makes_the_timer_longer() -> None:
    trip = RoundTrip()
    for _ in range(53):
        trip.measure(20_000)
    before = trip.timeout_us
    for _ in range(4):
        trip.measure(60_000)
    assert trip.timeout_us > before


def test_an_answer_that_waited_for_others_leaves_the_timer_alone() -> None:
    trip = RoundTrip()
    for _ in range(53):
        trip.measure(20_000)
    before = trip.timeout_us
    for number in range(52):
        trip.measure(20_000 if number % 4 == 0 else 900_000)
    assert trip.timeout_us <= before


def grown(window: Window, n_lost: int = 0, trip_us: int | None = None) -> int:
    """Return a window's size after all that was on its way has arrived."""
    for _ in range(window.size):
        window.note(n_lost, trip_us)
    return window.size


def test_a_window_doubles_until_it_is_halved() -> None:
    window = Window(100)
    assert [grown(window) for _ in range(3)] == [2 * FIRST_WINDOW, 16, 32]


def test_after_it_was_halved_a_window_grows_by_one_for_all_that_has_arrived() -> None:
    window = Window(200)
    while window.size < 100:
        window.note(0)
    while window.size >= 100:
        window.note(2)
    halved = window.size
    assert 50 <= halved <= 100
    sizes = [grown(window) for _ in range(3)]
    assert halved <= sizes[0] <= halved + 1
    assert all(0 <= b - a <= 1 for a, b in pairwise(sizes))
    assert sizes[-1] > sizes[0]


def test_a_window_is_never_larger_than_it_may_be() -> None:
    window = Window(5)
    for _ in range(100):
        window.note(0)
    assert window.size == 5
    window.most = 2
    assert window.size == 2


@pytest.mark.parametrize("trip_us", [None, 300, 1_500])
def test_losses_that_come_without_a_queue_do_not_close_a_window(
    trip_us: int | None,
) -> None:
    window = Window(100)
    window.note(0, 300)
    for number in range(2_000):
        window.note(int(number % 3 == 0), trip_us)
    assert window.size == 100


def test_where_more_is_lost_than_arrives_a_window_closes_to_the_first_one() -> None:
    window = Window(100)
    for _ in range(100):
        window.note(0)
    for _ in range(2_000):
        window.note(2)
    assert window.size <= FIRST_WINDOW + 4


def test_losses_behind_a_queue_close_a_window_to_what_any_queue_bears() -> None:
    window = Window(100)
    for _ in range(200):
        window.note(0, 300)
    assert window.size == 100
    for number in range(2_000):
        window.note(int(number % 10 == 0), 3_000)
    assert 32 <= window.size < 50


def test_one_fast_answer_among_slow_ones_tells_that_there_is_no_queue() -> None:
    window = Window(100)
    for number in range(2_000):
        window.note(int(number % 10 == 0), 300 if number % 20 == 0 else 9_000)
    assert window.size == 100


def test_after_silence_a_window_begins_anew_and_doubles_up_to_half() -> None:
    window = Window(100)
    for _ in range(100):
        window.note(0)
    window.begin_anew()
    assert window.size == FIRST_WINDOW
    sizes = [grown(window) for _ in range(5)]
    assert sizes[:3] == [8, 16, 32]
    assert sizes[3] in (50, 51)
    assert sizes[4] <= 52


def test_silence_before_anything_was_heard_costs_nothing_later() -> None:
    window = Window(100)
    window.begin_anew()
    assert [grown(window) for _ in range(3)] == [2 * FIRST_WINDOW, 16, 32]
