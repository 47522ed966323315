"""How fast a member may send: how long it waits for an answer, how much is on its way.

The timer is that of RFC 6298 with a floor for local networks. The window doubles in a
round trip until it is halved once, and grows by one packet a round trip from then on.

Who loses a few packets on a radio or through a damaged cable must not be slow for it:
such losses are as many with any window. Those of a queue that is full come with answers
that take longer. So a window is halved when packets got lost while even the fastest
answers were slow, or when more than half of them got lost. Where the switch says
nothing at all for as long as a timer runs, the window begins anew, as TCP's does.
"""

MIN_TIMEOUT_US = 10_000
MAX_TIMEOUT_US = 1_000_000
FIRST_TIMEOUT_US = 200_000
"""Before anything was answered."""

FIRST_WINDOW = 4

_TOGETHER = 4
"""Answers of which the fastest one counts."""

_BEARABLE, _BEARABLE_IN_QUEUES = 1 / 2, 1 / 20
"""The share of packets that may get lost."""

_QUEUE_TRIPS, _QUEUE_US = 2, 1_000
"""An answer has waited in a queue if it took so many of the fastest, and this time."""

_FEWEST = 32
"""Packets from which a share is told: of fewer it may be any by chance. So many may
always wait in a queue, too: whoever is slow there may be another member."""

_NEVER = 1 << 62


class RoundTrip:
    """The timer: measures answers, says how long to wait for the next one.

    The first answer counts as it is, then the fastest of a few: the others may have
    waited for other members.
    """

    def __init__(self) -> None:
        self._smoothed_us: float | None = None
        self._deviation_us = 0.0
        self._samples_us: list[int] = []

    def measure(self, sample_us: int) -> None:
        """Learn how long an answer took, to a packet that was sent once."""
        if self._smoothed_us is None:
            self._smoothed_us, self._deviation_us = sample_us, sample_us / 2
            return
        self._samples_us.append(sample_us)
        if len(self._samples_us) < _TOGETHER:
            return
        fastest_us = min(self._samples_us)
        self._samples_us.clear()
        off = abs(self._smoothed_us - fastest_us)
        self._deviation_us += (off - self._deviation_us) / 4
        self._smoothed_us += (fastest_us - self._smoothed_us) / 8

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
        self._calm_size = float("inf")
        self._least_us = self._fastest_us = _NEVER
        self._n_arrived = self._n_lost = 0

    @property
    def size(self) -> int:
        """How many, at least one."""
        return max(1, min(int(self._size), self.most))

    def note(self, n_lost: int, trip_us: int | None = None) -> None:
        """Learn that a packet has arrived.

        Until much is lost the window doubles in a round trip, as TCP's does: a round is
        short, and a far switch would see little of it otherwise.

        Args:
            n_lost: How often it got lost before.
            trip_us: How long its answer took; None: that is not known.
        """
        step = 1.0 if self._size < self._calm_size else 1 / self._size
        self._size = min(self._size + step, float(max(1, self.most)))
        self._n_arrived += 1
        self._n_lost += n_lost
        if trip_us is not None:
            self._least_us = min(self._least_us, trip_us)
            self._fastest_us = min(self._fastest_us, trip_us)
        n_sent = self._n_arrived + self._n_lost
        if n_sent < max(self._size, _FEWEST):
            return
        if self._n_lost > _BEARABLE * n_sent:
            self._halve(FIRST_WINDOW)
        elif self._is_queued and self._n_lost > _BEARABLE_IN_QUEUES * n_sent:
            self._halve(_FEWEST)
        self._count_anew()

    @property
    def _is_queued(self) -> bool:
        """Whether even the fastest of the last answers were slow."""
        queued_us = _QUEUE_TRIPS * self._least_us + _QUEUE_US
        return queued_us < self._fastest_us < _NEVER

    def _halve(self, least: int) -> None:
        self._calm_size = max(least, self._size / 2)
        self._size = min(self._size, self._calm_size)

    def _count_anew(self) -> None:
        self._n_arrived = self._n_lost = 0
        self._fastest_us = _NEVER

    def begin_anew(self) -> None:
        """Send little: nothing was heard of all that was sent."""
        if self._size > FIRST_WINDOW:
            self._calm_size = self._size / 2
        self._size = float(FIRST_WINDOW)
        self._count_anew()
