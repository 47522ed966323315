"""A switch on UDP: datagrams from a socket to the control plane, and its answers back.

The control plane knows no sockets and no clock; here are both. A loop carries
datagrams until there is something else to do: somebody was silent for too long, it is
time to read the counters, or the process is asked to stop.
"""

import os
import select
import socket
import time
from collections.abc import Callable, Iterable
from typing import Protocol

from fediac.network.addresses import pack_address, unpack_address
from fediac.network.readings import Reading, read_plane
from fediac.network.sockets import SwitchSocket
from fediac.switch.control import ControlPlane
from fediac.switch.sessions import Datagram
from fediac.wire.header import HEADER_BYTES, MAX_PAYLOAD_BYTES

MAX_PACKET_BYTES = HEADER_BYTES + MAX_PAYLOAD_BYTES
"""No packet is longer; a longer datagram is dropped before anybody looks at it."""

_TICK_US = 1_000_000
"""Between two readings of the counters."""

_BATCH = 64
"""Datagrams that are taken from the socket together."""


def clock_us() -> int:
    """Return the time that sessions live by, in microseconds."""
    return time.monotonic_ns() // 1000


class Loop(Protocol):
    """What carries datagrams between a socket and a control plane."""

    def carry(self, until_us: int) -> None:
        """Carry datagrams until a time, or until something else has to be done."""
        ...

    def send(self, datagrams: Iterable[Datagram]) -> None:
        """Send what the control plane says of itself."""
        ...


class PythonLoop:
    """Carries datagrams in Python, some at a time.

    Args:
        opened: The switch's socket.
        plane: What answers.
        wake: A socket that becomes readable when there is something else to do.
    """

    def __init__(
        self, opened: SwitchSocket, plane: ControlPlane, wake: socket.socket
    ) -> None:
        self._socket, self._plane = opened.socket, plane
        self._poll = select.poll()
        for each in (self._socket, wake):
            self._poll.register(each, select.POLLIN)

    def carry(self, until_us: int) -> None:
        """Carry a batch of datagrams, or wait for one."""
        wait_us = max(0, until_us - clock_us())
        self._poll.poll(-(-wait_us // 1000))
        datagrams = self._receive()
        if datagrams:
            self.send(self._plane.receive(datagrams, clock_us()))

    def _receive(self) -> list[Datagram]:
        datagrams: list[Datagram] = []
        for _ in range(_BATCH):
            try:
                data, address = self._socket.recvfrom(
                    MAX_PACKET_BYTES + 1, socket.MSG_DONTWAIT
                )
            except BlockingIOError:
                break
            except OSError:  # of an answer sent before: its receiver is gone
                continue
            self._plane.traffic.packets_in += 1
            if len(data) > MAX_PACKET_BYTES:
                self._plane.drops["foreign"] += 1
                continue
            datagrams.append((pack_address(address), data))
        return datagrams

    def send(self, datagrams: Iterable[Datagram]) -> None:
        """Send answers; one that cannot be sent is lost, as on the way."""
        family = self._socket.family
        for address, data in datagrams:
            try:
                self._socket.sendto(data, unpack_address(address, family))
                self._plane.traffic.packets_out += 1
            except OSError:
                self._plane.traffic.unsent += 1


class SwitchProcess:
    """Runs a switch until it is told to stop.

    Args:
        opened: Its socket.
        plane: Its control plane.
    """

    def __init__(self, opened: SwitchSocket, plane: ControlPlane) -> None:
        self._plane = plane
        self._wake, self._waker = socket.socketpair()
        for each in (self._wake, self._waker):
            each.settimeout(0.0)
        self._is_stopping = False
        plane.traffic.started_us = clock_us()
        self._loop: Loop = PythonLoop(opened, plane, self._wake)
        self.reading: Reading = read_plane(plane, clock_us(), None)

    @property
    def wake_fd(self) -> int:
        """What a byte is written to, by a signal, so that the loop looks up."""
        return self._waker.fileno()

    def stop(self) -> None:
        """End `run` soon; any thread or signal handler may call this."""
        self._is_stopping = True
        try:
            os.write(self.wake_fd, b"\0")
        except BlockingIOError:  # it will wake up anyway
            return

    def run(self, show: Callable[[Reading], None]) -> None:
        """Carry datagrams until `stop` is called; then tell all members.

        Args:
            show: Is called with every reading of the counters.
        """
        tick_us = clock_us()
        while not self._is_stopping:
            now_us = clock_us()
            self._loop.send(self._plane.expire(now_us))
            if now_us >= tick_us:
                self.reading = read_plane(self._plane, now_us, self.reading)
                show(self.reading)
                tick_us = now_us + _TICK_US
            deadline_us = self._plane.deadline_us
            until_us = tick_us if deadline_us is None else min(tick_us, deadline_us)
            self._loop.carry(until_us)
            self._look_up()
        self._loop.send(self._plane.stop())
        self.reading = read_plane(self._plane, clock_us(), self.reading)

    def _look_up(self) -> None:
        """Forget the bytes that woke the loop."""
        try:
            while self._wake.recv(64):
                pass
        except BlockingIOError:
            return
