"""Control packets that ask a switch how it does; see `fediac.wire.control`."""

import struct
from dataclasses import dataclass
from typing import ClassVar, Self

from fediac.wire.header import EVERYONE, Flag, Kind
from fediac.wire.packet import Packet, unpack_body

N_REASONS = 12
"""Reasons for which a switch drops packets."""


@dataclass(frozen=True, slots=True)
class Report:
    """From the switch: how it does. It answers a `Status`, and is no longer.

    Attributes:
        number: That of the status that this answers.
        uptime_ms: How long the switch has been running.
        packets_in: Datagrams that arrived.
        packets_out: Datagrams that were sent.
        unsent: Datagrams that its machine refused to send.
        n_jobs: Jobs with a session.
        max_jobs: Jobs that it takes.
        n_members: Members that have joined these sessions.
        register_bytes: Memory for all jobs.
        used_bytes: Register bytes that hold something.
        drops: Packets dropped, in the order of `fediac.switch.counters.REASONS`.
    """

    number: int
    uptime_ms: int
    packets_in: int
    packets_out: int
    unsent: int
    n_jobs: int
    max_jobs: int
    n_members: int
    register_bytes: int
    used_bytes: int
    drops: tuple[int, ...]

    _BODY: ClassVar = struct.Struct(f">QQQQHHIII{N_REASONS}Q")

    def write(self) -> Packet:
        """Return the packet."""
        body = self._BODY.pack(
            self.uptime_ms,
            self.packets_in,
            self.packets_out,
            self.unsent,
            self.n_jobs,
            self.max_jobs,
            self.n_members,
            self.register_bytes,
            self.used_bytes,
            *self.drops,
        )
        flags = Flag.ANSWER
        return Packet(Kind.REPORT, self.number, 0, EVERYONE, flags=flags, body=body)

    @classmethod
    def read(cls, packet: Packet) -> Self:
        """Return what a packet says."""
        numbers = unpack_body(cls._BODY, packet)
        uptime, n_in, n_out, unsent, n_jobs, max_jobs = numbers[:6]
        n_members, registers, used = numbers[6:9]
        return cls(
            number=packet.session,
            uptime_ms=uptime,
            packets_in=n_in,
            packets_out=n_out,
            unsent=unsent,
            n_jobs=n_jobs,
            max_jobs=max_jobs,
            n_members=n_members,
            register_bytes=registers,
            used_bytes=used,
            drops=numbers[9:],
        )


@dataclass(frozen=True, slots=True)
class Status:
    """From anybody who has a key of the switch: how does it do?

    Answered by `Cookie`, then by `Report`. It is as long as that.

    Attributes:
        number: Any; the answers have it, and it makes the tag's key, in the place of a
            session.
        cookie: What a `Cookie` brought; 0: none yet.
    """

    number: int
    cookie: int = 0

    _BODY: ClassVar = struct.Struct(f">Q{Report._BODY.size - 8}x")

    def write(self) -> Packet:
        """Return the packet."""
        body = self._BODY.pack(self.cookie)
        return Packet(Kind.STATUS, self.number, 0, EVERYONE, body=body)

    @classmethod
    def read(cls, packet: Packet) -> Self:
        """Return what a packet says."""
        (cookie,) = unpack_body(cls._BODY, packet)
        return cls(packet.session, cookie)
