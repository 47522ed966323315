from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fediac.errors import RemoteProtocolError
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
from fediac.wire.header import EXCHANGES, Kind, Reason
from fediac.wire.packet import Packet, decode, encode
from fediac.wire.status import N_REASONS, Report, Status
from tests.support import refuses
from tests.unit.wire.test_packet import VECTORS


def is_control(vector: dict[str, Any]) -> bool:
    """Leave out the packets of exchanges, and what the data plane says of them."""
    kind, part = vector["fields"]["kind"], vector["fields"]["part"]
    is_answer = kind == "WAIT" or (kind == "ERROR" and part <= Reason.ITEMS)
    return Kind[kind] not in EXCHANGES and not is_answer


def below(n_bits: int) -> st.SearchStrategy[int]:
    return st.integers(0, (1 << n_bits) - 1)


sessions, clients = below(64), st.integers(0, 1023)
members = st.lists(clients, unique=True).map(sorted).map(tuple)
reasons = st.sampled_from(Reason)
controls: st.SearchStrategy[Control] = st.one_of(
    st.builds(
        Open,
        sessions,
        job=below(64),
        epoch=below(32),
        n_clients=below(16),
        n_observers=below(16),
        payload_bytes=below(16),
        lease_ms=below(32),
        silence_ms=below(32),
        cookie=below(64),
        is_renewal=st.booleans(),
    ),
    st.builds(Opened, sessions, below(32), below(16)),
    st.builds(Close, sessions, below(64), below(32), below(64)),
    st.builds(Closed, sessions),
    st.builds(
        Join,
        sessions,
        clients,
        below(32),
        st.integers(8, 8128),
        below(64),
        st.booleans(),
    ),
    st.builds(Cookie, sessions, clients, below(64)),
    st.builds(
        Welcome,
        sessions,
        clients,
        below(32),
        below(16),
        below(32),
        below(16),
        below(16),
        below(16),
        below(32),
    ),
    st.builds(Alive, sessions, clients, is_answer=st.booleans()),
    st.builds(Abort, sessions, st.sampled_from(Ending), members),
    st.builds(Refusal, sessions, clients, reasons, below(64), below(64)),
    st.builds(Status, sessions, below(64)),
    st.builds(
        Report,
        *[below(64)] * 5,
        *[below(16)] * 2,
        *[below(32)] * 3,
        st.tuples(*[below(64)] * N_REASONS),
    ),
)


@given(controls)
def test_control_packets_are_read_as_they_were_written(control: Control) -> None:
    assert read_control(decode(encode(control.write()))) == control


@given(controls, st.data())
def test_a_control_packet_of_another_length_is_refused(
    control: Control, data: st.DataObject
) -> None:
    packet = control.write()
    if packet.kind in (Kind.OPENED, Kind.CLOSED, Kind.ALIVE, Kind.ABORT, Kind.ERROR):
        packet = replace(packet, body=packet.body + b"\1")
    else:
        length = data.draw(st.integers(0, len(packet.body) - 1))
        packet = replace(packet, body=packet.body[:length])
    with pytest.raises(RemoteProtocolError):
        read_control(packet)


@given(st.sampled_from(Kind), st.binary(max_size=100), below(16), below(8))
def test_any_body_is_read_or_refused(
    kind: Kind, body: bytes, n_items: int, part: int
) -> None:
    packet = Packet(kind, 1, 0, 0, n_items=n_items, part=part, body=body)
    try:
        control = read_control(packet)
    except RemoteProtocolError:
        return
    assert control.write().kind == kind


@pytest.mark.parametrize(
    "vector", [each for each in VECTORS if is_control(each)], ids=lambda v: v["name"]
)
def test_golden_control_packets_are_read_and_written_again(
    vector: dict[str, Any],
) -> None:
    packet = bytes.fromhex(vector["packet"])
    assert encode(read_control(decode(packet)).write()) == packet


def test_what_is_exchanged_is_no_control_packet() -> None:
    with refuses(
        "kind of a control packet must be one of OPEN, OPENED, CLOSE, CLOSED, JOIN, "
        "COOKIE, WELCOME, ALIVE, ABORT, ERROR, STATUS, REPORT, got TALLY",
        RemoteProtocolError,
    ):
        read_control(Packet(Kind.TALLY, 1, 0, 0))


def test_an_open_that_is_cut_short_is_refused_with_both_lengths() -> None:
    packet = Open(1, 2, 3, 4, 1, 1408, 1000, 1000).write()
    with refuses(
        "open must have 36 bytes behind its header, got 35", RemoteProtocolError
    ):
        read_control(replace(packet, body=packet.body[:-1]))


def test_no_answer_is_longer_than_what_asks_for_it() -> None:
    asked = Open(1, 2, 3, 4, 1, 64, 1000, 1000)
    joining = Join(1, 0, 1, 64)
    close = Close(1, 2, 3)

    def length(control: Control) -> int:
        return len(encode(control.write()))

    refusal = length(Refusal(1, 0, Reason.JOBS, 8, 9))
    alone = length(Refusal(1, 0, Reason.UNKNOWN_SESSION))
    cookie = length(Cookie(1, 0, 2**64 - 1))
    welcome = length(Welcome(1, 0, 1, 64, 1 << 20, 9, 4, 1, 1000))
    assert max(cookie, refusal, length(Opened(1, 1 << 20, 9))) <= length(asked)
    assert max(cookie, refusal, length(Closed(1))) <= length(close)
    assert max(cookie, refusal, welcome) <= length(joining)
    assert alone <= length(Alive(1, 0))
    report = length(Report(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, drops=(11,) * N_REASONS))
    assert max(cookie, report) <= length(Status(1))
