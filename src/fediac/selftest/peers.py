"""Honest coordinators and members of a switch under attack, a packet at a time."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from fediac.errors import RemoteProtocolError, RunError
from fediac.network.addresses import Endpoint
from fediac.wire.control import Close, Control, Cookie, Join, Open, read_control
from fediac.wire.header import Flag, Kind
from fediac.wire.packet import Packet, decode, encode
from fediac.wire.status import Report, Status
from fediac.wire.tag import is_tag_right, opening_key, session_key, tagged

_END_S = 30.0
_TRY_S = 0.5
_MAX_DATAGRAM = 65_535


@dataclass
class Peer:
    """A socket of somebody who has a key; what it sends is kept, for replays.

    Attributes:
        socket: It is connected to the switch.
        key: Of its job; None: it has none.
        sent: All datagrams so far.
    """

    socket: socket.socket
    key: bytes | None
    sent: list[bytes] = field(default_factory=list)

    def tag(self, packet: Packet) -> bytes:
        """Return a packet with the tag that this peer can make."""
        return tagged(encode(packet), key_for(packet, self.key))

    def send(self, packet: Packet) -> None:
        """Send a packet."""
        data = self.tag(packet)
        self.sent.append(data)
        self.socket.send(data)

    def ask(self, packet: Packet, *kinds: Kind) -> Packet:
        """Return the next answer of some kinds; the packet is repeated until then.

        Raises:
            RunError: The switch does not answer.
        """
        end_s = time.monotonic() + _END_S
        while time.monotonic() < end_s:
            self.send(packet)
            answer = self._hear(packet.session, kinds)
            if answer is not None:
                return answer
        raise RunError(f"the switch did not answer {packet.kind.name} for {_END_S:g} s")

    def _hear(self, session: int, kinds: tuple[Kind, ...]) -> Packet | None:
        end_s = time.monotonic() + _TRY_S
        while (left_s := end_s - time.monotonic()) > 0:
            self.socket.settimeout(left_s)
            try:
                data = self.socket.recv(_MAX_DATAGRAM)
                answer = decode(data)
            except (TimeoutError, RemoteProtocolError):
                continue
            is_right = is_tag_right(data, session_key(self.key, session))
            if is_right and answer.session == session and answer.kind in kinds:
                return answer
        return None

    def prove(self, asked: Open | Close | Join | Status, *kinds: Kind) -> Control:
        """Return the answer to what is asked with the cookie that it brings."""
        cookie = read_control(self.ask(asked.write(), Kind.COOKIE))
        if not isinstance(cookie, Cookie):
            raise RunError(f"a cookie must come first, got {cookie}")
        proved = replace(asked, cookie=cookie.cookie)
        return read_control(self.ask(proved.write(), *kinds))

    def drain(self) -> list[bytes]:
        """Return what has come without having been waited for."""
        self.socket.settimeout(0.0)
        came: list[bytes] = []
        while True:
            try:
                came.append(self.socket.recv(_MAX_DATAGRAM))
            except BlockingIOError:
                return came


def key_for(packet: Packet, job_key: bytes | None) -> bytes:
    """Return the key of a packet's tag, for who has the job's."""
    opens = packet.kind in (Kind.OPEN, Kind.CLOSE)
    return (opening_key if opens else session_key)(job_key, packet.session)


@dataclass
class Victims:
    """A session with all its members in it.

    Attributes:
        asked: How it was opened.
        coordinator: Who opened it.
        members: Clients, then the observer.
    """

    asked: Open
    coordinator: Peer
    members: list[Peer]

    def vote(self, client: int, packet: int, *, exchange: int) -> None:
        """Let a member send a packet of votes; they are of no interest."""
        self.members[client].send(votes(self.asked, client, packet, exchange=exchange))

    def tally(self, n_packets: int, *, exchange: int) -> None:
        """Go through an exchange with all members, as `fediac.sessions` would."""
        for packet in range(n_packets):
            for client in range(1, len(self.members)):
                self.vote(client, packet, exchange=exchange)
            asked = votes(self.asked, 0, packet, exchange=exchange)
            while self.members[0].ask(asked, Kind.TALLY, Kind.WAIT).kind == Kind.WAIT:
                for client in range(1, len(self.members)):
                    self.vote(client, packet, exchange=exchange)


def votes(asked: Open, client: int, packet: int, *, exchange: int) -> Packet:
    """Return a full packet of votes, or an observer's, which has none."""
    is_observer = client >= asked.n_clients
    n_bytes = 0 if is_observer else asked.payload_bytes
    return Packet(
        Kind.TALLY,
        asked.session,
        exchange,
        client,
        packet=packet,
        n_items=8 * n_bytes,
        threshold=2,
        flags=Flag.OBSERVE if is_observer else Flag(0),
        body=bytes([85 + client]) * n_bytes,
    )


class Company:
    """Opens sockets to a switch, and closes them in the end."""

    def __init__(self, stack: ExitStack, endpoint: Endpoint) -> None:
        self._stack, self._endpoint = stack, endpoint

    def peer(self, key: bytes | None) -> Peer:
        """Return somebody new, at an address of its own."""
        family, address = self._endpoint.resolve(socket.SOCK_DGRAM)
        opened = self._stack.enter_context(socket.socket(family, socket.SOCK_DGRAM))
        opened.connect(address)
        return Peer(opened, key)

    def session(self, asked: Open, key: bytes, coordinator: Peer | None) -> Victims:
        """Open a session and let its members join."""
        coordinator = coordinator or self.peer(key)
        coordinator.prove(asked, Kind.OPENED)
        members = [self.peer(key) for _ in range(asked.n_clients + asked.n_observers)]
        for client, member in enumerate(members):
            member.prove(join_of(asked, client), Kind.WELCOME)
        return Victims(asked, coordinator, members)


def join_of(asked: Open, client: int, *, counter: int = 1) -> Join:
    """Return how a member joins."""
    return Join(
        asked.session,
        client,
        counter,
        asked.payload_bytes,
        is_observer=client >= asked.n_clients,
    )


@contextmanager
def company(address: str) -> Iterator[Company]:
    """Have peers of a switch inside the block."""
    with ExitStack() as stack:
        yield Company(stack, Endpoint.parse(address, name="address"))


def wait_for_all(peer: Peer, number: int) -> Report:
    """Return a report, made after the switch has done all that was sent before."""
    report = peer.prove(Status(number), Kind.REPORT)
    if not isinstance(report, Report):
        raise RunError(f"a report must come, got {report}")
    return report
