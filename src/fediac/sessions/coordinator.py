"""The coordinator: which clients take part, how each session ends, what the model is.

Every attempt at a round is a session with fixed members. It takes part as an observer,
so it has every answer and thus the mean. A session is committed when that is in the
journal, and aborted in every other case; then it opens another one with who is left.
Clients are told after the journal was written, never before.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from array_api_compat import array_namespace

from fediac.compressors.protocol import Outcome, Round, State
from fediac.errors import FediacError, LocalProtocolError, SessionError
from fediac.sessions.attendance import Attendance
from fediac.sessions.client import apply
from fediac.sessions.explanations import say_silent
from fediac.sessions.journal import (
    Began,
    Committed,
    Journal,
    Ledger,
    Numbered,
    Record,
)
from fediac.sessions.member import Member, Seat
from fediac.sessions.messages import Model, Start, Status, Step, Verdict, Word
from fediac.sessions.opening import Opening
from fediac.sessions.replay import OBSERVER, Recipe, Replay, replay
from fediac.wire.control import Open
from fediac.wire.header import PAYLOAD_BYTES
from fediac.wire.tag import session_key

_FIRST_PAUSE_US, _MAX_PAUSE_US = 50_000, 5_000_000
"""Between two sessions that are aborted; doubled each time."""


@dataclass(frozen=True, slots=True)
class CoordinatorSettings:
    """How rounds are run.

    Attributes:
        job: The job's number at the switch.
        recipe: How a round is run; the same for all clients.
        draw_number: Newest session -> the next one's number, see `session_number`.
        job_key: From which the keys of sessions are made; None: there is none.
        payload_bytes: Room for items in a packet.
        lease_ms: The switch ends a session when the coordinator is silent for longer.
        silence_ms: It aborts one when another member is.
        patience_us: How long the switch may be silent.
        attempt_us: How long a session may take.
    """

    job: int
    recipe: Recipe
    draw_number: Callable[[int], int]
    job_key: bytes | None = field(default=None, repr=False)
    payload_bytes: int = PAYLOAD_BYTES
    lease_ms: int = 10_000
    silence_ms: int = 5_000
    patience_us: int = 5_000_000
    attempt_us: int = 600_000_000


@dataclass(frozen=True, slots=True)
class Wanted:
    """A round that is to be made.

    Attributes:
        round_number: Which one.
        clients: Who is expected to take part.
        enough: With so many of them it goes on without the others, at ``until_us``.
        gather_us: How long to wait for all of them.
        until_us: Until when.
        n_failed: Sessions that were aborted.
        from_us: When the next one may be opened; None: at once.
    """

    round_number: int
    clients: tuple[int, ...]
    enough: int
    gather_us: int
    until_us: int
    n_failed: int = 0
    from_us: int | None = None

    def after_failure(self, now_us: int) -> "Wanted":
        """Return it after one more session was aborted: again at once, then later."""
        pause_us = 0
        if self.n_failed:
            pause_us = min(_FIRST_PAUSE_US << min(self.n_failed, 16), _MAX_PAUSE_US)
        return replace(
            self,
            until_us=now_us + max(self.gather_us, pause_us),
            n_failed=self.n_failed + 1,
            from_us=now_us + pause_us,
        )


@dataclass(slots=True)
class _Attempt:
    """A session that runs: what its clients are told, and the observer's own part."""

    start: Start
    opening: Opening
    until_us: int
    attendance: Attendance | None = None


@dataclass(frozen=True, slots=True)
class CommittedRound:
    """What became of a round."""

    record: Committed
    outcome: Outcome


class Coordinator:
    """Takes statuses, packets and the time; gives words, packets and a deadline.

    Args:
        settings: How rounds are run.
        journal: What it must not forget.
        model: A model of some round; what the journal has beyond is applied to it.

    Attributes:
        model: With all committed rounds.
        failures: Why sessions were aborted, in order.
        n_resent: Packets that were sent again, in the sessions that are over.
        is_hopeless: Whether every other session would end as the last one did.
    """

    def __init__(
        self, settings: CoordinatorSettings, journal: Journal, model: Model
    ) -> None:
        self._settings, self._journal = settings, journal
        self._ledger = Ledger()
        records = journal.load()
        for record in records:
            self._ledger.note(record)
        self._write(Began(self._ledger.epoch + 1))
        self._epoch = self._ledger.epoch
        self.model = self._replay_commits(model, records)
        self.n_resent = 0
        self.failures: list[str] = []
        self.is_hopeless = False
        self._known: dict[int, Status] = {}
        self._told: dict[int, tuple[object, ...]] = {}
        self._wanted: Wanted | None = None
        self._attempt: _Attempt | None = None
        self._closing: list[Opening] = []
        self._made: list[CommittedRound] = []

    def _write(self, record: Record) -> None:
        self._journal.append(record)
        self._ledger.note(record)

    def _replay_commits(self, model: Model, records: Iterable[Record]) -> Model:
        commits = [each for each in records if isinstance(each, Committed)]
        for record in sorted(commits, key=lambda c: c.round_number):
            if record.round_number == model.round_number + 1:
                generator = self._observe(model, record.round_number, record.members)
                model = apply(model, replay(generator, record.steps))
        return model

    def _observe(
        self, model: Model, round_number: int, members: tuple[int, ...]
    ) -> Round:
        zeros = array_namespace(model.values).zeros_like(model.values)
        return self._settings.recipe.begin(
            zeros, State(), round_number=round_number, client=OBSERVER, n=len(members)
        )

    # From its owner

    @property
    def epoch(self) -> int:
        """How often coordinators have started on this journal."""
        return self._epoch

    @property
    def session(self) -> int:
        """The session that runs; 0: none."""
        return self._attempt.start.session if self._attempt else 0

    @property
    def wanted_round(self) -> int | None:
        """The round that is being made; None: none is."""
        return self._wanted.round_number if self._wanted else None

    def want_round(
        self, clients: Iterable[int], *, enough: int, gather_us: int, now_us: int
    ) -> None:
        """Begin to make the next round.

        Args:
            clients: Who is expected to take part.
            enough: With so many it goes on without the others.
            gather_us: How long to wait for all of them, in each attempt.
            now_us: The time.
        """
        if self._wanted is not None:
            raise LocalProtocolError("the last round must be made before another")
        number = self.model.round_number + 1
        expected = tuple(sorted(clients))
        self._wanted = Wanted(number, expected, enough, gather_us, now_us + gather_us)

    def take_made(self) -> list[CommittedRound]:
        """Return the rounds that were committed since the last call."""
        made, self._made = self._made, []
        return made

    @property
    def late(self) -> tuple[int, ...]:
        """The clients that are expected and are not ready."""
        wanted = self._wanted
        if wanted is None:
            return ()
        return tuple(i for i in wanted.clients if not self._is_ready(i))

    # From and to clients

    def hear(self, status: Status, now_us: int) -> Word:
        """Note how a client stands; return what it lacks.

        Raises:
            SessionError: It has been in a session that the journal does not know.
        """
        if status.unsettled > self._ledger.last:
            raise SessionError(
                f"client {status.client} was in session {status.unsettled}, which is "
                f"newer than all in this journal ({self._ledger.last}); is it the "
                "journal of another job, or an old copy?"
            )
        self._known[status.client] = status
        attempt = self._attempt
        if attempt is not None and status.failed == attempt.start.session:
            self._abort(f"client {status.client}: {status.why}", now_us)
        return self.word_for(status.client)

    def is_up_to_date(self, client: int) -> bool:
        """Return whether a client has the model, and is in no session."""
        status = self._known.get(client)
        return status is not None and (status.model_round, status.unsettled) == (
            self.model.round_number,
            0,
        )

    def forget(self, client: int) -> None:
        """Wait for a client's next status: it may be gone."""
        self._known.pop(client, None)
        self._told.pop(client, None)

    def words_due(self) -> list[tuple[int, Word]]:
        """Return what clients should be told that they were not told before."""
        words = ((client, self.word_for(client)) for client in list(self._known))
        return [(i, word) for i, word in words if self._is_news(i, word)]

    def _is_news(self, client: int, word: Word) -> bool:
        is_new = self._told.get(client) != word.gist
        self._told[client] = word.gist
        return is_new

    def word_for(self, client: int) -> Word:
        """Return all that a client lacks, as far as is known."""
        status = self._known.get(client)
        word = Word(self._epoch, self.wanted_round or 0)
        if status is None:
            return word
        if status.unsettled:
            return replace(word, verdict=self._verdict(status.unsettled))
        if status.model_round < self.model.round_number:
            return replace(word, model=self.model)
        attempt = self._attempt
        is_member = attempt is not None and client in attempt.start.members
        if attempt is not None and is_member and attempt.attendance is not None:
            return replace(word, start=attempt.start)
        return word

    def _verdict(self, session: int) -> Verdict | None:
        """Return how a session ended; None: it has not."""
        record = self._ledger.commits.get(session)
        if record is not None:
            steps = record.steps or self._steps_of(session)
            return Verdict(session, is_committed=True, last=steps[-1] if steps else ())
        return None if session == self.session else Verdict(session, is_committed=False)

    def _steps_of(self, session: int) -> tuple[Step, ...]:
        """Return a session's answers from the journal: its client was away for long."""
        for record in self._journal.load():
            if isinstance(record, Committed) and record.session == session:
                return record.steps
        return ()

    # From and to the switch

    def receive(self, datagrams: Iterable[bytes], now_us: int) -> None:
        """Take what the switch sends."""
        data = list(datagrams)
        for opening in self._closing:
            opening.receive(data, now_us)
        attempt = self._attempt
        if attempt is None:
            return
        attempt.opening.receive(data, now_us)
        if attempt.attendance is not None:
            attempt.attendance.receive(data, now_us)
        self._go_on(now_us)

    def send(self, now_us: int) -> list[bytes]:
        """Return the packets to send to the switch now."""
        self._go_on(now_us)
        self._closing = [each for each in self._closing if not each.is_over]
        sent = [data for each in self._closing for data in each.send(now_us)]
        attempt = self._attempt
        if attempt is not None:
            sent += attempt.opening.send(now_us)
            if attempt.attendance is not None:
                sent += attempt.attendance.member.send(now_us)
        return sent

    @property
    def deadline_us(self) -> int | None:
        """When `send` has something to do, if nothing is received before."""
        ends = [each.deadline_us for each in self._closing]
        attempt, wanted = self._attempt, self._wanted
        if attempt is not None:
            ends += [attempt.until_us, attempt.opening.deadline_us]
            if attempt.attendance is not None:
                ends.append(attempt.attendance.member.deadline_us)
        elif wanted is not None:
            ends += [wanted.until_us, wanted.from_us]
        return min((each for each in ends if each is not None), default=None)

    # An attempt

    def _go_on(self, now_us: int) -> None:
        attempt = self._attempt
        if attempt is None:
            self._try_begin(now_us)
            return
        attendance = attempt.attendance
        if attendance is not None and attendance.is_done:
            self._commit(attempt, attendance, now_us)
        elif attempt.opening.ended is not None:
            ended = attempt.opening.ended
            members = attempt.start.members
            missing = [members[i] for i in ended.missing if i < len(members)]
            why = ended.why
            if missing:
                why = say_silent("client", missing, self._settings.silence_ms)
            self.is_hopeless = self.is_hopeless or ended.is_final
            self._abort(why, now_us, missing)
        elif attendance is not None and attendance.member.problem is not None:
            self._abort(str(attendance.member.problem), now_us)
        elif now_us >= attempt.until_us:
            seconds = self._settings.attempt_us / 1e6
            self._abort(f"not over after {seconds:g} s", now_us, attempt.start.members)
        elif attendance is None and attempt.opening.opened is not None:
            self._attend(attempt, now_us)

    def _is_ready(self, client: int) -> bool:
        status, wanted = self._known.get(client), self._wanted
        if status is None or wanted is None:
            return False
        return (status.ready_round, status.unsettled, status.model_round) == (
            wanted.round_number,
            0,
            wanted.round_number - 1,
        )

    def _try_begin(self, now_us: int) -> None:
        """Open a session once all are ready, or enough of them when time is up."""
        wanted = self._wanted
        if wanted is None or now_us < (wanted.from_us or now_us):
            return
        wanted = self._wanted = replace(wanted, from_us=None)
        ready = tuple(i for i in wanted.clients if self._is_ready(i))
        is_time = now_us >= wanted.until_us and len(ready) >= max(1, wanted.enough)
        if is_time or (ready and len(ready) == len(wanted.clients)):
            self._open(ready, wanted, now_us)
        elif now_us >= wanted.until_us:
            self._wanted = replace(wanted, until_us=now_us + wanted.gather_us)

    def _open(self, members: tuple[int, ...], wanted: Wanted, now_us: int) -> None:
        settings, round_number = self._settings, wanted.round_number
        number = settings.draw_number(self._ledger.last)
        self._write(Numbered(self._epoch, number, round_number, members))
        asked = Open(
            number,
            job=settings.job,
            epoch=self._epoch,
            n_clients=len(members),
            n_observers=1,
            payload_bytes=settings.payload_bytes,
            lease_ms=settings.lease_ms,
            silence_ms=settings.silence_ms,
        )
        opening = Opening(
            asked, settings.job_key, patience_us=settings.patience_us, now_us=now_us
        )
        key = session_key(settings.job_key, number)
        start = Start(number, round_number, members, settings.payload_bytes, key)
        self._attempt = _Attempt(start, opening, now_us + settings.attempt_us)

    def _attend(self, attempt: _Attempt, now_us: int) -> None:
        start, settings = attempt.start, self._settings
        seat = Seat(
            start.session,
            len(start.members),
            start.payload_bytes,
            start.key,
            is_observer=True,
            patience_us=settings.patience_us,
        )
        try:
            run = Replay(self._observe(self.model, start.round_number, start.members))
        except FediacError as error:
            self._abort(str(error), now_us)
            return
        attempt.attendance = Attendance(Member(seat, now_us), run, _keep_nothing)

    def _commit(self, attempt: _Attempt, attendance: Attendance, now_us: int) -> None:
        """Write the answers down; from then on the round counts, and is told."""
        start, outcome = attempt.start, attendance.run.outcome
        if outcome is None:
            raise LocalProtocolError("a round must be over before it is committed")
        record = Committed(
            self._epoch,
            start.session,
            start.round_number,
            start.members,
            attendance.steps,
        )
        self._write(record)
        self.model = apply(self.model, outcome)
        self._made.append(CommittedRound(record, outcome))
        self._wanted = None
        self._leave(attempt, now_us)

    def _abort(self, why: str, now_us: int, missing: Iterable[int] = ()) -> None:
        """Give a session up; who was missing has to say first that it is back."""
        attempt, wanted = self._attempt, self._wanted
        if attempt is None or wanted is None:
            return
        self.failures.append(f"round {wanted.round_number}: {why}")
        self._wanted = wanted.after_failure(now_us)
        self._leave(attempt, now_us)
        for client in missing:
            self._known.pop(client, None)

    def _leave(self, attempt: _Attempt, now_us: int) -> None:
        """Go on without a session; until they say more, its members are in it."""
        self._attempt = None
        if attempt.attendance is not None:
            self.n_resent += attempt.attendance.member.n_resent
        attempt.opening.close(now_us)
        self._closing.append(attempt.opening)
        for client in attempt.start.members:
            status = self._known.get(client)
            if status is not None and not status.unsettled:
                session = attempt.start.session
                self._known[client] = replace(status, unsettled=session)


def _keep_nothing(steps: object) -> None:
    """Leave the observer's answers to the commit: it needs none before."""
