"""How long a member waits, and how much it has on its way."""

from itertools import pairwise

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
    for _ in range(50):
        trip.measure(500)
    assert trip.timeout_us == MIN_TIMEOUT_US


def test_the_timer_never_waits_longer_than_its_ceiling() -> None:
    trip = RoundTrip()
    trip.measure(10_000_000)
    assert trip.timeout_us == MAX_TIMEOUT_US


def test_a_late_answer_makes_the_timer_longer() -> None:
    trip = RoundTrip()
    for _ in range(50):
        trip.measure(20_000)
    before = trip.timeout_us
    trip.measure(60_000)
    assert trip.timeout_us > before


def grown(window: Window) -> int:
    """Return a window's size after all that was on its way is answered."""
    for _ in range(window.size):
        window.grow()
    return window.size


def test_a_window_doubles_until_the_first_loss() -> None:
    window = Window(100)
    assert [grown(window) for _ in range(3)] == [2 * FIRST_WINDOW, 16, 32]


def test_after_a_loss_a_window_grows_by_one_for_all_that_is_answered() -> None:
    window = Window(100)
    while window.size < 40:
        window.grow()
    window.shrink(0, 10_000)
    sizes = [grown(window) for _ in range(3)]
    assert 20 <= sizes[0] <= 21
    assert all(0 <= b - a <= 1 for a, b in pairwise(sizes))
    assert sizes[-1] > 20


def test_a_window_is_never_larger_than_it_may_be() -> None:
    window = Window(5)
    for _ in range(100):
        window.grow()
    assert window.size == 5
    window.most = 2
    assert window.size == 2


def test_a_loss_halves_the_window_once_for_as_long_as_a_timer_runs() -> None:
    window = Window(100)
    for _ in range(100):
        window.grow()
    size = window.size
    window.shrink(0, 10_000)
    window.shrink(9_999, 10_000)
    assert window.size == size // 2
    window.shrink(10_000, 10_000)
    assert window.size == size // 2 // 2


def test_a_window_has_room_for_one_packet_whatever_is_lost() -> None:
    window = Window(100)
    for now_us in range(0, 1_000_000, 10_000):
        window.shrink(now_us, 10_000)
    assert window.size == 1
