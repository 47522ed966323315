"""A switch on UDP: its loop, and what it does between packets.

The control plane knows no sockets and no clock; here are both. A loop carries
datagrams until there is something else to do: somebody was silent for too long, it is
time to read the counters, or the process is asked to stop.
"""

import os
import socket
from collections.abc import Callable, Iterable
from typing import Protocol

from fediac.native.serving import serve_kernels
from fediac.network.native_loop import NativeLoop
from fediac.network.python_loop import PythonLoop, clock_us
from fediac.network.readings import Reading, read_plane
from fediac.network.sockets import SwitchSocket, count_overruns
from fediac.switch.control import ControlPlane
from fediac.switch.sessions import Datagram

_TICK_US = 1_000_000
"""Between two readings of the counters."""


class Loop(Protocol):
    """What carries datagrams between a socket and a control plane."""

    def carry(self, until_us: int) -> None:
        """Carry datagrams until a time, or until something else has to be done."""
        ...

    def send(self, datagrams: Iterable[Datagram]) -> None:
        """Send what the control plane says of itself."""
        ...


def _make_loop(opened: SwitchSocket, plane: ControlPlane, wake: socket.socket) -> Loop:
    """Return the loop in C, where there is one."""
    kernels = serve_kernels()
    if kernels is None:
        return PythonLoop(opened, plane, wake)
    return NativeLoop(opened, plane, wake, kernels)


class SwitchProcess:
    """Runs a switch until it is told to stop.

    Args:
        opened: Its socket.
        plane: Its control plane.
    """

    def __init__(self, opened: SwitchSocket, plane: ControlPlane) -> None:
        self._plane, self._socket = plane, opened.socket
        self._wake, self._waker = socket.socketpair()
        for each in (self._wake, self._waker):
            each.settimeout(0.0)
        self._is_stopping = False
        plane.traffic.started_us = clock_us()
        self._loop = _make_loop(opened, plane, self._wake)
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
                self._read(now_us)
                show(self.reading)
                tick_us = now_us + _TICK_US
            deadline_us = self._plane.deadline_us
            until_us = tick_us if deadline_us is None else min(tick_us, deadline_us)
            self._loop.carry(until_us)
            self._look_up()
        self._loop.send(self._plane.stop())
        self._read(clock_us())

    def _read(self, now_us: int) -> None:
        """Read all counters."""
        self._plane.traffic.overrun = count_overruns(self._socket)
        self.reading = read_plane(self._plane, now_us, self.reading)

    def _look_up(self) -> None:
        """Forget the bytes that woke the loop."""
        try:
            while self._wake.recv(64):
                pass
        except BlockingIOError:
            return
