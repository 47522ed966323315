"""Control packets: how sessions are opened, joined, aborted and closed.

They have the header of all packets. What does not fit its fields stands in the body, in
network byte order, at fixed places. `read` and `write` are the only code that knows
them: everything else has one frozen value a packet.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Self, TypeAlias

from fediac.errors import RemoteProtocolError
from fediac.wire.header import EVERYONE, Flag, Kind, Reason
from fediac.wire.packet import Packet, unpack_body
from fediac.wire.status import Report, Status

_NOTHING = struct.Struct("")


@dataclass(frozen=True, slots=True)
class Open:
    """From the coordinator: begin a session, or keep its lease. Answered by `Opened`.

    Attributes:
        session: Its number, above that of every earlier session of the job.
        job: Which job it belongs to.
        epoch: How often the job's coordinator has started; older ones are refused.
        n_clients: Clients that are counted.
        n_observers: Members beside them that add nothing; they have the next numbers.
        payload_bytes: Room for items in a packet, the same for all members.
        lease_ms: The session ends when its coordinator is silent for longer.
        silence_ms: It is aborted when another member is.
        cookie: What a `Cookie` brought; 0: none yet.
        is_renewal: Whether it only keeps the lease: a switch that has been restarted
            does not begin a session again whose members believe it goes on.
    """

    session: int
    job: int
    epoch: int
    n_clients: int
    n_observers: int
    payload_bytes: int
    lease_ms: int
    silence_ms: int
    cookie: int = 0
    is_renewal: bool = False

    _BODY: ClassVar = struct.Struct(">QQIIIHHHH")

    def write(self) -> Packet:
        """Return the packet."""
        body = self._BODY.pack(
            self.cookie,
            self.job,
            self.epoch,
            self.lease_ms,
            self.silence_ms,
            self.payload_bytes,
            self.n_clients,
            self.n_observers,
            self.is_renewal,
        )
        return Packet(Kind.OPEN, self.session, 0, EVERYONE, body=body)

    @classmethod
    def read(cls, packet: Packet) -> Self:
        """Return what a packet says."""
        cookie, job, epoch, lease, silence, *rest = unpack_body(cls._BODY, packet)
        payload, n_clients, n_observers, renews = rest
        return cls(
            session=packet.session,
            job=job,
            epoch=epoch,
            n_clients=n_clients,
            n_observers=n_observers,
            payload_bytes=payload,
            lease_ms=lease,
            silence_ms=silence,
            cookie=cookie,
            is_renewal=bool(renews),
        )


@dataclass(frozen=True, slots=True)
class Opened:
    """From the switch: the session runs.

    Attributes:
        session: Its number.
        register_bytes: Memory of the session, from which all know its slots.
        credit: Packets a member may have in flight, whatever the slots allow.
    """

    session: int
    register_bytes: int
    credit: int

    def write(self) -> Packet:
        """Return the packet."""
        return Packet(
            Kind.OPENED,
            self.session,
            0,
            EVERYONE,
            aux=self.register_bytes,
            n_items=self.credit,
            flags=Flag.ANSWER,
        )

    @classmethod
    def read(cls, packet: Packet) -> Self:
        """Return what a packet says."""
        _require_no_body(packet)
        return cls(packet.session, packet.aux, packet.n_items)


@dataclass(frozen=True, slots=True)
class Close:
    """From the coordinator: the session is over. Answered by `Closed`, every time.

    Attributes:
        session: Its number.
        job: The job it belongs to, which says by which key the packet is known.
        epoch: The coordinator's; see `Open`.
        cookie: What a `Cookie` brought; 0: none yet.
    """

    session: int
    job: int
    epoch: int
    cookie: int = 0

    _BODY: ClassVar = struct.Struct(">QQI4x")

    def write(self) -> Packet:
        """Return the packet."""
        body = self._BODY.pack(self.cookie, self.job, self.epoch)
        return Packet(Kind.CLOSE, self.session, 0, EVERYONE, body=body)

    @classmethod
    def read(cls, packet: Packet) -> Self:
        """Return what a packet says."""
        cookie, job, epoch = unpack_body(cls._BODY, packet)
        return cls(packet.session, job, epoch, cookie)


@dataclass(frozen=True, slots=True)
class Closed:
    """From the switch: it has nothing of the session any more."""

    session: int

    def write(self) -> Packet:
        """Return the packet."""
        return Packet(Kind.CLOSED, self.session, 0, EVERYONE, flags=Flag.ANSWER)

    @classmethod
    def read(cls, packet: Packet) -> Self:
        """Return what a packet says."""
        _require_no_body(packet)
        return cls(packet.session)


@dataclass(frozen=True, slots=True)
class Join:
    """From a member: it takes part. Answered by `Cookie`, then by `Welcome`.

    It is as long as the longest packet of the session: it does not arrive over a path
    that is too narrow, and no answer to it is longer.

    Attributes:
        session: The session.
        client: The member's number.
        counter: How often it has joined; a newer one moves it to another address.
        payload_bytes: The session's, as the member was told; the packet's length.
        cookie: What a `Cookie` brought; 0: none yet.
        is_observer: Whether it adds nothing.
    """

    session: int
    client: int
    counter: int
    payload_bytes: int
    cookie: int = 0
    is_observer: bool = False

    _BODY: ClassVar = struct.Struct(">Q")

    def write(self) -> Packet:
        """Return the packet."""
        return Packet(
            Kind.JOIN,
            self.session,
            0,
            self.client,
            aux=self.counter,
            n_items=self.payload_bytes,
            flags=Flag.OBSERVE if self.is_observer else Flag(0),
            body=self._BODY.pack(self.cookie).ljust(self.payload_bytes, b"\0"),
        )

    @classmethod
    def read(cls, packet: Packet) -> Self:
        """Return what a packet says."""
        length = max(packet.n_items, cls._BODY.size)
        if len(packet.body) != length or any(packet.body[cls._BODY.size :]):
            raise RemoteProtocolError(
                f"join must have {length} bytes behind its header, those behind the "
                f"cookie 0, got {len(packet.body)}"
            )
        (cookie,) = cls._BODY.unpack_from(packet.body)
        return cls(
            session=packet.session,
            client=packet.client,
            counter=packet.aux,
            payload_bytes=packet.n_items,
            cookie=cookie,
            is_observer=Flag.OBSERVE in packet.flags,
        )


@dataclass(frozen=True, slots=True)
class Cookie:
    """From the switch: say this again, so that it is known that you got it.

    Who asks from an address that is not its own never gets it, so nothing longer than
    what came in is sent before.
    """

    session: int
    client: int
    cookie: int

    _BODY: ClassVar = struct.Struct(">Q")

    def write(self) -> Packet:
        """Return the packet."""
        return Packet(
            Kind.COOKIE,
            self.session,
            0,
            self.client,
            flags=Flag.ANSWER,
            body=self._BODY.pack(self.cookie),
        )

    @classmethod
    def read(cls, packet: Packet) -> Self:
        """Return what a packet says."""
        (cookie,) = unpack_body(cls._BODY, packet)
        return cls(packet.session, packet.client, cookie)


@dataclass(frozen=True, slots=True)
class Welcome:
    """From the switch: the member takes part, from the address that it asked from.

    Attributes:
        session: The session.
        client: The member's number.
        counter: That of the join that this answers.
        payload_bytes: Room for items in the session's packets.
        register_bytes: Memory of the session, from which all know its slots.
        credit: Packets a member may have in flight, whatever the slots allow.
        n_clients: Clients that are counted.
        n_observers: Members beside them.
        silence_ms: Whoever is silent for longer is missed, and the session aborted.
    """

    session: int
    client: int
    counter: int
    payload_bytes: int
    register_bytes: int
    credit: int
    n_clients: int
    n_observers: int
    silence_ms: int

    _BODY: ClassVar = struct.Struct(">IIHHHH")

    def write(self) -> Packet:
        """Return the packet."""
        body = self._BODY.pack(
            self.register_bytes,
            self.silence_ms,
            self.payload_bytes,
            self.credit,
            self.n_clients,
            self.n_observers,
        )
        return Packet(
            Kind.WELCOME,
            self.session,
            0,
            self.client,
            aux=self.counter,
            flags=Flag.ANSWER,
            body=body,
        )

    @classmethod
    def read(cls, packet: Packet) -> Self:
        """Return what a packet says."""
        registers, silence, payload, credit, n_clients, n_observers = unpack_body(
            cls._BODY, packet
        )
        return cls(
            session=packet.session,
            client=packet.client,
            counter=packet.aux,
            payload_bytes=payload,
            register_bytes=registers,
            credit=credit,
            n_clients=n_clients,
            n_observers=n_observers,
            silence_ms=silence,
        )


@dataclass(frozen=True, slots=True)
class Alive:
    """From a member that has nothing to send: it is there. The switch says the same."""

    session: int
    client: int
    is_answer: bool = False
    is_observer: bool = False

    def write(self) -> Packet:
        """Return the packet."""
        flags = Flag.ANSWER if self.is_answer else Flag(0)
        flags |= Flag.OBSERVE if self.is_observer else Flag(0)
        return Packet(Kind.ALIVE, self.session, 0, self.client, flags=flags)

    @classmethod
    def read(cls, packet: Packet) -> Self:
        """Return what a packet says."""
        _require_no_body(packet)
        return cls(
            packet.session,
            packet.client,
            is_answer=Flag.ANSWER in packet.flags,
            is_observer=Flag.OBSERVE in packet.flags,
        )


class Ending(IntEnum):
    """Why the switch gave a session up."""

    SILENT = 1
    """Some members were silent for too long; the packet names them."""
    LEASE = 2
    """Its coordinator was."""
    REPLACED = 3
    """The job has a newer session."""
    CLOSED = 4
    """Its coordinator closed it, or the switch stops."""


@dataclass(frozen=True, slots=True)
class Abort:
    """From the switch, to all members and the coordinator: the session is given up.

    Whether its round counts is the coordinator's word alone: it may have all answers.

    Attributes:
        session: The session.
        ending: Why.
        missing: Numbers of the members that were silent, ascending.
    """

    session: int
    ending: Ending
    missing: tuple[int, ...] = ()

    def write(self) -> Packet:
        """Return the packet."""
        bitmap = sum(1 << client for client in self.missing)
        return Packet(
            Kind.ABORT,
            self.session,
            0,
            EVERYONE,
            n_items=len(self.missing),
            flags=Flag.ANSWER,
            part=self.ending,
            body=bitmap.to_bytes(-(-bitmap.bit_length() // 8), "little"),
        )

    @classmethod
    def read(cls, packet: Packet) -> Self:
        """Return what a packet says."""
        bitmap = int.from_bytes(packet.body, "little")
        missing = tuple(i for i in range(bitmap.bit_length()) if bitmap >> i & 1)
        is_whole = len(missing) == packet.n_items and packet.body[-1:] != b"\0"
        if packet.part not in set(Ending) or not is_whole:
            raise RemoteProtocolError(
                f"abort must name its reason and {packet.n_items} members, got reason "
                f"{packet.part} and {len(missing)} members"
            )
        return cls(packet.session, Ending(packet.part), missing)


@dataclass(frozen=True, slots=True)
class Refusal:
    """From the switch: an error about a control packet, or about a whole session.

    Without both numbers it is a header alone, so that no answer is longer than what
    asked for it. That of a packet in an exchange always is: see
    `fediac.wire.header.Reason`.

    Attributes:
        session: What the packet was about.
        client: Who sent it.
        reason: What was wrong.
        held: What the switch has: its limit, the lowest number it takes, its version.
        given: What the packet had instead.
    """

    session: int
    client: int
    reason: Reason
    held: int = 0
    given: int = 0

    _BODY: ClassVar = struct.Struct(">QQ")

    def write(self) -> Packet:
        """Return the packet."""
        has_both = self.held or self.given
        return Packet(
            Kind.ERROR,
            self.session,
            0,
            self.client,
            flags=Flag.ANSWER,
            part=self.reason,
            body=self._BODY.pack(self.held, self.given) if has_both else b"",
        )

    @classmethod
    def read(cls, packet: Packet) -> Self:
        """Return what a packet says."""
        held, given = unpack_body(cls._BODY, packet) if packet.body else (0, 0)
        if packet.part not in set(Reason):
            raise RemoteProtocolError(
                f"reason of an error must be one of those that there are, got "
                f"{packet.part}"
            )
        return cls(packet.session, packet.client, Reason(packet.part), held, given)


def _require_no_body(packet: Packet) -> None:
    unpack_body(_NOTHING, packet)


Control: TypeAlias = (
    Open
    | Opened
    | Close
    | Closed
    | Join
    | Cookie
    | Welcome
    | Alive
    | Abort
    | Refusal
    | Status
    | Report
)

_READERS: dict[Kind, type[Control]] = {
    Kind.OPEN: Open,
    Kind.OPENED: Opened,
    Kind.CLOSE: Close,
    Kind.CLOSED: Closed,
    Kind.JOIN: Join,
    Kind.COOKIE: Cookie,
    Kind.WELCOME: Welcome,
    Kind.ALIVE: Alive,
    Kind.ABORT: Abort,
    Kind.ERROR: Refusal,
    Kind.STATUS: Status,
    Kind.REPORT: Report,
}


def read_control(packet: Packet) -> Control:
    """Return what a control packet says.

    Raises:
        RemoteProtocolError: It is none, or its body does not fit its kind.
    """
    reader = _READERS.get(packet.kind)
    if reader is None:
        raise RemoteProtocolError(
            f"kind of a control packet must be one of "
            f"{', '.join(kind.name for kind in _READERS)}, got {packet.kind.name}"
        )
    return reader.read(packet)
