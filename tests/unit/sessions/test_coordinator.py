"""The coordinator: who takes part, how sessions end, who is told what and when."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from fediac.errors import LocalProtocolError, SessionError
from fediac.sessions.client import Client, ClientSettings
from fediac.sessions.coordinator import Coordinator, CoordinatorSettings
from fediac.sessions.journal import Began, Committed, Numbered, Record
from fediac.sessions.messages import Model, Status, Verdict, Word
from fediac.switch.control import ControlPlane
from fediac.wire.control import Abort, Ending
from fediac.wire.packet import Packet
from fediac.wire.tag import session_key
from tests.support import bytes_of, refuses
from tests.unit.sessions.rooms import (
    DIM,
    HOME,
    KEY,
    PATIENCE_US,
    RECIPE,
    Disk,
    Journal,
    Machine,
    new_switch,
    says,
    talk,
    update,
)

FIRST = Model(0, np.linspace(-1, 1, DIM, dtype=np.float32))
GATHER_US = 1_000_000
SETTINGS = CoordinatorSettings(
    7,
    RECIPE,
    lambda last: max(last, 99) + 1,
    KEY,
    payload_bytes=64,
    lease_ms=3000,
    silence_ms=2000,
    patience_us=PATIENCE_US,
    attempt_us=60_000_000,
)


def coordinator(journal: Journal | None = None, **changes: object) -> Coordinator:
    settings = replace(SETTINGS, **changes)  # type: ignore[arg-type]
    return Coordinator(settings, journal or Journal(), FIRST)


def want(made: Coordinator, *, n: int = 2, enough: int = 1, now_us: int = 0) -> None:
    made.want_round(range(n), enough=enough, gather_us=GATHER_US, now_us=now_us)


def be_ready(made: Coordinator, *clients: int, now_us: int = 0) -> list[Word]:
    return [made.hear(Status(i, 0, ready_round=1), now_us) for i in clients]


class Everybody:
    """A coordinator, its clients and a switch, in one round after the other."""

    def __init__(self, n_clients: int = 2, journal: Journal | None = None) -> None:
        self.journal = journal or Journal()
        self.switch: ControlPlane = new_switch()
        self.coordinator = coordinator(self.journal)
        self.disks = [Disk() for _ in range(n_clients)]
        self.clients = [
            Client(ClientSettings(i, RECIPE, PATIENCE_US), disk, FIRST)
            for i, disk in enumerate(self.disks)
        ]

    def report(self, now_us: int) -> None:
        """Let clients train, say how they stand, and hear what they lack."""
        for i, client in enumerate(self.clients):
            wanted = client.training_round
            if wanted is not None:
                client.take_update(update(i, wanted))
            client.hear(self.coordinator.hear(client.status, now_us), now_us)
        for i, told in self.coordinator.words_due():
            self.clients[i].hear(told, now_us)

    def talk(
        self,
        now_us: int = 0,
        is_lost: Callable[[bytes, Packet], bool] = lambda *_: False,
    ) -> None:
        machines = {b"%d" % i: each for i, each in enumerate(self.clients)}
        everybody: dict[bytes, Machine] = {HOME: self.coordinator, **machines}
        talk(self.switch, everybody, now_us, is_lost=is_lost)

    def round(self, now_us: int = 0) -> None:
        want(self.coordinator, n=len(self.clients), now_us=now_us)
        for _ in range(4):
            self.report(now_us)
            self.talk(now_us)
        self.report(now_us)
        self.report(now_us)


def test_rounds_are_made_and_all_have_the_same_model() -> None:
    everybody = Everybody()
    for number in (1, 2, 3):
        everybody.round(number)
        (made,) = everybody.coordinator.take_made()
        assert made.record.round_number == number
        assert everybody.coordinator.take_made() == []
        models = [everybody.coordinator.model, *(c.model for c in everybody.clients)]
        assert {each.round_number for each in models} == {number}
        assert len({bytes_of(each.values) for each in models}) == 1
    assert everybody.coordinator.failures == []


def test_a_number_is_in_the_journal_before_the_switch_hears_of_it() -> None:
    journal = Journal()
    made = coordinator(journal)
    want(made)
    be_ready(made, 0, 1)
    assert made.send(0)
    assert journal.records == [Began(1), Numbered(1, 100, 1, (0, 1))]
    assert made.session == 100


def test_a_commit_is_in_the_journal_before_any_client_hears_of_it() -> None:
    class Watched(Journal):
        def append(self, record: Record) -> None:
            if isinstance(record, Committed):
                told = [everybody.coordinator.word_for(i).verdict for i in (0, 1)]
                assert told == [None, None]
                assert [len(step) for step in record.steps] == [1, 1]
            super().append(record)

    journal = Watched()
    everybody = Everybody(journal=journal)
    everybody.round()
    assert [type(each) for each in journal.records] == [Began, Numbered, Committed]


def test_it_waits_for_all_and_goes_on_with_enough_when_time_is_up() -> None:
    made = coordinator()
    want(made, n=3, enough=2)
    be_ready(made, 0, 2)
    assert made.send(0) == []
    assert made.late == (1,)
    assert made.deadline_us == GATHER_US
    assert made.send(GATHER_US)
    assert made.session == 100


def test_with_too_few_it_waits_again_as_long() -> None:
    made = coordinator()
    want(made, n=3, enough=2)
    be_ready(made, 0)
    assert made.send(GATHER_US) == []
    assert made.deadline_us == 2 * GATHER_US


def test_nobody_is_no_round() -> None:
    made = coordinator()
    want(made, enough=0)
    assert made.send(GATHER_US) == []
    assert made.session == 0


@pytest.mark.parametrize(
    "status",
    [
        Status(1, 0, ready_round=2),
        Status(1, 0),
        Status(1, 0, ready_round=1, unsettled=1),
    ],
)
def test_who_has_no_update_of_this_round_is_late(status: Status) -> None:
    made = coordinator(Journal([Numbered(1, 50, 1, (0,))]))
    want(made)
    be_ready(made, 0)
    made.hear(status, 0)
    assert made.late == (1,)


def test_one_round_is_wanted_at_a_time() -> None:
    made = coordinator()
    want(made)
    assert made.wanted_round == 1
    with refuses("the last round must be made before another", LocalProtocolError):
        want(made)


def test_clients_hear_of_a_session_when_it_is_open() -> None:
    made, switch = coordinator(), new_switch()
    want(made)
    words = be_ready(made, 0, 1)
    assert [each.start for each in words] == [None, None]
    talk(switch, {HOME: made}, 0)
    start = made.word_for(0).start
    assert start is not None
    assert (start.session, start.members, start.payload_bytes) == (100, (0, 1), 64)
    assert made.word_for(2).start is None


def test_what_was_said_is_not_said_again_by_itself() -> None:
    made = coordinator()
    want(made)
    be_ready(made, 0)
    assert [i for i, _ in made.words_due()] == [0]
    assert made.words_due() == []
    made.forget(0)
    assert made.words_due() == []
    be_ready(made, 0)
    assert [i for i, _ in made.words_due()] == [0]


def open_session(made: Coordinator) -> ControlPlane:
    switch = new_switch()
    want(made)
    be_ready(made, 0, 1)
    talk(switch, {HOME: made}, 0)
    assert switch.sessions
    return switch


def test_a_client_that_cannot_go_on_ends_the_session_for_all() -> None:
    made = coordinator()
    switch = open_session(made)
    told = made.hear(Status(0, 0, 1, unsettled=100, failed=100, why="is ill"), 5)
    assert told.verdict == Verdict(100, is_committed=False)
    assert made.failures == ["round 1: client 0: is ill"]
    assert made.word_for(1).verdict == Verdict(100, is_committed=False)
    talk(switch, {HOME: made}, 5)
    assert not switch.sessions


def test_after_an_abort_another_session_is_opened_with_another_number() -> None:
    made = coordinator()
    open_session(made)
    made.hear(Status(0, 0, 1, unsettled=100, failed=100, why="is ill"), 5)
    be_ready(made, 0, 1, now_us=6)
    made.send(6)
    assert made.session == 101


def test_the_next_sessions_come_later_and_later() -> None:
    made = coordinator()
    open_session(made)
    pauses, now_us = [], 0
    for session in range(100, 106):
        assert made.session == session
        made.hear(
            Status(0, 0, 1, unsettled=session, failed=session, why="is ill"), now_us
        )
        be_ready(made, 0, 1, now_us=now_us)
        began_us = now_us
        while made.session == 0:
            made.send(now_us)
            now_us += 10_000
        pauses.append(now_us - began_us)
    assert pauses[0] <= 10_000
    assert pauses == sorted(pauses)
    assert pauses[-1] > 1_000_000


def test_who_was_silent_is_named_and_has_to_say_that_it_is_back() -> None:
    made = coordinator()
    open_session(made)
    abort = Abort(100, Ending.SILENT, (1,))
    made.receive([says(abort.write(), session_key(KEY, 100))], 5)
    assert made.failures == ["round 1: client 1 silent for longer than 2 s"]
    be_ready(made, 0, now_us=6)
    assert made.late == (1,)


def test_a_session_that_takes_too_long_is_given_up() -> None:
    made = coordinator(attempt_us=1_000_000)
    open_session(made)
    made.send(1_000_000)
    assert made.failures == ["round 1: not over after 1 s"]


def test_a_switch_that_is_silent_fails_the_session_not_the_coordinator() -> None:
    made = coordinator()
    want(made)
    be_ready(made, 0, 1)
    now_us = 0
    while not made.failures:
        made.send(now_us)
        now_us += 100_000
    assert made.failures == ["round 1: no answer from the switch for 3 s"]
    assert now_us <= PATIENCE_US + 1_000_000
    assert not made.is_hopeless


def test_a_refusal_that_stays_is_hopeless() -> None:
    made = coordinator()
    want(made)
    be_ready(made, 0, 1)
    talk(
        new_switch(max_members=2),
        {HOME: made},
        0,
        is_lost=lambda *_: bool(made.failures),
    )
    assert made.is_hopeless


def test_a_coordinator_that_starts_again_has_the_model_and_never_rejoins() -> None:
    everybody = Everybody()
    everybody.round()
    before = everybody.coordinator
    want(before, now_us=2)
    everybody.report(2)
    everybody.report(2)
    everybody.talk(2, is_lost=lambda at, _: at == b"0")
    assert before.session == 101
    again = coordinator(everybody.journal)
    assert again.epoch == before.epoch + 1
    assert bytes_of(again.model.values) == bytes_of(before.model.values)
    told = again.hear(Status(0, 1, ready_round=2, unsettled=101), 3)
    assert told.verdict == Verdict(101, is_committed=False)


def test_who_missed_the_end_of_an_old_session_is_told_it() -> None:
    everybody = Everybody()
    everybody.round(1)
    everybody.round(2)
    again = coordinator(everybody.journal)
    told = again.hear(Status(0, 0, ready_round=1, unsettled=100), 3)
    assert told.verdict is not None
    assert told.verdict.is_committed
    assert len(told.verdict.last) == 1


def test_who_missed_a_round_gets_the_model() -> None:
    everybody = Everybody()
    everybody.round()
    told = everybody.coordinator.hear(Status(5, 0), 3)
    assert told.model is not None
    assert told.model.round_number == 1
    assert everybody.coordinator.is_up_to_date(0)
    assert not everybody.coordinator.is_up_to_date(5)


def test_a_client_of_another_journal_is_refused() -> None:
    with refuses(
        "client 3 was in session 900, which is newer than all in this journal (0); is "
        "it the journal of another job, or an old copy?",
        SessionError,
    ):
        coordinator().hear(Status(3, 0, unsettled=900), 0)


def test_a_model_of_a_later_round_needs_less_of_the_journal() -> None:
    everybody = Everybody()
    everybody.round(1)
    middle = everybody.coordinator.model
    everybody.round(2)
    last = everybody.coordinator.model
    again = Coordinator(SETTINGS, everybody.journal, middle)
    assert bytes_of(again.model.values) == bytes_of(last.values)
    assert again.model.round_number == 2
