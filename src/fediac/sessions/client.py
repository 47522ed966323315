"""A client through all rounds: what it holds, what it saves, what it believes.

It writes its update to its disk before it sends anything of it, and the answers of each
step before the first packet of the next. It keeps all of that until the coordinator has
said how that session ended, and applies no mean before. So wherever it is killed, its
update is either counted in a committed session or still in its hands.

A client that is started again does not go back into a session: what it knew of its
packets is gone. It says that it cannot go on, and learns how the session ended.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol

from array_api_compat import array_namespace

from fediac.compressors.protocol import Outcome, Round, State
from fediac.compressors.shared_steps import nonfinite_error
from fediac.core.corrected import count_nonfinite
from fediac.core.rng import Stream
from fediac.core.types import Update
from fediac.errors import FediacError, LocalProtocolError
from fediac.sessions.attendance import Attendance
from fediac.sessions.member import Member, Seat
from fediac.sessions.messages import Model, Start, Status, Step, Verdict, Word
from fediac.sessions.replay import Recipe, Replay, replay


@dataclass(frozen=True, slots=True)
class Work:
    """A trained update that no committed session has counted yet."""

    round_number: int
    update: Update


@dataclass(frozen=True, slots=True)
class Attempt:
    """A session that the client takes part in, until it knows how that ended.

    Attributes:
        start: What it was told.
        steps: All answers that it needs to know again what it sent.
    """

    start: Start
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class Holdings:
    """All that a client must not forget.

    Attributes:
        model: With the means of all rounds that it knows to be committed.
        state: For its next round: the residual, above all.
        work: Its update, until that is counted.
        attempt: Its session, until that is settled.
        last: The newest session it took part in.
        epoch: The newest of its coordinator that it has heard of.
    """

    model: Model
    state: State = field(default_factory=State)
    work: Work | None = None
    attempt: Attempt | None = None
    last: int = 0
    epoch: int = 0


class Disk(Protocol):
    """Where a client's holdings outlive it."""

    def load(self) -> Holdings | None:
        """Return what was saved last; None: nothing yet."""
        ...

    def save(self, holdings: Holdings) -> None:
        """Replace what was saved, all of it or nothing, before this returns."""
        ...


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How a client takes part.

    Attributes:
        client: Its number, the same in all rounds.
        recipe: How it runs a round; the same for all clients.
        patience_us: How long the switch may be silent.
    """

    client: int
    recipe: Recipe
    patience_us: int = 5_000_000


class Client:
    """Takes words, packets, updates and the time; gives its status and packets.

    Args:
        settings: How it takes part.
        disk: Where its holdings are.
        model: What it begins with where nothing was saved.
    """

    def __init__(self, settings: ClientSettings, disk: Disk, model: Model) -> None:
        self._settings, self._disk = settings, disk
        self._holds = disk.load() or Holdings(model)
        self._attendance: Attendance | None = None
        self._n_resent = 0
        self._wanted_round = 0
        self._why = "has been restarted"

    @property
    def holdings(self) -> Holdings:
        """What it holds now, which is what is saved."""
        return self._holds

    @property
    def n_resent(self) -> int:
        """Packets that it has sent again, in all sessions since it was started."""
        now = self._attendance.member.n_resent if self._attendance else 0
        return self._n_resent + now

    @property
    def model(self) -> Model:
        """Its model."""
        return self._holds.model

    @property
    def training_round(self) -> int | None:
        """The round that an update is wanted for; None: none now."""
        holds, wanted = self._holds, self._wanted_round
        is_free = holds.attempt is None and holds.model.round_number == wanted - 1
        has_it = holds.work is not None and holds.work.round_number == wanted
        return wanted if is_free and not has_it else None

    @property
    def status(self) -> Status:
        """How it stands."""
        holds = self._holds
        session = holds.attempt.start.session if holds.attempt else 0
        problem = self._problem
        return Status(
            client=self._settings.client,
            model_round=holds.model.round_number,
            ready_round=holds.work.round_number if holds.work else 0,
            unsettled=session,
            failed=session if problem else 0,
            why=problem or "",
        )

    @property
    def _problem(self) -> str | None:
        if self._holds.attempt is None:
            return None
        if self._attendance is None:
            return self._why
        problem = self._attendance.member.problem
        return None if problem is None else str(problem)

    # From its owner

    def take_update(self, update: Update) -> None:
        """Keep the update of the round that is wanted.

        One of an earlier round that no session has counted goes into the residual.

        Raises:
            NotFiniteError: It has entries that cannot be sent; nothing has changed.
        """
        wanted = self.training_round
        if wanted is None:
            raise LocalProtocolError("an update must be asked for by training_round")
        holds = self._holds
        state = holds.state
        if holds.work is not None and self._settings.recipe.keeps_residual:
            state = _with_unsent(state, holds.work.update)
        if count_nonfinite(update, state.residual):
            stream = Stream(0, wanted, self._settings.client)
            n_bad = count_nonfinite(update, state.residual)
            raise nonfinite_error(stream, update, n_bad)
        self._save(replace(holds, state=state, work=Work(wanted, update)))

    # From the coordinator

    def hear(self, word: Word, now_us: int) -> None:
        """Do what the coordinator says, unless an older coordinator says it."""
        if word.epoch < self._holds.epoch:
            return
        if word.epoch > self._holds.epoch:
            self._save(replace(self._holds, epoch=word.epoch))
        if word.verdict is not None:
            self._settle(word.verdict)
        if word.model is not None:
            self._take_model(word.model)
        if self._holds.attempt is None:
            self._wanted_round = word.round_number
        if word.start is not None:
            self._begin(word.start, now_us)

    def _settle(self, verdict: Verdict) -> None:
        """Learn how its session ended: the next state is made from the saved one."""
        holds = self._holds
        attempt = holds.attempt
        if attempt is None or attempt.start.session != verdict.session:
            return
        if verdict.is_committed:
            outcome = self._outcome(attempt, verdict.last)
            model = apply(holds.model, outcome)
            holds = replace(holds, model=model, state=outcome.state, work=None)
        self._save(replace(holds, attempt=None))
        self._n_resent, self._attendance = self.n_resent, None

    def _outcome(self, attempt: Attempt, last: Step) -> Outcome:
        attendance = self._attendance
        if attendance is not None and attendance.run.outcome is not None:
            return attendance.run.outcome
        steps = (*attempt.steps, last) if last else attempt.steps
        return replay(self._generator(attempt.start), steps)

    def _take_model(self, model: Model) -> None:
        holds = self._holds
        is_newer = model.round_number > holds.model.round_number
        if holds.attempt is None and is_newer:
            self._save(replace(holds, model=model))

    def _begin(self, start: Start, now_us: int) -> None:
        """Take part in a session, once that is saved."""
        holds, me = self._holds, self._settings
        work = holds.work
        is_ready = work is not None and work.round_number == start.round_number
        is_on_it = holds.model.round_number == start.round_number - 1
        is_new = holds.attempt is None and start.session > holds.last
        if not (is_ready and is_on_it and is_new and me.client in start.members):
            return
        kept = Attempt(replace(start, key=b""))  # who is restarted does not go back
        self._save(replace(holds, attempt=kept, last=start.session))
        seat = Seat(
            start.session,
            start.members.index(me.client),
            start.payload_bytes,
            start.key,
            patience_us=me.patience_us,
        )
        try:
            run = Replay(self._generator(start))
        except FediacError as error:
            self._why = str(error)
            return
        self._attendance = Attendance(Member(seat, now_us), run, self._keep_answers)

    def _generator(self, start: Start) -> Round:
        holds = self._holds
        if holds.work is None:
            raise LocalProtocolError("a session needs an update")
        return self._settings.recipe.begin(
            holds.work.update,
            holds.state,
            round_number=start.round_number,
            client=self._settings.client,
            n=len(start.members),
        )

    def _keep_answers(self, steps: tuple[Step, ...]) -> None:
        attempt = self._holds.attempt
        if attempt is not None:
            self._save(replace(self._holds, attempt=replace(attempt, steps=steps)))

    # From and to the switch

    def receive(self, datagrams: Iterable[bytes], now_us: int) -> None:
        """Take what the switch sends."""
        if self._attendance is not None:
            self._attendance.receive(datagrams, now_us)

    def send(self, now_us: int) -> list[bytes]:
        """Return the packets to send to the switch now."""
        return self._attendance.member.send(now_us) if self._attendance else []

    def move(self, now_us: int) -> None:
        """Its address has changed: tell the switch."""
        if self._attendance is not None:
            self._attendance.member.move(now_us)

    @property
    def deadline_us(self) -> int | None:
        """When `send` has something to do, if nothing is received before."""
        if self._attendance is None or self._attendance.member.problem is not None:
            return None
        return self._attendance.member.deadline_us

    def _save(self, holdings: Holdings) -> None:
        self._disk.save(holdings)
        self._holds = holdings


def apply(model: Model, outcome: Outcome) -> Model:
    """Return the model after one more round."""
    mean = outcome.mean.dense(model.values)
    return Model(model.round_number + 1, model.values - mean)


def _with_unsent(state: State, update: Update) -> State:
    """Return the state of a client whose update was not counted at all."""
    residual = state.residual
    if residual is None:
        return replace(
            state, residual=array_namespace(update).asarray(update, copy=True)
        )
    return replace(state, residual=residual + update)
