"""A UDP socket to a switch, and the loop that lets machines talk over such sockets."""

import errno
import os
import selectors
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Protocol, Self

from fediac.errors import SessionError, say_reason
from fediac.native.linking import link_kernels
from fediac.network.addresses import Endpoint
from fediac.wire.header import HEADER_BYTES, IP_UDP_BYTES

_BUFFER_BYTES = 8 << 20
_MAX_DATAGRAM = 65_535
_BATCH = 256
"""Datagrams that are read before a machine is asked what to send."""

_TURN_US = 50_000
"""Time for those that have heard something, before all others have their turn: beside a
thousand members a coordinator would be silent for longer than its lease."""

_IP_MTU_DISCOVER, _IP_PMTUDISC_DO = 10, 2
_IPV6_MTU_DISCOVER, _IPV6_PMTUDISC_DO = 23, 2
"""Linux's numbers, which Python has no names for: packets are not cut in pieces."""


class Link:
    """A socket that sends to one switch and hears only that.

    Args:
        endpoint: Where the switch is.

    Attributes:
        refused: Packets that came back because nobody listens there.
        buffer_bytes: Its receive buffer, as the system counts it: what was asked for,
            or as much as net.core.rmem_max allows.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.refused = 0
        try:
            family, address = endpoint.resolve(socket.SOCK_DGRAM)
            self.socket = socket.socket(family, socket.SOCK_DGRAM)
            self.socket.connect(address)
        except OSError as error:
            raise SessionError(
                f"cannot send to {endpoint}: {say_reason(error)}"
            ) from error
        for buffer in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            self.socket.setsockopt(socket.SOL_SOCKET, buffer, _BUFFER_BYTES)
        got = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        self.buffer_bytes: int = got
        self._forbid_fragments(family)
        self.socket.settimeout(0.0)

    def _forbid_fragments(self, family: int) -> None:
        with suppress(OSError):  # a system that has another way, or none
            if family == socket.AF_INET6:
                self.socket.setsockopt(
                    socket.IPPROTO_IPV6, _IPV6_MTU_DISCOVER, _IPV6_PMTUDISC_DO
                )
            else:
                self.socket.setsockopt(
                    socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_DO
                )

    @property
    def hint(self) -> str:
        """What a silence may mean, to be put behind it."""
        return f", nobody listens at {self.endpoint}" if self.refused else ""

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the socket."""
        self.close()

    def send(self, packets: Iterable[bytes]) -> None:
        """Send packets; those that the system has no room for are lost."""
        left = list(packets)
        while left:
            try:
                n_sent, number = self._send_some(left)
                if number:
                    self._note(number, len(left[n_sent]))
            except (BlockingIOError, InterruptedError):
                return
            left = left[n_sent + 1 :] if number else left[n_sent:]

    def _send_some(self, packets: list[bytes]) -> tuple[int, int]:
        """Return how many of them left, and the number of the error behind them."""
        kernels = link_kernels()
        if kernels is not None:
            return kernels.send(self.socket.fileno(), packets)
        for place, data in enumerate(packets):
            try:
                self.socket.send(data)
            except OSError as error:
                return place, error.errno or errno.EIO
        return len(packets), 0

    def _note(self, number: int, length: int = 0) -> None:
        """Take an error of the network: of some that pass, of others none goes on."""
        if number in _FULL:
            raise BlockingIOError
        if number == errno.ECONNREFUSED:
            self.refused += 1
        elif number == errno.EMSGSIZE:
            raise self._too_long(length)
        elif number not in _PASSING:
            raise SessionError(
                f"cannot reach {self.endpoint}: {os.strerror(number).lower()}"
            )

    def _too_long(self, length: int) -> SessionError:
        payload = length - HEADER_BYTES
        return SessionError(
            f"packets of {length + IP_UDP_BYTES} bytes ({payload} of payload) do not "
            f"pass to {self.endpoint}: the path takes shorter ones; set a smaller mtu"
        )

    def receive(self) -> list[bytes]:
        """Return the packets that have come, without waiting."""
        received: list[bytes] = []
        while len(received) < _BATCH:
            packets, number = self._receive_some()
            received += packets
            try:
                self._note(number or errno.EAGAIN)
            except BlockingIOError:
                break
        return received

    def _receive_some(self) -> tuple[list[bytes], int]:
        """Return packets that have come, and the number of the error behind them."""
        kernels = link_kernels()
        if kernels is not None:
            return kernels.receive(self.socket.fileno())
        received: list[bytes] = []
        while len(received) < _BATCH:
            try:
                received.append(self.socket.recv(_MAX_DATAGRAM))
            except OSError as error:
                return received, error.errno or errno.EIO
        return received, 0


_FULL = (errno.EAGAIN, errno.EWOULDBLOCK, errno.EINTR)
"""The system has no room, or nothing there, for now."""

_PASSING = (errno.ENOBUFS, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN)
"""Errors of networks that may be there again soon."""


class Waitable(Protocol):
    """What the system can wait for."""

    def fileno(self) -> int:
        """Return its number."""
        ...


class Machine(Protocol):
    """What talks to a switch: a member, a client, a coordinator."""

    @property
    def deadline_us(self) -> int | None:
        """When it has something to send, if nothing is received before."""
        ...

    def receive(self, datagrams: Iterable[bytes], now_us: int) -> None:
        """Take what the switch sent."""
        ...

    def send(self, now_us: int) -> list[bytes]:
        """Return the packets to send."""
        ...


def clock_us() -> int:
    """Return the time, in microseconds, of a clock that nobody sets."""
    return time.monotonic_ns() // 1000


def drive(
    machines: Sequence[tuple[Link, Machine]],
    is_done: Callable[[], bool],
    *,
    also: Iterable[Waitable] = (),
) -> None:
    """Let machines talk to their switch until something is done.

    Args:
        machines: Each with its socket.
        is_done: Asked whenever something has happened.
        also: What else may happen: something to read here, which ``is_done`` reads.
    """
    with selectors.DefaultSelector() as selector:
        for each in also:
            selector.register(each, selectors.EVENT_READ)
        for link, machine in machines:
            selector.register(link.socket, selectors.EVENT_READ, (link, machine))
        for link, machine in machines:
            link.send(machine.send(clock_us()))
        while not is_done():
            _step(selector, machines)


def _step(
    selector: selectors.BaseSelector, machines: Sequence[tuple[Link, Machine]]
) -> None:
    """Wait for what happens next, and let who is concerned go on."""
    ends = (machine.deadline_us for _, machine in machines)
    until_us = min((each for each in ends if each is not None), default=None)
    wait_s = 1.0 if until_us is None else max(0.0, (until_us - clock_us()) / 1e6)
    heard = selector.select(min(wait_s, 1.0))
    turn_ends_us = clock_us() + _TURN_US
    for key, _ in heard:
        if key.data is None:
            continue
        link, machine = key.data
        machine.receive(link.receive(), clock_us())
        link.send(machine.send(clock_us()))
        if clock_us() > turn_ends_us:
            break  # the others are still ready when they are asked for again
    now_us = clock_us()
    for link, machine in machines:
        due_us = machine.deadline_us
        if due_us is not None and due_us <= now_us:
            link.send(machine.send(now_us))
