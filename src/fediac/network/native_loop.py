"""The switch's inner loop in C: packets of members never come to Python.

It gives the answers of `PythonLoop`, to the bit. What is about sessions and members, or
comes from who is none, goes up to the control plane, in order.
"""

import socket
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fediac.native.serving import (
    ADDRESS_BYTES,
    Served,
    ServeKernels,
    ServeLoop,
    Why,
)
from fediac.network.python_loop import MAX_PACKET_BYTES, clock_us, send_datagrams
from fediac.network.sockets import SwitchSocket, join_segments
from fediac.switch.control import ControlPlane
from fediac.switch.sessions import Datagram, Session


@dataclass(slots=True)
class _Served:
    """A session as the loop has it, and as of which of its members' moves."""

    session: Session
    n_moves: int
    arrays: Served


class NativeLoop:
    """Carries datagrams in C.

    Args:
        opened: The switch's socket.
        plane: What answers.
        wake: A socket that becomes readable when there is something else to do.
        kernels: The loop.
    """

    def __init__(
        self,
        opened: SwitchSocket,
        plane: ControlPlane,
        wake: socket.socket,
        kernels: ServeKernels,
    ) -> None:
        self._socket, self._plane = opened.socket, plane
        self._loop = ServeLoop(
            kernels,
            opened.socket.fileno(),
            wake.fileno(),
            is_v6=opened.socket.family == socket.AF_INET6,
            joins=join_segments(opened.socket),
            max_bytes=MAX_PACKET_BYTES,
        )
        self._served: list[_Served] = []

    def carry(self, until_us: int) -> None:
        """Carry datagrams until a time, or until others than members want something."""
        self._follow()
        why = self._loop.serve(until_us)
        self._count()
        if why is Why.GOES_UP:
            self.send(self._plane.receive(self._loop.rise(), clock_us()))

    def send(self, datagrams: Iterable[Datagram]) -> None:
        """Send what the control plane says of itself."""
        send_datagrams(self._socket, datagrams, self._plane.traffic)

    def _count(self) -> None:
        """Let the control plane have what the loop counted."""
        counted, traffic = self._loop.take_traffic(), self._plane.traffic
        traffic.packets_in += counted.arrived
        traffic.packets_out += counted.sent
        traffic.unsent += counted.unsent
        for reason, count in (
            ("foreign", counted.dropped_foreign),
            ("tag", counted.dropped_tag),
        ):
            if count:
                self._plane.drops[reason] += count

    def _follow(self) -> None:
        """Serve the sessions that there are now, with the members that joined."""
        sessions = self._plane.sessions
        if self._is_up_to_date(sessions):
            return
        kept = {id(each.session): each for each in self._served}
        served = []
        for session in sessions:
            known = kept.get(id(session))
            is_same = known is not None and known.n_moves == session.n_moves
            served.append(known if known and is_same else _arrays_of(session))
        self._loop.set_sessions([each.arrays for each in served])
        self._served = served

    def _is_up_to_date(self, sessions: Iterable[Session]) -> bool:
        now = [(id(each), each.n_moves) for each in sessions]
        return now == [(id(each.session), each.n_moves) for each in self._served]


def _arrays_of(session: Session) -> _Served:
    """Return a session as arrays; all but its members are the session's own."""
    addresses = np.zeros((session.n_members, ADDRESS_BYTES), np.uint8)
    for client, member in session.members.items():
        addresses[client] = np.frombuffer(member.address, np.uint8)
    tables = session.switch.tables
    (job,) = tables.jobs.reshape(-1, 1)
    arrays = Served(
        number=session.asked.session,
        job=job,
        registers=tables.registers,
        counts=tables.counts,
        key=np.frombuffer(session.key, np.uint8),
        heard_us=session.heard_us,
        addresses=addresses,
        joined=np.fromiter(session.members, np.uint16),
    )
    return _Served(session, session.n_moves, arrays)
