"""A switch elsewhere, for rounds whose clients are all in this process.

Each client is a member of its own, with a socket of its own. Nothing is kept between
rounds, and a round that loses its session is run again from the same updates, so a
switch that is killed costs a retry.
"""

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fediac.core.exchange import Answer, Exchange
from fediac.errors import SessionError
from fediac.network.addresses import Endpoint
from fediac.remote.coordinator import draw_number
from fediac.remote.link import Link, Machine, clock_us, drive
from fediac.sessions.member import Member, Seat
from fediac.sessions.opening import Ended, Opening
from fediac.switch.counters import Counters
from fediac.switch.registers import Layout
from fediac.transports.protocol import SessionTransport
from fediac.transports.register_count import RegisterCount
from fediac.wire.control import Open
from fediac.wire.header import payload_of
from fediac.wire.tag import session_key

T = TypeVar("T")

WAIT_S = 60.0
"""How long to try again when there is no switch, unless told otherwise."""

_LEASE_MS = 60_000
_SILENCE_MS = 60_000
"""Clients in one process say nothing while they compute."""

_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.2, 5.0
"""Before another session is tried; doubled each time."""


class RemoteSwitch:
    """Where `fediac.aggregate` and training can have their sums made.

    Args:
        address: ``HOST:PORT`` of the switch.
        key: The job's; None: the switch has none.
        wait_s: How long to try again when there is no switch, or none any more.
        mtu: The longest IP packet that the path takes.
        patience_s: How long the switch may be silent.

    Attributes:
        n_retries: Sessions that were lost, or not to be had, so far.
        n_resent: Packets that members sent again, so far.
        buffer_bytes: The smallest receive buffer of its members; None: there were none.
    """

    def __init__(
        self,
        address: str,
        *,
        key: bytes | None = None,
        wait_s: float = WAIT_S,
        mtu: int = 1500,
        patience_s: float = 3.0,
    ) -> None:
        self.endpoint = Endpoint.parse(address, name="switch")
        self.n_retries = self.n_resent = 0
        self.buffer_bytes: int | None = None
        self.on_retry: Callable[[str], None] = lambda _: None
        self._key, self._wait_s = key, wait_s
        self._payload_bytes = payload_of(mtu)
        self._patience_us = round(1e6 * patience_s)
        self._job = secrets.randbits(63)
        self._last = 0

    def close(self) -> None:
        """Leave; nothing is kept between rounds."""

    def run_session(
        self, members: tuple[int, ...], run: Callable[[SessionTransport], T]
    ) -> T:
        """Return what ``run`` returns, in a session of these members.

        Raises:
            SessionError: None could be brought to its end in time.
        """

        def attempt() -> T:
            with self._session(members) as transport:
                return run(transport)

        return self.try_again(attempt)

    def try_again(self, attempt: Callable[[], T]) -> T:
        """Return what ``attempt`` returns, in one session or in a later one.

        Raises:
            SessionError: None could be brought to its end in time.
        """
        until_s, pause_s = time.monotonic() + self._wait_s, _FIRST_PAUSE_S
        while True:
            try:
                return attempt()
            except SessionError as error:
                if error.is_final:
                    raise
                if time.monotonic() + pause_s > until_s:
                    raise SessionError(
                        f"{error}; gave up after {self._wait_s:g} s ({self.endpoint})"
                    ) from error
                self.n_retries += 1
                self.on_retry(str(error))
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _MAX_PAUSE_S)

    @contextmanager
    def open(self, n_clients: int) -> Iterator["Opened"]:
        """Open a session of so many clients, and close it in the end."""
        self._last = draw_number(self._last)
        asked = Open(
            self._last,
            job=self._job,
            epoch=1,
            n_clients=n_clients,
            n_observers=0,
            payload_bytes=self._payload_bytes,
            lease_ms=_LEASE_MS,
            silence_ms=_SILENCE_MS,
        )
        opening = Opening(
            asked, self._key, patience_us=self._patience_us, now_us=clock_us()
        )
        with Link(self.endpoint) as home:
            drive([(home, opening)], lambda: opening.is_over or bool(opening.opened))
            if opening.opened is None or opening.ended is not None:
                ended = opening.ended or Ended("it was closed")
                raise SessionError(
                    f"session {self._last}: {ended.why}{home.hint}",
                    is_final=ended.is_final,
                )
            layout = Layout(
                n_clients,
                asked.payload_bytes,
                opening.opened.register_bytes,
                keeps_early=True,
            )
            try:
                yield Opened(opening, home, layout, session_key(self._key, self._last))
            finally:
                opening.close(clock_us())
                home.send(opening.send(clock_us()))

    @contextmanager
    def _session(self, members: tuple[int, ...]) -> Iterator["_NetworkTransport"]:
        """Open a session, and let its members join."""
        with ExitStack() as stack:
            opened = stack.enter_context(self.open(len(members)))
            seats = {
                client: self._seat(i, opened.key) for i, client in enumerate(members)
            }
            links = {
                client: stack.enter_context(Link(self.endpoint)) for client in members
            }
            self.buffer_bytes = min(each.buffer_bytes for each in links.values())
            transport = _NetworkTransport(opened, seats, links)
            try:
                yield transport
            finally:
                self.n_resent += transport.n_resent

    def _seat(self, place: int, key: bytes) -> Seat:
        return Seat(
            self._last,
            place,
            self._payload_bytes,
            key,
            patience_us=self._patience_us,
        )


@dataclass(frozen=True, slots=True)
class Opened:
    """A session that the switch has opened, its members' key, and the way to it."""

    opening: Opening
    home: Link
    layout: Layout
    key: bytes = field(repr=False)

    @property
    def problem(self) -> SessionError | None:
        """Why the session is over, if it is."""
        ended = self.opening.ended
        if ended is None:
            return None
        return SessionError(f"session {self.opening.session}: {ended.why}")


class _NetworkTransport:
    """Carries the exchanges of all clients, each over a socket of its own."""

    def __init__(
        self, opened: Opened, seats: Mapping[int, Seat], links: Mapping[int, Link]
    ) -> None:
        self.layout = opened.layout
        self._opened = opened
        now_us = clock_us()
        self._members = {i: Member(seat, now_us) for i, seat in seats.items()}
        self._machines: list[tuple[Link, Machine]] = [(opened.home, opened.opening)]
        self._machines += [(links[i], member) for i, member in self._members.items()]
        self._counts = RegisterCount(self.layout, len(seats))

    @property
    def payload_bytes(self) -> int:
        """Room for items in a packet."""
        return self.layout.payload_bytes

    @property
    def counters(self) -> Counters:
        """What the switch's registers count of a session in which nothing is lost."""
        return self._counts.counters

    @property
    def n_resent(self) -> int:
        """Packets that its members sent again."""
        return sum(member.n_resent for member in self._members.values())

    def carry(self, requests: Mapping[int, Exchange]) -> Answer:
        """Return the answer to one exchange, asked by all clients."""
        now_us = clock_us()
        answers: dict[int, Answer] = {}
        for client, exchange in requests.items():
            self._members[client].awake(now_us)
            self._members[client].ask(exchange)
        waiting = dict(self._members)

        def is_done() -> bool:
            for client, member in list(waiting.items()):
                answer = member.take_answer()
                if answer is not None:
                    answers[client] = answer
                    del waiting[client]
            return not waiting or self._problem() is not None

        drive(self._machines, is_done)
        problem = self._problem()
        if waiting and problem is not None:
            raise problem
        answer = next(iter(answers.values()))
        self._counts.add(list(requests.values()), answer)
        return answer

    def _problem(self) -> SessionError | None:
        if self._opened.problem is not None:
            return self._opened.problem
        problems: Any = (member.problem for member in self._members.values())
        found: SessionError | None = next((each for each in problems if each), None)
        return found
