"""One member of a session: joins, asks, repeats, waits, gives up."""

from dataclasses import replace

import numpy as np
import pytest

from fediac.core.exchange import (
    BlockSum,
    BlockTotals,
    Consensus,
    Exchange,
    IndexedSum,
    Max,
    Peak,
    Sum,
    Tally,
    Totals,
)
from fediac.errors import LocalProtocolError
from fediac.sessions.member import Member
from fediac.sessions.opening import Opening
from fediac.sessions.pacing import FIRST_TIMEOUT_US
from fediac.switch.control import ControlPlane
from fediac.wire.control import Abort, Ending, Refusal
from fediac.wire.header import Flag, Kind, Reason
from fediac.wire.packet import Packet, decode
from fediac.wire.tag import session_key
from tests.support import refuses
from tests.unit.sessions.rooms import (
    ASKED as ASKED_SESSION,
)
from tests.unit.sessions.rooms import (
    HOME,
    KEY,
    PATIENCE_US,
    members,
    new_switch,
    opened,
    says,
    seat,
    talk,
)

PUBLIC = session_key(None, 100)


def votes(mask: int = 0b11, dim: int = 2) -> Tally:
    packed = np.full(-(-dim // 8), mask, dtype=np.uint8)
    return Tally(packed, dim, threshold=2, peak=1.0, bits=8)


def joined() -> tuple[ControlPlane, dict[bytes, Member]]:
    switch, _ = opened()
    everybody = members()
    talk(switch, everybody, 0)
    assert all(each.is_in for each in everybody.values())
    return switch, everybody


def sent(member: Member, now_us: int) -> list[Packet]:
    return [decode(data) for data in member.send(now_us)]


def why(member: Member) -> str:
    return str(member.problem).removeprefix("session 100: ")


def test_a_member_joins_with_the_cookie_that_comes_back() -> None:
    switch, _ = opened()
    member = Member(seat(0), 0)
    said = talk(switch, {b"0": member}, 0)
    assert [each.kind for _, each in said] == [Kind.JOIN, Kind.JOIN]
    assert {len(each.body) for _, each in said} == {64}
    assert member.is_in


def test_a_join_that_is_lost_is_said_again() -> None:
    member = Member(seat(0), 0)
    assert len(sent(member, 0)) == 1
    assert sent(member, FIRST_TIMEOUT_US - 1) == []
    assert member.deadline_us == FIRST_TIMEOUT_US
    assert [each.kind for each in sent(member, FIRST_TIMEOUT_US)] == [Kind.JOIN]


ASKED: list[tuple[Exchange, type]] = [
    (votes(), Consensus),
    (Max(2.0), Peak),
    (Sum(np.array([0x21], dtype=np.uint8), 2, 4, 8, 3), Totals),
    (BlockSum(np.array([1]), np.ones((1, 16), np.int32), 3), BlockTotals),
]


@pytest.mark.parametrize(("asked", "kind"), ASKED)
def test_all_members_get_the_same_answer(asked: Exchange, kind: type) -> None:
    switch, everybody = joined()
    for each in everybody.values():
        each.ask(asked)
    talk(switch, everybody, 0)
    answers = [each.take_answer() for each in everybody.values()]
    assert all(isinstance(each, kind) for each in answers)
    assert len({repr(each) for each in answers}) == 1


def test_one_exchange_is_asked_at_a_time() -> None:
    member = Member(seat(0), 0)
    member.ask(Max(1.0))
    with refuses(
        "the last exchange must be answered before another", LocalProtocolError
    ):
        member.ask(Max(1.0))


def test_what_no_switch_can_sum_is_refused_by_name() -> None:
    switch, everybody = joined()
    indices, levels = np.array([1]), np.array([1], dtype=np.int32)
    everybody[b"0"].ask(IndexedSum(indices, levels, 4))
    assert why(everybody[b"0"]) == (
        "IndexedSum cannot be asked of a switch over a network, which adds up "
        "tallies, maxima, sums and blocks"
    )
    assert everybody[b"0"].send(0) == []
    assert switch.sessions


def test_registers_that_are_too_few_are_named() -> None:
    switch, _ = opened(register_bytes=4 * 400)
    member = Member(seat(0), 0)
    talk(switch, {b"0": member}, 0)
    member.ask(votes())
    assert "must" in why(member)


def test_a_packet_that_is_lost_is_repeated_after_its_timer() -> None:
    _, everybody = joined()
    member = everybody[b"0"]
    member.ask(votes())
    (first,) = sent(member, 0)
    due_us = member.deadline_us
    assert sent(member, due_us - 1) == []
    assert sent(member, due_us) == [first]
    assert member.n_resent == 1
    for _ in range(3):
        again_us = member.deadline_us
        member.send(again_us)
    # Later, when that is of no use.
    assert member.deadline_us - again_us > due_us


def test_a_packet_that_is_counted_is_left_alone_for_longer() -> None:
    _, everybody = joined()
    waiting, lost = everybody[b"0"], everybody[b"1"]
    for each in (waiting, lost):
        each.ask(votes())
        each.send(0)
    wait = Packet(Kind.WAIT, 100, 0, 0, count=1, flags=Flag.ANSWER)
    waiting.receive([says(wait)], 0)
    assert waiting.deadline_us > lost.deadline_us
    (again,) = sent(waiting, waiting.deadline_us)
    assert again.kind == Kind.TALLY


def test_three_later_answers_say_that_a_packet_is_lost() -> None:
    switch, everybody = joined()
    member = everybody[b"0"]
    for each in everybody.values():
        each.ask(votes(dim=6 * 512))

    def is_first(at: bytes, packet: Packet) -> bool:
        return packet.kind == Kind.TALLY and packet.packet == 0 and at == b"0"

    talk(switch, everybody, 0, is_lost=is_first)
    assert member.take_answer() is None
    assert member.n_resent > 0  # although no time has passed


def test_an_answer_of_another_exchange_changes_nothing() -> None:
    _, everybody = joined()
    member = everybody[b"0"]
    member.ask(Max(1.0))
    told = Packet(Kind.MAX, 100, 9, 0xFFFF, flags=Flag.ANSWER)
    member.receive([says(told)], 0)
    member.receive([says(replace(told, exchange=0), b"some other key!!")], 0)
    member.receive([says(replace(told, exchange=0, flags=Flag(0)))], 0)
    member.receive([b"", b"short"], 0)
    assert member.take_answer() is None
    member.receive([says(replace(told, exchange=0, count=2))], 0)
    assert member.take_answer() == Peak(0.0)


def test_a_silent_switch_is_given_up_within_the_patience_and_said_in_words() -> None:
    _, everybody = joined()
    member = everybody[b"0"]
    member.ask(votes(dim=3 * 512))
    for now_us in range(0, PATIENCE_US, 50_000):
        member.send(now_us)
    assert member.problem is None
    assert member.send(PATIENCE_US) == []
    assert why(member) == (
        "no answer from the switch for 3 s, exchange 0: 3 of 3 packets (first: 0)"
    )


def test_who_is_waited_for_is_said_when_the_switch_falls_silent() -> None:
    _, everybody = joined()
    member = everybody[b"0"]
    member.ask(votes())
    member.send(0)
    wait = Packet(Kind.WAIT, 100, 0, 0, count=2, flags=Flag.ANSWER)
    member.receive([says(wait)], 0)
    member.send(PATIENCE_US)
    assert why(member).endswith("(first: 0), 2 are in")


def test_before_it_has_joined_a_member_says_so() -> None:
    member = Member(seat(0), 0)
    member.send(PATIENCE_US)
    assert why(member) == "no answer from the switch for 3 s (has not joined)"


def test_a_time_without_a_question_is_no_silence() -> None:
    _, everybody = joined()
    member = everybody[b"0"]
    member.awake(10 * PATIENCE_US)
    assert sent(member, 10 * PATIENCE_US)[0].kind == Kind.ALIVE
    assert member.problem is None


@pytest.mark.parametrize(
    ("hint", "text"),
    [
        (
            says(Refusal(100, 0, Reason.KEY).write(), PUBLIC),
            "; it has another key for this job (has not joined)",
        ),
        (
            b"\xfe\xd1\x01" + says(Refusal(100, 0, Reason.KEY).write(), PUBLIC)[3:],
            "; the switch speaks version 1 of the protocol, not 2 (has not joined)",
        ),
        (says(Refusal(100, 0, Reason.JOBS).write(), PUBLIC), " (has not joined)"),
    ],
)
def test_what_anybody_can_say_explains_a_silence_and_ends_nothing(
    hint: bytes, text: str
) -> None:
    member = Member(seat(0), 0)
    member.receive([hint], 0)
    assert member.problem is None
    member.send(PATIENCE_US)
    assert why(member) == f"no answer from the switch for 3 s{text}"


@pytest.mark.parametrize(
    ("packet", "text"),
    [
        (Abort(100, Ending.LEASE).write(), "its coordinator was silent for too long"),
        (
            Refusal(100, 0, Reason.UNKNOWN_SESSION).write(),
            "the switch knows no such session; it has been restarted",
        ),
        (
            Packet(
                Kind.ERROR,
                100,
                0,
                0,
                n_items=Kind.MAX,
                part=Reason.SETTINGS,
                flags=Flag.ANSWER,
            ),
            "exchange 0, packet 0: the others have a max, this one a tally with "
            "threshold 2; are all members' settings the same?",
        ),
    ],
)
def test_what_the_switch_says_of_the_session_stops_a_member(
    packet: Packet, text: str
) -> None:
    _, everybody = joined()
    member = everybody[b"0"]
    member.ask(votes())
    member.send(0)
    member.receive([says(packet)], 0)
    assert why(member) == text
    assert member.send(0) == []
    member.receive([says(Abort(100, Ending.CLOSED).write())], 0)
    assert why(member) == text


def test_a_member_that_comes_too_late_says_that_it_never_joined() -> None:
    switch, _ = opened()
    everybody = members()
    late = everybody.pop(b"1")
    for at_us in (0, 1_500_000, 2_000_000):
        talk(switch, everybody, at_us)
    assert why(everybody[b"0"]) == "member 1 silent for longer than 2 s"
    talk(switch, {b"1": late}, 2_000_000)
    assert why(late) == "member 1 never joined"


def test_who_has_moved_joins_again_and_goes_on() -> None:
    switch, everybody = joined()
    for each in everybody.values():
        each.ask(Max(1.0))
    moved = {b"elsewhere": everybody.pop(b"0")}
    said = talk(switch, moved, 0)
    # Its packet comes from where nobody has joined; it is told, and joins again.
    assert [each.kind for _, each in said] == [Kind.MAX, Kind.JOIN, Kind.JOIN]
    assert said[-1][1].aux == 2
    talk(switch, everybody | moved, 1_000_000)
    answers = [each.take_answer() for each in (*everybody.values(), *moved.values())]
    assert answers == [Peak(1.0)] * 3


def test_a_member_that_has_nothing_to_send_says_that_it_is_there() -> None:
    _, everybody = joined()
    member = everybody[b"2"]
    (alive,) = sent(member, member.deadline_us)
    assert alive.kind == Kind.ALIVE
    assert Flag.OBSERVE in alive.flags
    # Four times while the switch waits for it: 2 s of silence are too long.
    assert member.deadline_us <= 2 * 500_000


def test_a_window_is_what_the_switch_has_room_for() -> None:
    switch, _ = opened(buffer_packets=6)  # two for each member
    member = Member(seat(0), 0)
    talk(switch, {b"0": member}, 0)
    member.ask(votes(dim=20 * 512))
    assert len(sent(member, 0)) == 2


def test_many_members_do_not_begin_all_at_once() -> None:
    first, last = Member(seat(0), 0), Member(replace(seat(0), client=1023), 0)
    assert len(sent(first, 0)) == 1
    assert sent(last, 0) == []
    assert 5_000 < last.deadline_us < 20_000
    assert len(sent(last, last.deadline_us)) == 1


def test_a_late_member_asks_its_exchanges_later_too() -> None:
    asked = replace(ASKED_SESSION, n_clients=40, n_observers=0)
    switch = new_switch()
    opening = Opening(asked, KEY, patience_us=PATIENCE_US, now_us=0)
    talk(switch, {HOME: opening}, 0)
    member = Member(replace(seat(0), client=39), 0)
    talk(switch, {b"39": member}, 1_000)
    assert member.is_in
    member.ask(Max(1.0))
    assert sent(member, 1_000) == []
    due_us = member.deadline_us
    assert 1_000 < due_us < 3_000
    assert [each.kind for each in sent(member, due_us)] == [Kind.MAX]


def test_a_client_s_number_is_one_that_a_packet_can_have() -> None:
    with refuses("client must be in 0..1023, got 1024", LocalProtocolError):
        seat(1024)


def test_a_switch_that_was_restarted_says_so_to_members() -> None:
    _, everybody = joined()
    everybody[b"0"].ask(votes())
    talk(new_switch(), {HOME: everybody[b"0"]}, 0)
    assert why(everybody[b"0"]) == (
        "the switch knows no such session; it has been restarted"
    )
