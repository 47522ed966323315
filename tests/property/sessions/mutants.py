"""Mistakes in the machines, each of which the worlds of `chaos` must notice.

They are those of the models in `models/`, put into the real code: `mutate` compiles a
function again with other text.
"""

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from fediac.sessions import aligned as sessions_aligned
from fediac.sessions.client import Client, apply
from fediac.sessions.coordinator import Coordinator
from fediac.sessions.flights import Flights
from fediac.sessions.journal import Committed, Numbered
from fediac.sessions.member import Member
from fediac.sessions.messages import Verdict
from fediac.switch import aligned, pipeline
from fediac.switch.pipeline import Switch
from fediac.wire.header import Kind
from tests.property.sessions import jobs
from tests.property.sessions.c_mutants import CChange
from tests.property.sessions.chaos import Fate, Stroke
from tests.property.sessions.world import Weather, World


@contextmanager
def mutate(owner: Any, name: str, *changes: tuple[str, str]) -> Iterator[None]:
    """Use a function of which some text is another, inside the block."""
    original = getattr(owner, name)
    source = textwrap.dedent(inspect.getsource(original))
    for old, new in changes:
        assert source.count(old) == 1, f"{name} has {source.count(old)} times {old!r}"
        source = source.replace(old, new)
    made: dict[str, Any] = {}
    exec(compile(source, f"<mutant of {name}>", "exec"), original.__globals__, made)
    with put(owner, name, made[name]):
        yield


@contextmanager
def put(owner: Any, name: str, function: Any) -> Iterator[None]:
    """Use another function in place of one, inside the block."""
    original = getattr(owner, name)
    setattr(owner, name, function)
    try:
        yield
    finally:
        setattr(owner, name, original)


def after(owner: Any, name: str, then: Callable[[Any, int], None]) -> Any:
    """Do something after a method that takes datagrams and the time."""
    original = getattr(owner, name)

    def both(self: Any, datagrams: Any, now_us: int) -> None:
        original(self, datagrams, now_us)
        then(self, now_us)

    return put(owner, name, both)


def _outcome(client: Any) -> Any:
    attendance = client._attendance
    return attendance and attendance.run.outcome


def forgets_early() -> Any:
    def then(client: Any, _: int) -> None:
        outcome = _outcome(client)
        if outcome is not None:
            holds = replace(client._holds, state=outcome.state, work=None, attempt=None)
            client._save(holds)
            client._attendance = None

    return after(Client, "receive", then)


def applied_early() -> Any:
    def then(client: Any, _: int) -> None:
        outcome, holds = _outcome(client), client._holds
        begun = holds.attempt and holds.attempt.start.round_number - 1
        if outcome is not None and holds.model.round_number == begun:
            client._save(replace(holds, model=apply(holds.model, outcome)))

    return after(Client, "receive", then)


def abort_is_outcome() -> Any:
    def then(client: Any, _: int) -> None:
        attendance = client._attendance
        if attendance is not None and attendance.member.problem is not None:
            session = attendance.member.seat.session
            client._settle(Verdict(session, is_committed=False))

    return after(Client, "receive", then)


@contextmanager
def journal_after_end() -> Iterator[None]:
    """The commit is written with the next packet, when clients have been told."""
    send = Coordinator.send

    def write(self: Any, record: Any) -> None:
        if isinstance(record, Committed):
            self.late_record = record
        else:
            self._journal.append(record)
        self._ledger.note(record)

    def send_later(self: Any, now_us: int) -> list[bytes]:
        record = vars(self).get("late_record")
        if record is not None and now_us > self.sent_us + 20_000:
            self._journal.append(record)
            self.late_record = None
        self.sent_us = now_us
        return send(self, now_us)

    with put(Coordinator, "_write", write), put(Coordinator, "send", send_later):
        yield


@contextmanager
def session_rejoined() -> Iterator[None]:
    """A coordinator goes on with the session that its journal has last."""
    begin = Coordinator._try_begin

    def rejoin(self: Any, now_us: int) -> None:
        numbers = [
            each
            for each in self._journal.load()
            if isinstance(each, Numbered) and each.session not in self._ledger.commits
        ]
        is_last = numbers and numbers[-1].session == self._ledger.last
        if not is_last or vars(self).get("has_tried") or self._wanted is None:
            begin(self, now_us)
            return
        self.has_tried = True
        record = numbers[-1]
        settings, epoch = self._settings, self._epoch
        self._settings = replace(settings, draw_number=lambda _: record.session)
        self._epoch = record.epoch
        with put(Coordinator, "_write", lambda *_: None):
            self._open(record.members, self._wanted, now_us)
        self._settings, self._epoch = settings, epoch

    with put(Coordinator, "_try_begin", rejoin):
        yield


@contextmanager
def switch_forgets() -> Iterator[None]:
    """A switch that was killed goes on with its sessions, and empty registers."""

    def kill(self: Any) -> None:
        for session in self.switch.sessions:
            asked = session.asked
            session.switch = Switch(
                self.switch.limits.job_bytes, payload_bytes=asked.payload_bytes
            )
            session.switch.open(
                asked.n_clients,
                n_observers=asked.n_observers,
                session=asked.session,
                keeps_early=True,
            )

    with put(World, "kill_switch", kill):
        yield


@contextmanager
def slot_reused_early() -> Iterator[None]:
    """The switch has half of the slots that clients believe it has."""
    fewer = mutate(
        aligned,
        "process_aligned",
        ("% n_slots", "% max(1, n_slots // 2)"),
        ("_check_turn(slot, packet.packet, n_slots)", "pass"),
    )
    with fewer:
        controls = {
            kind: aligned.process_aligned if kind in (Kind.TALLY, Kind.SUM) else control
            for kind, control in pipeline._CONTROLS.items()
        }
        with put(pipeline, "_CONTROLS", controls):
            yield


def old_epoch_commits() -> Any:
    return put(jobs, "require_epoch", lambda *_: None)


@dataclass(frozen=True)
class Habitat:
    """A kind of world, and how it is treated.

    Attributes:
        fate: What happens there.
        algorithm: Of the only job.
        n_clients: Of it.
        is_gentle: Whether no session may fail.
        n_steps: How long the world lives before it ends well, or does not.
    """

    fate: Fate
    algorithm: str = "fediac"
    n_clients: int = 3
    is_gentle: bool = False
    n_steps: int = 600

    def world(self, seed: int) -> World:
        """Return such a world."""
        return World(
            seed,
            algorithms=[self.algorithm],
            n_clients=self.n_clients,
            is_gentle=self.is_gentle,
        )


STORMY = Habitat(Fate(0.3, 30))
LOSSY = Habitat(
    Fate(1.0, weather=Weather(0.15, 0.1, 0.05, 300)), "switchml", is_gentle=True
)
"""Nobody is killed; many packets, so that slots are used again."""

LATE = Habitat(
    Fate(1.0, weather=Weather(0.0, 0.5, 0.0, 300, 0.1)), "switchml", is_gentle=True
)
"""Nothing is lost, and copies come when the slots have gone on."""

FORGETFUL = Habitat(Fate(0.0, 60, (Stroke.SWITCH_KILLED,)), "switchml")
RESTLESS = Habitat(
    Fate(0.0, 20, (Stroke.COORDINATOR_KILLED,), Weather(0.05, 0.0, 0.0, 300, 0.05)),
    n_clients=1,
    n_steps=1500,
)
LONELY = Habitat(Fate(0.0, 60, (Stroke.CLIENT_STOPPED, Stroke.CLIENTS_STARTED)))
DOUBLED = Habitat(Fate(0.0, 40, (Stroke.COORDINATOR_DOUBLED,)))


@dataclass(frozen=True)
class Mutant:
    """A mistake, and the kind of world that shows it soon.

    Attributes:
        apply: Makes the mistake inside a block.
        habitat: Where.
        in_c: The same mistake in the switch's C code, if it is one of the switch.
    """

    apply: Callable[[], AbstractContextManager[None]]
    habitat: Habitat = STORMY
    in_c: CChange | None = None


_COMPLETE = "count == region.job.present.bit_count()"
_COMPLETE_IN_C = "slot->count == region->job->n_present"
_ANSWER_IN_C = "answer_slot(region, slot, at, EVERYONE)"


def _in_c(*changes: tuple[str, str]) -> CChange:
    return CChange("switch_aligned.c", dict(changes))


def _text(
    owner: Any,
    name: str,
    *changes: tuple[str, str],
    habitat: Habitat = STORMY,
    in_c: CChange | None = None,
) -> Mutant:
    return Mutant(lambda: mutate(owner, name, *changes), habitat, in_c)


MUTANTS: dict[str, Mutant] = {
    "WINDOW_TOO_LARGE": _text(
        sessions_aligned,
        "half_of",
        ("n_slots // 2", "n_slots // 2 + 1"),
        habitat=LOSSY,
    ),
    "SLOT_REUSED_EARLY": Mutant(
        slot_reused_early,
        LOSSY,
        _in_c(
            ("header->packet % n_slots", "header->packet % ((n_slots + 1) / 2)"),
            ("check_turn(slot, header->packet, n_slots)", "KEPT"),
        ),
    ),
    "QUORUM": _text(
        aligned,
        "_contribute",
        (_COMPLETE, f"1 + {_COMPLETE.replace('==', '>=')}"),
        in_c=_in_c((_COMPLETE_IN_C, f"1 + {_COMPLETE_IN_C.replace('==', '>=')}")),
    ),
    "OBSERVER_NOT_COUNTED": _text(
        aligned,
        "_contribute",
        (_COMPLETE, f"{_COMPLETE} - region.job.n_observers"),
        in_c=_in_c((_COMPLETE_IN_C, f"{_COMPLETE_IN_C} - region->job->n_observers")),
    ),
    "NO_DUPLICATE_CHECK": _text(
        aligned,
        "_contribute",
        ("if is_set(", "if False and is_set("),
        in_c=_in_c(("is_set(at + sizeof *slot, header->client)", "0")),
    ),
    "NO_STALE_CHECK": _text(
        aligned,
        "_check_turn",
        ("packet < slot.packet", "False"),
        (" or packet != following", ""),
        habitat=LATE,
        in_c=_in_c(("packet < slot->packet", "0"), ("packet != next", "0")),
    ),
    "SLOT_FREED_AT_ONCE": _text(
        aligned,
        "_contribute",
        ("state=COMPLETE", "state=FREE"),
        habitat=LOSSY,
        in_c=_in_c((_ANSWER_IN_C, f"{_ANSWER_IN_C}, (void)(slot->state = FREE)")),
    ),
    "SWITCH_FORGETS": Mutant(switch_forgets, FORGETFUL),
    "NO_REPEATS": _text(
        Member, "_due_packets", ("flights.next_lost()", "None"), habitat=LOSSY
    ),
    "WAIT_ENDS": _text(
        Flights, "_probe", ("self._probed_us > bound_us", "True"), habitat=LOSSY
    ),
    "REPEATS_UNANSWERED": _text(
        aligned,
        "_contribute",
        ("_answer(region, slot, at, to=packet.client)", "pass"),
        habitat=LOSSY,
        in_c=_in_c(("answer_slot(region, slot, at, header->client)", "(void)0")),
    ),
    "FORGETS_EARLY": Mutant(forgets_early),
    "GIA_NOT_SAVED": _text(Client, "_keep_answers", ("steps=steps)", "steps=())")),
    "PARTIAL_SUMS": _text(
        aligned,
        "_contribute",
        (_COMPLETE, f"{_COMPLETE} - (packet.kind == Kind.SUM)"),
        in_c=_in_c((_COMPLETE_IN_C, f"{_COMPLETE_IN_C} - (slot->kind == SUM)")),
    ),
    "ABORT_IS_OUTCOME": Mutant(abort_is_outcome),
    "COMMIT_WITHOUT_MEAN": _text(Coordinator, "_commit", ("attendance.steps,", "(),")),
    "JOURNAL_AFTER_END": Mutant(journal_after_end),
    "NUMBER_REUSED": _text(
        Coordinator,
        "_open",
        (
            "settings.draw_number(self._ledger.last)",
            "max(self._ledger.commits, default=0) + 1",
        ),
    ),
    "APPLIED_EARLY": Mutant(applied_early),
    "SESSION_REJOINED": Mutant(session_rejoined, RESTLESS),
    "MODEL_NOT_SENT": _text(
        Coordinator,
        "word_for",
        ("replace(word, model=self.model)", "word"),
        habitat=LONELY,
    ),
    "OLD_EPOCH_COMMITS": Mutant(old_epoch_commits, DOUBLED),
}
