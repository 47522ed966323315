"""What a fuzzer tries, as bytes: datagrams, and from whom they are; see harness.c."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntFlag
from pathlib import Path

from fediac.switch.job import Job
from fediac.switch.registers import Layout
from fediac.wire.header import HEADER_BYTES, MAGIC, VERSION
from fediac.wire.packet import Packet, encode
from fediac.wire.tag import session_key, tagged
from tests.packets import (
    announce,
    block,
    lanes,
    observed,
    pairs,
    peak,
    reading,
    votes,
)

VECTORS = Path(__file__).parents[1] / "vectors" / "packets.json"
REGISTER_BYTES = 4096
SESSIONS = (0x1000, 0x2000)
PAYLOADS = (64, 128)
MEMBERS = ((2, 1), (4, 0))
"""Clients and observers of each session; the last of the second never joins."""

_OPS_BYTES, _MAX_DATAGRAM = 4, 9000
_SESSION, _TAG = slice(4, 12), slice(32, 40)


class Op(IntFlag):
    """What is done with a datagram before it is sent."""

    OF_SECOND = 1
    """It is about the second session."""
    FIX_HEADER = 2
    FIX_TAG = 4
    FROM_MEMBER = 8
    """It comes from where the client in it is, not from where its line says."""
    JOINED = 16
    """It is two datagrams, which the kernel joined."""


@dataclass(frozen=True)
class Line:
    """A datagram of an input."""

    ops: Op
    sender: int
    data: bytes

    def write(self) -> bytes:
        """Return it as the fuzzer has it."""
        head = bytes([self.ops, self.sender]) + len(self.data).to_bytes(2, "little")
        return head + self.data

    @property
    def session(self) -> int:
        """The place of the session that it is about."""
        return int(Op.OF_SECOND in self.ops)

    def datagrams(self) -> Iterator[bytes]:
        """Yield what arrives, with the headers and tags that it is to have."""
        whole, middle = self.data, len(self.data) // 2
        parts = [whole[:middle], whole[middle:]] if Op.JOINED in self.ops else [whole]
        fixed = b"".join(map(self._fix, parts))
        if Op.JOINED not in self.ops or not middle:
            yield fixed
            return
        for start in range(0, len(fixed), middle):
            yield fixed[start : start + middle]

    def _fix(self, data: bytes) -> bytes:
        if len(data) < HEADER_BYTES:
            return data
        number = SESSIONS[self.session]
        if Op.FIX_HEADER in self.ops:
            starts = MAGIC.to_bytes(2, "big") + bytes([VERSION])
            data = starts + data[3:4] + number.to_bytes(8, "big") + data[12:]
        if Op.FIX_TAG in self.ops:
            data = tagged(data, session_key(None, number))
        return data

    def sender_of(self, data: bytes) -> int:
        """Return which member sends a datagram of this line."""
        if Op.FROM_MEMBER in self.ops and len(data) >= HEADER_BYTES:
            return int.from_bytes(data[14:16], "big") & 0xFF
        return self.sender


def read_input(data: bytes) -> Iterator[Line]:
    """Yield the datagrams of an input."""
    while len(data) >= _OPS_BYTES:
        n_bytes = min(int.from_bytes(data[2:4], "little"), _MAX_DATAGRAM)
        stop = min(_OPS_BYTES + n_bytes, len(data))
        yield Line(Op(data[0] & 0x1F), data[1], data[_OPS_BYTES:stop])
        data = data[stop:]


def write_seeds(folder: Path) -> None:
    """Write what the search begins with: golden packets, and whole exchanges."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, lines in enumerate(_seeds()):
        written = b"".join(each.write() for each in lines)
        (folder / f"seed{number:03}").write_bytes(written)


def _seeds() -> Iterator[list[Line]]:
    fixed = Op.FIX_HEADER | Op.FIX_TAG | Op.FROM_MEMBER
    for vector in json.loads(VECTORS.read_text(encoding="utf-8")):
        data = bytes.fromhex(vector["packet"])
        mine = data[:14] + bytes(2) + data[16:]
        yield [Line(Op(0), 0, data), Line(fixed, 0, data), Line(fixed, 0, mine)]
    for session in range(2):
        ops = fixed | Op.OF_SECOND * session
        for packets in _exchanges(session):
            yield [Line(ops, 0, encode(each)) for each in packets]


def _exchanges(session: int) -> Iterator[list[Packet]]:
    """Yield packets of all members of a session, for every kind of exchange."""
    n_clients, n_observers = MEMBERS[session]
    n_members = n_clients + n_observers
    layout = Layout(n_members, PAYLOADS[session], REGISTER_BYTES)
    job = Job(SESSIONS[session], 0, layout, (1 << n_members) - 1, n_observers)

    def sent(*packets: Packet) -> list[Packet]:
        return [
            observed(each, client)
            if client >= n_clients
            else replace(each, client=client)
            for each in packets
            for client in range(n_members)
        ]

    yield sent(*(votes(job, 0, "0110", threshold=2, packet=i) for i in range(3)))
    yield sent(peak(job, 0, 7), peak(job, 0, 9, exchange=1))
    for bits, down in ((8, 8), (8, 16), (3, 5), (1, 32)):
        values = [1] * (8 * layout.payload_bytes // bits)
        yield sent(lanes(job, 0, values, bits=bits, bits_down=down))
    blocks = [block(job, 0, i, [i, -i], following=i + 1) for i in range(4)]
    yield sent(announce(job, 0, 0), *blocks)
    for n_pairs in range(1, 7):
        at = {i: i - 3 for i in range(n_pairs)}
        for is_narrow, bits in ((True, 7), (False, 32)):
            pair = pairs(job, 0, at, is_narrow=is_narrow, bits=bits)
            yield [*sent(pair), reading(pair, 0)]


def read_inputs(*folders: Path) -> list[bytes]:
    """Return what is in some folders, in an order that does not change."""
    return [
        each.read_bytes() for folder in folders for each in sorted(folder.iterdir())
    ]
