"""What a search found, once more: for Python's decoders, and both data planes."""

from collections.abc import Iterator
from dataclasses import replace

from fediac import native
from fediac.switch.control import ControlPlane, Limits
from fediac.switch.keys import Address, Keyring
from fediac.switch.sessions import Datagram, Member
from fediac.wire.control import Cookie, Open, read_control
from fediac.wire.packet import decode, encode
from fediac.wire.tag import opening_key, tagged
from tests.fuzz.inputs import (
    MEMBERS,
    PAYLOADS,
    REGISTER_BYTES,
    SESSIONS,
    Line,
    read_input,
)

HOME = b"coordinator"


def address_of(session: int, member: int) -> Address:
    """Return where a member of a session is, whether it has joined or not."""
    return bytes([session, member])


def open_plane() -> ControlPlane:
    """Return a switch with the two sessions of the harness."""
    plane = ControlPlane(
        Limits(REGISTER_BYTES * 2, max_jobs=2), Keyring(), secret=bytes(16)
    )
    for place, number in enumerate(SESSIONS):
        n_clients, n_observers = MEMBERS[place]
        asked = Open(
            number,
            job=place,
            epoch=1,
            n_clients=n_clients,
            n_observers=n_observers,
            payload_bytes=PAYLOADS[place],
            lease_ms=1 << 20,
            silence_ms=1 << 20,
        )
        _prove(plane, asked)
        session = plane.sessions[place]
        for member in range(n_clients + n_observers - place):
            session.members[member] = Member(address_of(place, member), 1)
    return plane


def _prove(plane: ControlPlane, asked: Open) -> None:
    key = opening_key(None, asked.session)
    ((_, data),) = plane.receive([(HOME, tagged(encode(asked.write()), key))], 0)
    cookie = read_control(decode(data))
    assert isinstance(cookie, Cookie)
    proved = replace(asked, cookie=cookie.cookie)
    plane.receive([(HOME, tagged(encode(proved.write()), key))], 0)


def datagrams_of(lines: Iterator[Line]) -> list[Datagram]:
    """Return the datagrams of an input, with the addresses that they come from."""
    return [
        (address_of(line.session, line.sender_of(data)), data)
        for line in lines
        for data in line.datagrams()
    ]


def answers_to(data: bytes) -> tuple[list[Datagram], object]:
    """Return what a switch answers to an input, and what it counted and kept."""
    plane = open_plane()
    answers = plane.receive(datagrams_of(read_input(data)), 1)
    kept = [bytes(each.switch.tables.registers) for each in plane.sessions]
    return answers, (plane.all_drops, kept)


def differs(data: bytes) -> bool:
    """Return whether the data planes in C and in Python disagree about an input."""
    in_c = answers_to(data)
    with native.disabled():
        return answers_to(data) != in_c
