import pytest

from fediac.runs.pace import Pace, say_left


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_run_goes_on_as_fast_as_it_did() -> None:
    clock = Clock()
    pace = Pace(2, clock)
    assert pace.left_s(6) is None
    clock.now += 90.0  # longer than a bar of rich remembers
    pace.reach(3)
    assert pace.left_s(6) == 270.0
    clock.now += 30.0
    assert pace.left_s(6) == 240.0
    pace.reach(4)
    assert pace.left_s(6) == 120.0
    clock.now += 1000.0
    assert pace.left_s(6) == 0.0


def test_without_an_end_nobody_knows() -> None:
    pace = Pace(0)
    pace.reach(1)
    assert pace.left_s(None) is None


@pytest.mark.parametrize(
    ("left_s", "said"),
    [
        (None, "-:--:-- left"),
        (0.4, "0:00:00 left"),
        (59.6, "0:01:00 left"),
        (36_125.0, "10:02:05 left"),
    ],
)
def test_what_is_left_is_said_as_a_clock_shows_it(
    left_s: float | None, said: str
) -> None:
    assert say_left(left_s) == said
