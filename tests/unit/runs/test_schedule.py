import pytest

from fediac.runs.schedule import CheckpointSchedule


class Clock:
    """A clock that goes on when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def run(
    schedule: CheckpointSchedule, clock: Clock, n_rounds: int, save_s: float
) -> list[int]:
    """Run rounds of one second; return those after which was saved."""
    saved = []
    for number in range(1, n_rounds + 1):
        clock.now += 1.0
        if schedule.is_due(number):
            saved.append(number)
            with schedule.saving():
                clock.now += save_s
    return saved


@pytest.mark.parametrize(
    ("every", "saved"), [(1, [1, 2, 3, 4, 5]), (2, [2, 4]), (9, [])]
)
def test_rounds_between_checkpoints_may_be_given(every: int, saved: list[int]) -> None:
    clock = Clock()
    assert run(CheckpointSchedule(every, clock=clock), clock, 5, 0.5) == saved


@pytest.mark.parametrize(
    ("save_s", "step"),
    # Nine seconds of training, in rounds of one second, for each second of saving.
    [(0.0, 1), (0.1, 1), (0.5, 5), (2.0, 18), (1000.0, 100)],
)
def test_saving_takes_a_tenth_of_the_time_at_most(save_s: float, step: int) -> None:
    clock = Clock()
    saved = run(CheckpointSchedule(None, clock=clock), clock, 100, save_s)
    assert saved == list(range(1, 101, step))
