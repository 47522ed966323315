"""How long a run has left, if its rounds go on to take as long as they did."""

import time
from collections.abc import Callable

_MINUTE_S, _HOUR_S = 60, 3600


class Pace:
    """Rounds done in a time.

    A bar of rich's own forgets what is older than half a minute, in which a round of a
    large model may not end.

    Args:
        before: Rounds that were there when it began.
        clock: Seconds, of this machine.
    """

    def __init__(
        self, before: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._first = self._last = before
        self._began = self._reached = clock()

    def reach(self, number: int) -> None:
        """Round ``number`` is over now."""
        self._last, self._reached = number, self._clock()

    def left_s(self, total: int | None) -> float | None:
        """Return the seconds until round ``total`` is over; None: nobody knows."""
        if total is None or self._last == self._first:
            return None
        round_s = (self._reached - self._began) / (self._last - self._first)
        since = self._clock() - self._reached
        return max(0.0, (total - self._last) * round_s - since)


def say_left(left_s: float | None) -> str:
    """Return how much time is left, as a clock shows it: ``0:02:05 left``."""
    if left_s is None:
        return "-:--:-- left"
    hours, rest = divmod(round(left_s), _HOUR_S)
    return f"{hours}:{rest // _MINUTE_S:02}:{rest % _MINUTE_S:02} left"
