"""The switch's inner loop in Python: what the one in C does, for every system."""

import select
import socket
import time
from collections.abc import Iterable

from fediac.network.addresses import pack_address, unpack_address
from fediac.network.sockets import SwitchSocket
from fediac.switch.control import ControlPlane, Traffic
from fediac.switch.sessions import Datagram
from fediac.wire.header import HEADER_BYTES, MAX_PAYLOAD_BYTES

MAX_PACKET_BYTES = HEADER_BYTES + MAX_PAYLOAD_BYTES
"""No packet is longer; a longer datagram is dropped before anybody looks at it."""

_BATCH = 64
"""Datagrams that are taken from the socket together."""


def clock_us() -> int:
    """Return the time that sessions live by, in microseconds; serve.c reads it too."""
    return time.monotonic_ns() // 1000


def send_datagrams(
    sending: socket.socket, datagrams: Iterable[Datagram], traffic: Traffic
) -> None:
    """Send answers; one that cannot be sent is lost, as on the way."""
    for address, data in datagrams:
        try:
            sending.sendto(data, unpack_address(address, sending.family))
            traffic.packets_out += 1
        except OSError:
            traffic.unsent += 1


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
        """Send answers."""
        send_datagrams(self._socket, datagrams, self._plane.traffic)
