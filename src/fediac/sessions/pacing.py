"""How fast a member may send: how long it waits for an answer, how much is on its way.

The timer is that of RFC 6298 with a floor for local networks. The window grows by one
packet for every answer until the first loss, then for every window that is answered,
and is halved for what is lost.
"""

MIN_TIMEOUT_US = 10_000
MAX_TIMEOUT_US = 1_000_000
FIRST_TIMEOUT_US = 200_000
"""Before anything was answered."""

FIRST_WINDOW = 4


class RoundTrip:
    """The timer: measures answers, says how long to wait for the next one."""

    def __init__(self) -> None:
        self._smoothed_us: float | None = None
        self._deviation_us = 0.0

    def measure(self, sample_us: int) -> None:
        """Learn how long an answer took, to a packet that was sent once."""
        if self._smoothed_us is None:
            self._smoothed_us, self._deviation_us = sample_us, sample_us / 2
            return
        off = abs(self._smoothed_us - sample_us)
        self._deviation_us += (off - self._deviation_us) / 4
        self._smoothed_us += (sample_us - self._smoothed_us) / 8

    @property
    def timeout_us(self) -> int:
        """How long to wait before a packet is sent again."""
        if self._smoothed_us is None:
            return FIRST_TIMEOUT_US
        wanted = self._smoothed_us + 4 * self._deviation_us
        return int(min(max(wanted, MIN_TIMEOUT_US), MAX_TIMEOUT_US))


class Window:
    """How many packets may be on their way at a time."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._size = float(FIRST_WINDOW)
        self._shrunk_us: int | None = None

    @property
    def size(self) -> int:
        """How many, at least one."""
        return max(1, min(int(self._size), self.most))

    def grow(self) -> None:
        """Make room for more: a packet was answered.

        Until something is lost the window doubles in a round trip, as TCP's does: a
        round is short, and a far switch would see little of it otherwise.
        """
        step = 1.0 if self._shrunk_us is None else 1 / self._size
        self._size = min(self._size + step, float(max(1, self.most)))

    def shrink(self, now_us: int, timeout_us: int) -> None:
        """Halve it: a packet was lost, the first one for as long as a timer runs."""
        if self._shrunk_us is None or now_us - self._shrunk_us >= timeout_us:
            self._size, self._shrunk_us = max(1.0, self.size / 2), now_us
