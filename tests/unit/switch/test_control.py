"""The control plane: sessions opened, joined, moved, missed, closed; who is refused."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fediac.selftest.peers import key_for
from fediac.switch.control import ControlPlane, Limits
from fediac.switch.counters import REASONS
from fediac.switch.keys import Keyring, cookie_of
from fediac.wire.control import (
    Abort,
    Alive,
    Close,
    Closed,
    Control,
    Cookie,
    Ending,
    Join,
    Open,
    Opened,
    Refusal,
    Welcome,
    read_control,
)
from fediac.wire.header import EVERYONE, HEADER_BYTES, VERSION, Flag, Kind, Reason
from fediac.wire.packet import Packet, decode, encode
from fediac.wire.status import N_REASONS, Report, Status
from fediac.wire.tag import session_key, tagged
from tests.packets import gia
from tests.planes import PLANES, data_plane
from tests.support import refuses

KEY = b"the key of job 7"
SECRET = b"sixteen bytes of"
ASKED = Open(
    100,
    job=7,
    epoch=1,
    n_clients=2,
    n_observers=1,
    payload_bytes=64,
    lease_ms=1000,
    silence_ms=500,
)
HOME = b"coordinator"


class Bench:
    """A control plane, and those who talk to it."""

    def __init__(self, *, key: bytes | None = KEY, **limits: int) -> None:
        limits = {"register_bytes": 1 << 16} | limits
        self.plane = ControlPlane(Limits(**limits), Keyring(key), SECRET)
        self.key = key
        self.now_us = 0

    def say(
        self, address: bytes, *packets: Packet, key: bytes | None = KEY
    ) -> list[tuple[bytes, Packet]]:
        """Send packets that arrive together; return the answers."""
        datagrams = [
            (address, tagged(encode(each), key_for(each, key))) for each in packets
        ]
        sent = self.plane.receive(datagrams, self.now_us)
        return [(to, decode(data)) for to, data in sent]

    def ask(self, address: bytes, control: Control, **how: bytes) -> Control:
        """Say something to the switch; return its only answer, which comes back."""
        ((to, packet),) = self.say(address, control.write(), **how)
        assert to == address
        return read_control(packet)

    def prove(self, address: bytes, asked: Open | Close | Join | Status) -> Control:
        """Say it with the cookie that saying it without brings."""
        cookie = self.ask(address, asked)
        assert isinstance(cookie, Cookie)
        return self.ask(address, replace(asked, cookie=cookie.cookie))

    def open(self, asked: Open = ASKED) -> Control:
        return self.prove(HOME, asked)

    def join(self, client: int, *, counter: int = 1, at: bytes = b"") -> Control:
        session = self.plane.sessions[-1].asked
        join = Join(
            session.session,
            client,
            counter,
            64,
            is_observer=client >= session.n_clients,
        )
        return self.prove(at or place(client), join)

    def open_with_all(self) -> None:
        assert isinstance(self.open(), Opened)
        for client in range(3):
            assert isinstance(self.join(client), Welcome)


def place(client: int) -> bytes:
    return f"client {client}".encode()


def votes(client: int, mask: int = 0b11, *, session: int = 100) -> Packet:
    return Packet(
        Kind.TALLY, session, 0, client, n_items=2, threshold=2, body=bytes([mask])
    )


def observing() -> Packet:
    return Packet(Kind.TALLY, 100, 0, 2, threshold=2, flags=Flag.OBSERVE)


def test_a_session_is_opened_by_who_proves_its_address() -> None:
    bench = Bench()
    assert isinstance(bench.ask(HOME, ASKED), Cookie)
    assert not bench.plane.sessions
    wrong = bench.ask(HOME, replace(ASKED, cookie=12))
    assert isinstance(wrong, Cookie)
    assert bench.open() == Opened(100, (1 << 16) // 4, 4096 // 3)
    assert bench.open() == Opened(100, (1 << 16) // 4, 4096 // 3)
    assert len(bench.plane.sessions) == 1


def test_a_cookie_is_good_at_one_address_alone() -> None:
    bench = Bench()
    cookie = bench.ask(HOME, ASKED)
    assert isinstance(cookie, Cookie)
    elsewhere = bench.ask(b"elsewhere", replace(ASKED, cookie=cookie.cookie))
    assert isinstance(elsewhere, Cookie)
    assert elsewhere.cookie != cookie.cookie
    assert not bench.plane.sessions


@pytest.mark.parametrize("plane", PLANES)
def test_members_are_answered_where_they_joined(plane: str) -> None:
    with data_plane(plane):
        bench = Bench()
        bench.open_with_all()
        assert bench.say(place(0), votes(0, 0b01)) == []
        assert bench.say(place(2), observing()) == []
        sent = bench.say(place(1), votes(1, 0b11))
        assert sorted(to for to, _ in sent) == [place(i) for i in range(3)]
        assert {gia(answer) for _, answer in sent} == {"10"}


def test_who_has_not_joined_counts_nothing() -> None:
    bench = Bench()
    bench.open()
    bench.join(0)
    ((to, told),) = bench.say(place(1), votes(1))
    assert (to, told.kind, told.part) == (place(1), Kind.ERROR, Reason.MEMBER)
    assert bench.plane.drops == {"address": 1}
    assert bench.plane.sessions[0].switch.counters.packets_in == 0


def test_a_wrong_tag_counts_nothing_and_is_not_answered() -> None:
    bench = Bench()
    bench.open_with_all()
    assert bench.say(place(0), votes(0), key=b"some other key!!") == []
    assert bench.plane.drops == {"tag": 1}
    assert bench.plane.sessions[0].switch.counters.packets_in == 0


def test_a_newer_join_moves_a_member_and_an_older_one_does_not() -> None:
    bench = Bench()
    bench.open_with_all()
    assert isinstance(bench.join(0, counter=2, at=b"moved"), Welcome)
    old = Join(100, 0, 1, 64)
    cookie = bench.ask(place(0), old)
    assert isinstance(cookie, Cookie)
    again = replace(old, cookie=cookie.cookie)
    assert bench.say(place(0), again.write()) == []
    bench.say(place(2), observing())
    bench.say(place(1), votes(1))
    sent = bench.say(b"moved", votes(0))
    assert {to for to, _ in sent} == {b"moved", place(1), place(2)}


@pytest.mark.parametrize(
    ("join", "reason", "held", "given"),
    [
        (Join(100, 3, 1, 64, is_observer=True), Reason.MEMBER, 2, 3),
        (Join(100, 1, 1, 64, is_observer=True), Reason.MEMBER, 2, 1),
        (Join(100, 2, 1, 64), Reason.MEMBER, 2, 2),
        (Join(100, 0, 1, 128), Reason.PAYLOAD, 64, 128),
    ],
)
def test_a_member_that_does_not_fit_is_told_why(
    join: Join, reason: Reason, held: int, given: int
) -> None:
    bench = Bench()
    bench.open()
    assert bench.ask(b"new", join) == Refusal(100, join.client, reason, held, given)


@pytest.mark.parametrize(
    ("change", "reason", "held", "given"),
    [
        ({"n_clients": 0}, Reason.MEMBERS, 8, 1),
        ({"n_clients": 8}, Reason.MEMBERS, 8, 9),
        ({"payload_bytes": 65}, Reason.PAYLOAD, 8128, 65),
        ({"payload_bytes": 8192}, Reason.PAYLOAD, 8128, 8192),
        ({"payload_bytes": 8128}, Reason.MEMORY, 1 << 14, 16448),
    ],
)
def test_a_session_beyond_the_limits_is_refused_with_both_values(
    change: dict[str, Any], reason: Reason, held: int, given: int
) -> None:
    bench = Bench(max_members=8)
    answer = bench.open(replace(ASKED, **change))
    assert answer == Refusal(100, EVERYONE, reason, held, given)
    assert not bench.plane.sessions


def test_jobs_beyond_the_limit_are_refused_and_a_job_keeps_one_session() -> None:
    bench = Bench(max_jobs=1)
    bench.open()
    other = bench.open(replace(ASKED, job=8, session=101))
    assert other == Refusal(101, EVERYONE, Reason.JOBS, 1, 2)
    assert isinstance(bench.say(HOME, replace(ASKED, session=102).write()), list)
    assert [each.asked.session for each in bench.plane.sessions] == [100]


def test_a_newer_session_replaces_the_old_one_and_all_are_told() -> None:
    bench = Bench()
    bench.open_with_all()
    newer = replace(ASKED, session=101)
    cookie = bench.ask(HOME, newer)
    assert isinstance(cookie, Cookie)
    sent = bench.say(HOME, replace(newer, cookie=cookie.cookie).write())
    aborts = [to for to, each in sent if each.kind == Kind.ABORT]
    assert sorted(aborts) == [place(0), place(1), place(2), HOME]
    assert read_control(sent[-1][1]) == Opened(101, 1 << 14, 1365)
    assert bench.open() == Refusal(100, EVERYONE, Reason.SESSION, 101, 100)


def test_a_newer_session_that_cannot_be_leaves_the_old_one() -> None:
    bench = Bench()
    bench.open_with_all()
    answer = bench.open(replace(ASKED, session=101, payload_bytes=65))
    assert answer == Refusal(101, EVERYONE, Reason.PAYLOAD, 8128, 65)
    assert [each.asked.session for each in bench.plane.sessions] == [100]


def test_a_coordinator_of_an_older_epoch_is_refused() -> None:
    bench = Bench()
    bench.open(replace(ASKED, epoch=5))
    older = replace(ASKED, session=200, epoch=4)
    assert bench.open(older) == Refusal(200, EVERYONE, Reason.EPOCH, 5, 4)
    close = Close(100, 7, 4)
    assert bench.prove(HOME, close) == Refusal(100, EVERYONE, Reason.EPOCH, 5, 4)
    assert len(bench.plane.sessions) == 1


def test_the_wrong_key_opens_nothing() -> None:
    bench = Bench()
    wrong = b"some other key!!"
    ((_, told),) = bench.say(HOME, ASKED.write(), key=wrong)
    assert read_control(told) == Refusal(100, EVERYONE, Reason.KEY)
    assert not bench.plane.sessions


def test_a_member_opens_replaces_and_closes_nothing_by_its_session_s_key() -> None:
    bench = Bench()
    bench.open_with_all()
    proof = cookie_of(SECRET, HOME, 100, EVERYONE)  # it may have seen the cookie
    before = bench.plane.sessions
    for wish in (
        replace(ASKED, cookie=proof),
        replace(ASKED, cookie=proof, epoch=9),
        replace(ASKED, cookie=proof, session=200),
        Close(100, 7, 9, proof),
    ):
        data = tagged(encode(wish.write()), session_key(KEY, 100))
        for address in (HOME, place(0)):
            bench.plane.receive([(address, data)], 0)
    assert bench.plane.drops["key"] == 8
    assert bench.plane.sessions == before
    bench.say(HOME, Close(100, 7, 1, proof).write())  # with the job's key
    assert not bench.plane.sessions


def test_a_silent_member_is_named_and_its_session_ends() -> None:
    bench = Bench()
    bench.open_with_all()
    bench.now_us = 400_000
    for client in (0, 2):
        alive = Alive(100, client, is_observer=client == 2)
        assert bench.ask(place(client), alive) == Alive(100, client, is_answer=True)
    assert bench.plane.deadline_us == 500_000
    assert bench.plane.expire(499_999) == []
    sent = bench.plane.expire(500_000)
    expected = Abort(100, Ending.SILENT, (1,))
    assert {read_control(decode(data)) for _, data in sent} == {expected}
    assert {to for to, _ in sent} == {place(0), place(1), place(2), HOME}
    assert bench.plane.deadline_us is None


def test_who_comes_later_is_told_how_the_session_ended() -> None:
    bench = Bench()
    bench.open_with_all()
    bench.plane.expire(500_000)
    bench.now_us = 600_000
    late = replace(votes(1), body=bytes(40), n_items=320)
    ((_, told),) = bench.say(place(1), late)
    assert read_control(told) == Abort(100, Ending.SILENT, (0, 1, 2))
    assert bench.say(place(1), late) == []  # once a second


def test_a_session_ends_with_the_lease_of_its_coordinator() -> None:
    bench = Bench()
    bench.open(replace(ASKED, silence_ms=60_000))
    bench.now_us = 900_000
    bench.open(replace(ASKED, silence_ms=60_000))
    assert bench.plane.expire(1_899_999) == []
    ((to, data),) = bench.plane.expire(1_900_000)
    assert to == HOME
    assert read_control(decode(data)) == Abort(100, Ending.LEASE)


def test_a_closed_session_is_gone_and_closing_again_says_so() -> None:
    bench = Bench()
    bench.open_with_all()
    close = Close(100, 7, 1)
    cookie = bench.ask(HOME, close)
    assert isinstance(cookie, Cookie)
    sent = bench.say(HOME, replace(close, cookie=cookie.cookie).write())
    assert read_control(sent[-1][1]) == Closed(100)
    assert len(sent) == 5
    assert bench.prove(HOME, close) == Closed(100)
    assert not bench.plane.sessions


def test_a_restarted_switch_says_that_it_knows_no_session() -> None:
    bench = Bench()
    ((to, told),) = bench.say(place(0), votes(0, session=55))
    assert to == place(0)
    assert read_control(told) == Refusal(55, 0, Reason.UNKNOWN_SESSION)
    assert bench.say(place(0), votes(0, session=55)) == []
    bench.now_us = 1_000_000
    assert len(bench.say(place(0), votes(0, session=55))) == 1


def test_a_restarted_switch_begins_no_session_whose_lease_is_kept() -> None:
    before, bench = Bench(), Bench()
    before.open_with_all()
    renewal = replace(ASKED, is_renewal=True)
    assert isinstance(before.open(renewal), Opened)
    unknown = Refusal(100, EVERYONE, Reason.UNKNOWN_SESSION)
    assert bench.open(renewal) == unknown
    assert not bench.plane.sessions
    assert isinstance(bench.open(replace(ASKED, session=99)), Opened)
    assert bench.open(renewal) == unknown
    assert [each.asked.session for each in bench.plane.sessions] == [99]


def test_who_keeps_the_lease_of_a_session_that_ended_is_told_how() -> None:
    bench = Bench()
    bench.open_with_all()
    bench.plane.expire(500_000)
    ended = Abort(100, Ending.SILENT, (0, 1, 2))
    assert bench.open(replace(ASKED, is_renewal=True)) == ended


def test_another_version_is_told_which_one_there_is() -> None:
    bench = Bench()
    data = bytearray(encode(ASKED.write()))
    data[2] = 3
    ((_, told),) = bench.plane.receive([(HOME, bytes(data))], 0)
    refusal = read_control(decode(told))
    assert refusal == Refusal(100, EVERYONE, Reason.VERSION, VERSION, 3)


@given(st.lists(st.tuples(st.binary(max_size=4), st.binary(max_size=120)), max_size=8))
def test_nothing_that_strangers_send_opens_or_amplifies(
    datagrams: Sequence[tuple[bytes, bytes]],
) -> None:
    bench = Bench()
    bench.open_with_all()
    headed = [
        (to, encode(votes(0))[: HEADER_BYTES - 4] + data) for to, data in datagrams
    ]
    sent = bench.plane.receive([*datagrams, *headed], 0)
    n_in = sum(len(data) for _, data in [*datagrams, *headed])
    assert sum(len(data) for _, data in sent) <= n_in
    assert len(bench.plane.sessions) == 1
    assert bench.plane.sessions[0].switch.counters.packets_in == 0


def test_who_has_the_key_and_repeats_the_cookie_is_told_how_the_switch_does() -> None:
    bench = Bench()
    bench.plane.traffic.packets_in = 12
    bench.open_with_all()
    bench.say(place(0), votes(0), key=b"some other key!!")
    bench.now_us = 3_000_000 - 1
    bench.plane.expire(bench.now_us)
    report = bench.prove(b"anybody", Status(9))
    assert isinstance(report, Report)
    assert (report.number, report.uptime_ms, report.packets_in) == (9, 2999, 12)
    assert (report.n_jobs, report.max_jobs, report.n_members) == (0, 4, 0)
    drops = dict(zip(REASONS, report.drops, strict=True))
    assert {reason: count for reason, count in drops.items() if count} == {"tag": 1}


def test_a_report_counts_the_sessions_that_run() -> None:
    bench = Bench()
    bench.open_with_all()
    bench.say(place(0), votes(0), votes(0))
    report = bench.prove(b"anybody", Status(9))
    assert isinstance(report, Report)
    assert (report.n_jobs, report.n_members) == (1, 3)
    assert report.register_bytes == 1 << 16
    assert 0 < report.used_bytes <= 1 << 14
    assert report.drops[REASONS.index("duplicate")] == 1


def test_who_lacks_the_key_is_not_told_how_the_switch_does() -> None:
    bench = Bench()
    ((_, told),) = bench.say(b"anybody", Status(9).write(), key=None)
    assert read_control(told) == Refusal(9, EVERYONE, Reason.KEY)
    assert bench.plane.drops == {"key": 1}


def test_the_key_of_any_job_is_enough_to_ask() -> None:
    keys = Keyring(of_jobs={1: b"the key of job 1", 2: b"the key of job 2"})
    plane = ControlPlane(Limits(register_bytes=1 << 16), keys, SECRET)
    for key, kind in ((b"the key of job 2", Kind.COOKIE), (None, Kind.ERROR)):
        data = tagged(encode(Status(9).write()), session_key(key, 9))
        ((_, told),) = plane.receive([(HOME, data)], 0)
        assert decode(told).kind == kind


def test_there_is_a_number_for_every_reason_in_a_report() -> None:
    assert len(REASONS) == len(set(REASONS)) == N_REASONS


def test_limits_are_checked() -> None:
    with refuses("max_jobs must be in 1..1024, got 0"):
        Limits(register_bytes=1 << 20, max_jobs=0)
