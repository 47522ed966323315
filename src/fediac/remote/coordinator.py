"""A coordinator that opens sessions and observes them, for who runs rounds by himself.

It knows nothing of how its clients are told: by messages of another system, say.
`Conductor` is the one that tells them, too.
"""

import secrets
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self, TypeAlias

from fediac.compressors.protocol import Outcome, Round
from fediac.errors import ArgumentError, LocalProtocolError, SessionError
from fediac.network.addresses import Endpoint
from fediac.remote.journal_file import FileJournal
from fediac.remote.link import Link, clock_us, drive
from fediac.remote.switch_client import patience_of
from fediac.sessions.attendance import Attendance
from fediac.sessions.explanations import say_silent
from fediac.sessions.journal import (
    Began,
    Committed,
    Ledger,
    Numbered,
    Record,
    session_number,
)
from fediac.sessions.member import Member, Seat
from fediac.sessions.messages import Step
from fediac.sessions.opening import Opening
from fediac.sessions.replay import Replay
from fediac.wire.control import Open
from fediac.wire.header import payload_of
from fediac.wire.tag import session_key

_Commit: TypeAlias = Callable[[tuple[Step, ...]], None]


def draw_number(last: int) -> int:
    """Return the number of a session, which was never used before."""
    return session_number(time.time_ns() // 1_000_000, last, secrets.randbits(16))


class Coordinator:
    """Opens a job's sessions at a switch, one after the other, and observes them.

    Args:
        address: ``HOST:PORT`` of the switch.
        job: The job's number, 0..2**63-1; jobs of one switch cannot touch each other.
        key: The job's; None: the switch has none.
        journal: A file where sessions' numbers and commits outlive this process; None:
            they do not.
        mtu: The longest IP packet that all members' paths take.
        patience_s: How long the switch may be silent.
        silence_s: How long a member may be; then the session is aborted.
        lease_s: How long the coordinator may be, between two calls.
    """

    def __init__(  # noqa: PLR0913 - one parameter for each setting
        self,
        address: str,
        *,
        job: int,
        key: bytes | None = None,
        journal: Path | str | None = None,
        mtu: int = 1500,
        patience_s: float = 5.0,
        silence_s: float = 10.0,
        lease_s: float = 60.0,
    ) -> None:
        if not 0 <= job < 1 << 63:
            raise ArgumentError("job", f"must be in 0..2**63-1, got {job}")
        self.endpoint = Endpoint.parse(address, name="address")
        self.job, self._key = job, key
        self._payload_bytes = payload_of(mtu)
        self._patience_us = patience_of(patience_s)
        self._silence_ms = milliseconds("silence_s", silence_s)
        self._lease_ms = milliseconds("lease_s", lease_s)
        self._journal = FileJournal(Path(journal)) if journal is not None else None
        self._ledger = Ledger()
        for record in self._journal.load() if self._journal else ():
            self._ledger.note(record)
        self._write(Began(self._ledger.epoch + 1))
        self._epoch = self._ledger.epoch

    def close(self) -> None:
        """Let another coordinator have the journal."""
        if self._journal is not None:
            self._journal.close()

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the journal."""
        self.close()

    def is_committed(self, session: int) -> bool:
        """Return whether a session counts. One that does not never will."""
        return session in self._ledger.commits

    @property
    def n_rounds(self) -> int:
        """The newest round that was committed."""
        commits = self._ledger.commits.values()
        return max((each.round_number for each in commits), default=0)

    def open(
        self, members: int | Collection[int], *, round_number: int = 0
    ) -> "OpenSession":
        """Return a session that the switch has opened; close it in the end.

        Args:
            members: How many clients take part, or their numbers: the place of a client
                in the session is that of its number among them.
            round_number: For the journal.

        Raises:
            SessionError: The switch does not answer, or refuses.
        """
        numbers = tuple(range(members) if isinstance(members, int) else members)
        if not numbers or len(set(numbers)) < len(numbers):
            raise ArgumentError(
                "members", f"must be different clients, at least 1, got {members}"
            )
        number = draw_number(self._ledger.last)
        self._write(Numbered(self._epoch, number, round_number, numbers))
        asked = Open(
            number,
            job=self.job,
            epoch=self._epoch,
            n_clients=len(numbers),
            n_observers=1,
            payload_bytes=self._payload_bytes,
            lease_ms=self._lease_ms,
            silence_ms=self._silence_ms,
        )
        seat = Seat(
            number,
            len(numbers),
            self._payload_bytes,
            session_key(self._key, number),
            is_observer=True,
            patience_us=self._patience_us,
        )
        opening = Opening(
            asked, self._key, patience_us=self._patience_us, now_us=clock_us()
        )

        def commit(steps: tuple[Step, ...]) -> None:
            record = Committed(self._epoch, number, round_number, numbers, steps)
            self._write(record)

        return OpenSession(Link(self.endpoint), opening, seat, numbers, commit)

    def _write(self, record: Record) -> None:
        if self._journal is not None:
            self._journal.append(record)
        self._ledger.note(record)


class OpenSession:
    """A session that runs, from its coordinator's side: made by `Coordinator.open`.

    Attributes:
        members: The clients' numbers, in the order of their places.
    """

    def __init__(
        self,
        link: Link,
        opening: Opening,
        seat: Seat,
        members: Sequence[int],
        commit: _Commit,
    ) -> None:
        self.members = tuple(members)
        self._link, self._opening, self._seat = link, opening, seat
        self._silence_ms = opening.silence_ms
        self._commit: _Commit | None = commit
        self._member: Member | None = None
        self._attendance: Attendance | None = None
        self._steps: tuple[Step, ...] = ()
        self._is_closed = False
        try:
            drive([(link, self)], lambda: opening.opened is not None or self._is_over)
            self._require_going()
        except BaseException:
            link.close()
            raise

    @property
    def number(self) -> int:
        """The session's number: what its clients must be told."""
        return self._seat.session

    @property
    def key(self) -> bytes:
        """The session's key, for its clients: it is of no use in any other."""
        return self._seat.key

    @property
    def payload_bytes(self) -> int:
        """Room for items in a packet."""
        return self._seat.payload_bytes

    def run(self, run: Round) -> Outcome:
        """Return a round's outcome, as all its clients get it.

        Args:
            run: What ``run_round`` of the clients' compressor returns for an update of
                zeros, which are not added.

        Raises:
            SessionError: The session cannot go on; ``missing`` are the clients that
                were silent, if that was it.
        """
        if self._member is None:
            self._member = Member(self._seat, clock_us())
        self._member.awake(clock_us())
        attendance = Attendance(self._member, Replay(run), _keep_nothing)
        self._attendance = attendance
        drive([(self._link, self)], lambda: attendance.is_done or self._is_over)
        outcome = attendance.run.outcome
        if outcome is None:
            self._require_going()
            raise LocalProtocolError("a round that is not over must have a reason")
        self._steps += attendance.steps
        return outcome

    def commit(self) -> None:
        """Let the session count: it is in the journal before this returns.

        Tell no client before that its round counts. Of a session that was closed
        without, none counts.
        """
        if self._commit is None:
            raise LocalProtocolError("a session must be open and is committed once")
        if not self._steps:
            raise LocalProtocolError("a round must be over before it is committed")
        self._commit(self._steps)
        self._commit = None

    def close(self) -> None:
        """End the session at the switch, and wait a moment for its word.

        Members that still wait for an answer learn of the end from the switch.
        """
        self._commit = None
        if self._is_closed:
            return
        self._is_closed, opening = True, self._opening
        opening.close(clock_us())
        with suppress(SessionError):  # its lease ends it, then
            drive([(self._link, opening)], lambda: opening.is_over)
        self._link.close()

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    @property
    def _is_over(self) -> bool:
        member = self._member
        return self._opening.ended is not None or bool(member and member.problem)

    def _require_going(self) -> None:
        ended, member = self._opening.ended, self._member
        if ended is not None:
            who = tuple(self.members[i] for i in ended.missing if i < len(self.members))
            why = say_silent("client", who, self._silence_ms) if who else ended.why
            raise SessionError(
                f"session {self.number}: {why}{self._link.hint}",
                missing=who,
                is_final=ended.is_final,
            )
        if member is not None and member.problem is not None:
            raise member.problem

    # A machine

    @property
    def deadline_us(self) -> int | None:
        """When it has something to send."""
        ends = [self._opening.deadline_us]
        if self._member is not None:
            ends.append(self._member.deadline_us)
        return min((each for each in ends if each is not None), default=None)

    def receive(self, datagrams: Iterable[bytes], now_us: int) -> None:
        """Take what the switch sent."""
        data = list(datagrams)
        self._opening.receive(data, now_us)
        if self._attendance is not None:
            self._attendance.receive(data, now_us)

    def send(self, now_us: int) -> list[bytes]:
        """Return the packets to send."""
        sent = self._opening.send(now_us)
        return sent + (self._member.send(now_us) if self._member else [])


def milliseconds(name: str, seconds: float) -> int:
    """Return a time of the wire, whole milliseconds of 32 bits.

    Raises:
        ArgumentError: It is none.
    """
    if not 0.001 <= seconds < 4e6:
        raise ArgumentError(name, f"must be in 0.001..4e6, got {seconds}")
    return round(1000 * seconds)


def _keep_nothing(steps: object) -> None:
    """Leave the answers to the commit: an observer needs none before."""
