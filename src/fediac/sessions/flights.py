"""What a member has on its way to the switch: what is counted, what seems to be lost.

A packet that was sent is *flying* until the switch says something of it. One that the
switch has *counted* is waited for, and asked for again now and then, a few at a time:
somebody else is late, or the answer got lost. Packets are taken for *lost* when answers
came to three that were sent later, or when their timer ran out; they are sent again as
soon as the window has room.

The timer is doubled when it has run out twice, until a packet is answered that was sent
once: only such an answer tells how long one takes (Karn and Partridge, SIGCOMM 1987).
"""

from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, takewhile

from fediac.sessions.questions import Key

_LATER_ANSWERS = 3
"""So many answers to packets sent later, and a packet is taken for lost."""

_WAIT_TIMEOUTS = 2
"""What is counted is asked for again after so many timeouts, then later."""

_MAX_WAIT_US = 500_000
_MAX_DOUBLED = 6
_ENOUGH = 2
"""A timer is doubled each time it has run out so often."""

_N_PROBES = 3
"""So many counted packets are asked for together: their answers say what the others
are worth."""


@dataclass(slots=True)
class Flight:
    """A packet on its way.

    Attributes:
        order: Its place among all that was sent, or heard of, since.
        at_us: When it was sent last, or heard of.
        n_sent: How often it was sent since the switch said something of it.
    """

    order: int
    at_us: int
    n_sent: int = 1

    @property
    def was_sent_once(self) -> bool:
        """Whether what is heard of it can only be about when it was sent."""
        return self.n_sent == 1


class Flights:
    """All packets of one exchange that wait for an answer."""

    def __init__(self) -> None:
        self._flying: dict[Key, Flight] = {}
        self._counted: dict[Key, Flight] = {}
        self._lost: dict[Key, Flight] = {}
        self._n_launched = 0
        self._latest = [0] * _LATER_ANSWERS
        self._n_expired = self._n_probed = 0
        self._expired_us = self._probed_us = 0

    def __contains__(self, key: Key) -> bool:
        """Return whether a packet was sent and is not answered."""
        return key in self._flying or key in self._counted or key in self._lost

    @property
    def n_flying(self) -> int:
        """Packets that may be in the network: neither counted nor lost."""
        return len(self._flying)

    def clear(self) -> None:
        """Forget all: the exchange is over."""
        self._flying.clear()
        self._counted.clear()
        self._lost.clear()

    # What is sent

    def next_lost(self) -> Key | None:
        """Return the packet to send again first, if there is one."""
        return next(iter(self._lost), None)

    def launch(self, key: Key, now_us: int) -> bool:
        """Note that a packet is sent; return whether it was before."""
        self._n_launched += 1
        flight = self._lost.pop(key, None)
        if flight is None:
            self._flying[key] = Flight(self._n_launched, now_us)
            return False
        flight.order, flight.at_us = self._n_launched, now_us
        flight.n_sent += 1
        self._flying[key] = flight
        return True

    def expect(self, key: Key, now_us: int) -> None:
        """Wait for an answer to a packet that others send, and this member need not."""
        if key not in self:
            self._counted[key] = Flight(self._n_launched, now_us, n_sent=0)

    # What is heard

    def land(self, key: Key) -> Flight | None:
        """Forget a packet that is answered, and return what it was."""
        flight = self._flying.pop(key, None) or self._counted.pop(key, None)
        flight = flight or self._lost.pop(key, None)
        if flight is None:
            return None
        insort(self._latest, flight.order)
        del self._latest[0]
        self._n_probed = 0
        return self._learn(flight)

    def _learn(self, flight: Flight) -> Flight:
        """Trust the timer again once a packet needed to be sent only once."""
        if flight.was_sent_once:
            self._n_expired = 0
        return flight

    def count(self, key: Key, now_us: int) -> Flight | None:
        """Note that the switch has a packet; return what it was until now."""
        flight = self._counted.pop(key, None) or self._flying.pop(key, None)
        flight = flight or self._lost.pop(key, None)
        if flight is None:
            return None
        self._counted[key] = Flight(self._n_launched, now_us, n_sent=0)
        return self._learn(flight)

    def lose(self, key: Key, before: Key | None = None) -> None:
        """Take a packet for lost, unless it was sent after another one."""
        flight = self._flying.get(key) or self._counted.get(key)
        other = None if before is None else self._find(before)
        if flight is None or (other is not None and flight.order > other.order):
            return
        self._move(self._flying if key in self._flying else self._counted, key)

    def recall(self, key: Key) -> None:
        """Ask again for a packet that the switch has: its answer was given."""
        if key in self._counted:
            self._move(self._counted, key)

    def _find(self, key: Key) -> Flight | None:
        return self._flying.get(key) or self._counted.get(key) or self._lost.get(key)

    def _move(self, home: dict[Key, Flight], key: Key) -> None:
        self._lost[key] = home.pop(key)

    def lose_overtaken(self, now_us: int, rest_us: int) -> None:
        """Take for lost what was sent before three packets that are answered.

        Args:
            now_us: The time.
            rest_us: How long counted packets are left alone for.
        """
        for key in list(self._before(self._flying, now_us)):
            self._move(self._flying, key)
        for key in list(self._before(self._counted, now_us - rest_us)):
            self._move(self._counted, key)

    def _before(self, home: dict[Key, Flight], until_us: int) -> Iterator[Key]:
        """Yield the packets in front that are overtaken and were left alone."""
        for key, flight in home.items():
            if flight.order >= self._latest[0] or flight.at_us > until_us:
                return
            yield key

    # Timers

    def timeout_us(self, timeout_us: int) -> int:
        """Return how long to wait for a word about a packet."""
        return _doubled(timeout_us, self._n_expired)

    def _wait_us(self, timeout_us: int) -> int:
        """Return how long to wait before counted packets are asked for again."""
        return _doubled(_WAIT_TIMEOUTS * timeout_us, self._n_probed)

    def due_us(self, timeout_us: int) -> Iterator[int]:
        """Yield when `expire` has something to do."""
        for flight in _first_of(self._flying):
            yield flight.at_us + self.timeout_us(timeout_us)
        for flight in _first_of(self._counted):
            asked_us = max(flight.at_us, self._probed_us)
            yield asked_us + self._wait_us(timeout_us)

    def expire(self, now_us: int, timeout_us: int) -> bool:
        """Take for lost what was silent for too long; return whether any timer ran out.

        Args:
            now_us: The time.
            timeout_us: How long an answer takes, with what that varies.
        """
        self._probe(now_us, timeout_us)
        bound_us = now_us - self.timeout_us(timeout_us)
        late = _until(self._flying, bound_us)
        for key in late:
            self._move(self._flying, key)
        if late and self._expired_us <= bound_us:
            self._n_expired += 1
            self._expired_us = now_us
        return bool(late)

    def _probe(self, now_us: int, timeout_us: int) -> None:
        bound_us = now_us - self._wait_us(timeout_us)
        if self._probed_us > bound_us:
            return
        late = _until(self._counted, bound_us)[:_N_PROBES]
        for key in late:
            self._move(self._counted, key)
        if late:
            self._probed_us, self._n_probed = now_us, self._n_probed + 1


def _doubled(timeout_us: int, n_expired: int) -> int:
    """Return how long to wait, after the timer has run out so often."""
    wait_us = timeout_us << min(n_expired // _ENOUGH, _MAX_DOUBLED)
    return min(wait_us, max(timeout_us, _MAX_WAIT_US))


def _until(home: dict[Key, Flight], bound_us: int) -> list[Key]:
    """Return the packets in front of which nothing was heard since a time."""
    late = takewhile(lambda each: each[1].at_us <= bound_us, home.items())
    return [key for key, _ in late]


def _first_of(home: dict[Key, Flight]) -> Iterator[Flight]:
    return islice(home.values(), 1)
