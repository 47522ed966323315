"""A session from its coordinator's side."""

from dataclasses import replace

import pytest

from fediac.sessions.opening import Ended, Opening
from fediac.wire.control import (
    Abort,
    Close,
    Closed,
    Cookie,
    Ending,
    Open,
    Opened,
    Refusal,
    read_control,
)
from fediac.wire.header import EVERYONE, Kind, Reason
from fediac.wire.packet import decode
from fediac.wire.tag import session_key
from tests.unit.sessions.rooms import (
    ASKED,
    HOME,
    KEY,
    PATIENCE_US,
    new_switch,
    opened,
    says,
    talk,
)

PUBLIC = session_key(None, 100)


def opening(key: bytes | None = KEY) -> Opening:
    return Opening(ASKED, key, patience_us=PATIENCE_US, now_us=0)


def said(machine: Opening, now_us: int) -> list[Open | Close]:
    read = [read_control(decode(data)) for data in machine.send(now_us)]
    return [each for each in read if isinstance(each, Open | Close)]


def test_a_session_is_opened_with_the_cookie_that_comes_back() -> None:
    machine, switch = opening(), new_switch()
    packets = talk(switch, {HOME: machine}, 0)
    assert [each.kind for _, each in packets] == [Kind.OPEN, Kind.OPEN]
    assert machine.opened == Opened(100, (1 << 16) // 4, 4096 // 3)
    assert [each.asked for each in switch.sessions] == [
        replace(ASKED, cookie=switch.sessions[0].asked.cookie)
    ]


def test_what_is_not_answered_is_said_again_after_its_timer() -> None:
    machine = opening()
    assert said(machine, 0) == [ASKED]
    assert said(machine, 1) == []
    due_us = machine.deadline_us
    assert due_us is not None
    assert said(machine, due_us) == [ASKED]


def test_a_lease_is_kept_three_times_in_its_length() -> None:
    _, machine = opened()
    assert machine.deadline_us == 1_000_000  # of 3 s
    assert said(machine, 999_999) == []
    (renewal,) = said(machine, 1_000_000)
    assert isinstance(renewal, Open)
    assert renewal.is_renewal
    assert machine.deadline_us == 2_000_000


def test_a_switch_that_was_restarted_ends_the_session() -> None:
    _, machine = opened()
    talk(new_switch(), {HOME: machine}, 1_000_000)
    assert machine.ended == Ended(
        "the switch knows no such session; it has been restarted"
    )
    assert machine.is_over
    assert machine.deadline_us is None


def test_a_switch_that_does_not_answer_ends_it_within_its_patience() -> None:
    machine = opening()
    for now_us in range(0, PATIENCE_US, 100_000):
        machine.send(now_us)
    assert machine.ended is None
    assert machine.send(PATIENCE_US + 1_000_000) == []
    assert machine.ended == Ended("no answer from the switch for 3 s")


def test_an_abort_ends_it_and_names_who_was_missing() -> None:
    _, machine = opened()
    machine.receive([says(Abort(100, Ending.SILENT, (1,)).write())], 5)
    assert machine.ended == Ended("member 1 silent for longer than 2 s", (1,))


def test_a_refusal_is_said_in_words() -> None:
    machine = opening()
    talk(new_switch(max_members=2), {HOME: machine}, 0)
    why = "the switch takes sessions of 1 to 2 members, not of 3"
    assert machine.ended == Ended(why, is_final=True)


WRONG_KEY = says(Refusal(100, EVERYONE, Reason.KEY).write(), PUBLIC)


@pytest.mark.parametrize("key", [KEY, None])
def test_a_request_that_was_damaged_on_its_way_is_no_wrong_key(
    key: bytes | None,
) -> None:
    machine = opening(key)
    own = session_key(key, 100)
    machine.receive([WRONG_KEY] * 2, 0)
    assert not machine.is_over
    machine.receive([says(Cookie(100, EVERYONE, 12).write(), own)], 0)
    machine.receive([WRONG_KEY] * 9, 0)
    machine.receive([says(Opened(100, 1 << 16, 4).write(), own)], 0)
    assert machine.opened == Opened(100, 1 << 16, 4)
    assert machine.ended is None


@pytest.mark.parametrize("key", [KEY, None])
def test_a_wrong_key_is_believed_when_it_is_said_three_times(key: bytes | None) -> None:
    machine = opening(key)
    for _ in range(3):
        assert machine.ended is None
        machine.receive([WRONG_KEY], 0)
    why = "the switch has another key for this job"
    assert machine.ended == Ended(why, is_final=True)


def test_a_refusal_explains_a_silence() -> None:
    machine = opening()
    refusal = Refusal(100, EVERYONE, Reason.VERSION, 3, 2)
    machine.receive([says(refusal.write(), PUBLIC)], 0)
    assert machine.send(PATIENCE_US) == []
    assert machine.ended is not None
    assert machine.ended.why == "the switch speaks version 3 of the protocol, not 2"


def test_another_version_of_errors_explains_a_silence_too() -> None:
    machine = opening()
    machine.receive([b"\xfe\xd1\x05" + WRONG_KEY[3:]], 0)
    assert machine.ended is None
    machine.send(PATIENCE_US)
    assert machine.ended == Ended(
        "no answer from the switch for 3 s; the switch speaks version 5 of the "
        "protocol, not 2"
    )


@pytest.mark.parametrize(
    "data",
    [
        says(Opened(100, 1, 1).write(), b"some other key!!"),
        says(Opened(101, 1, 1).write(), session_key(KEY, 101)),
        says(Opened(100, 1, 1).write())[:39],
        says(Opened(100, 1, 1).write(), PUBLIC),
        says(Refusal(100, EVERYONE, Reason.JOBS, 1, 2).write(), PUBLIC),
        says(Abort(100, Ending.CLOSED).write(), PUBLIC),
    ],
)
def test_what_is_not_the_switch_s_changes_nothing(data: bytes) -> None:
    machine = opening()
    machine.receive([data], 0)
    assert (machine.opened, machine.ended) == (None, None)


def test_a_close_is_repeated_until_it_is_answered() -> None:
    switch, machine = opened()
    machine.close(7)
    assert machine.deadline_us == 7
    machine.close(8)
    assert machine.deadline_us == 7
    talk(switch, {HOME: machine}, 7)
    assert not switch.sessions
    assert machine.is_over
    assert machine.ended is None


def test_a_close_is_said_five_times_at_most() -> None:
    _, machine = opened()
    machine.close(0)
    n_said, now_us = 0, 0
    while not machine.is_over:
        n_said += len(said(machine, now_us))
        now_us += 1_000_000
    assert n_said == 5
    assert machine.send(now_us) == []


def test_only_who_closes_is_told_that_it_is_closed() -> None:
    _, machine = opened()
    machine.receive([says(Closed(100).write())], 5)
    assert not machine.is_over
