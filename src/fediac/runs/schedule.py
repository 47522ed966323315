"""When a run writes a checkpoint: after a number of rounds, or as often as is cheap."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

WORK_FOR_SAVING = 9.0
"""Seconds of training for each second of saving: a tenth of the time is lost."""


class CheckpointSchedule:
    """Tells after which rounds to save.

    A checkpoint holds every client's residual, a gigabyte for ResNet-18 and 20 clients:
    written after every round it can take longer than the round. Results never depend on
    it: whatever is lost is done again, to the same bits.

    Args:
        every: Rounds between checkpoints; None: the first round, then as often as
            saving takes a tenth of the time.
        clock: Tells seconds.
    """

    def __init__(
        self, every: int | None, *, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._every = every
        self._clock = clock
        self._due = clock()

    def is_due(self, round_number: int) -> bool:
        """Return whether to save after this round."""
        if self._every is not None:
            return round_number % self._every == 0
        return self._clock() >= self._due

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Note how long saving takes, which decides when it is due again."""
        start = self._clock()
        yield
        end = self._clock()
        self._due = end + WORK_FOR_SAVING * (end - start)
