"""UDP sockets of a switch: bound, with large buffers, and what went wrong in words."""

import errno
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from fediac.errors import StartError, say_reason
from fediac.network.addresses import Endpoint, SocketAddress, is_loopback

_WANTED_BYTES = 64 << 20
"""What is asked for; the system gives as much as net.core.rmem_max allows."""

_PACKET_BYTES = 2304
"""What the kernel counts for a packet of 1,500 bytes: with all that it keeps of it."""

ADDRESS_IN_USE, NOT_ALLOWED, NO_SUCH_ADDRESS = 3, 4, 5
"""Exit codes of who cannot listen."""

NO_SEGMENTS = "FEDIAC_UDP_GSO"
"""In the environment, 0: every answer is a datagram of its own for the kernel, too."""

_SOL_UDP, _UDP_SEGMENT, _UDP_GRO = 17, 103, 104
_SO_MEMINFO, _N_MEMINFO = 55, 9
"""Linux's numbers; Python has no names for them."""

_CODES = {
    errno.EADDRINUSE: ADDRESS_IN_USE,
    errno.EACCES: NOT_ALLOWED,
    errno.EPERM: NOT_ALLOWED,
}


@dataclass(frozen=True, slots=True)
class SwitchSocket:
    """A bound UDP socket.

    Attributes:
        socket: It blocks when it sends; who receives says that it does not wait.
        endpoint: Where it listens, with the port that it got.
        is_local: Whether only this machine reaches it.
        buffer_bytes: Its receive buffer, as the kernel counts it.
    """

    socket: socket.socket
    endpoint: Endpoint
    is_local: bool
    buffer_bytes: int

    @property
    def buffer_packets(self) -> int:
        """Packets of 1,500 bytes that can wait in the receive buffer."""
        return max(1, self.buffer_bytes // _PACKET_BYTES)


def open_socket(endpoint: Endpoint) -> SwitchSocket:
    """Return a socket that listens, or the first of its addresses that can.

    Raises:
        StartError: It cannot.
    """
    with say_why_not(endpoint):
        family, address = endpoint.resolve(socket.SOCK_DGRAM)
        opened = socket.socket(family, socket.SOCK_DGRAM)
        try:
            return _bind(opened, address)
        except OSError:
            opened.close()
            raise


def _bind(opened: socket.socket, address: SocketAddress) -> SwitchSocket:
    if opened.family == socket.AF_INET6:
        # [::] takes IPv4 as well, whatever the machine's default is.
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    for buffer in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        opened.setsockopt(socket.SOL_SOCKET, buffer, _WANTED_BYTES)
    opened.bind(address)
    got = opened.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    where = opened.getsockname()
    return SwitchSocket(opened, Endpoint.of(where), is_loopback(where), got)


def join_segments(opened: socket.socket) -> bool:
    """Let the kernel join datagrams that came together; return whether it can cut some.

    Both are Linux's: UDP_GRO hands equal datagrams of one sender up in one piece, and
    UDP_SEGMENT makes many of one piece that is sent.
    """
    if os.environ.get(NO_SEGMENTS) == "0":
        return False
    try:
        opened.setsockopt(_SOL_UDP, _UDP_GRO, 1)
        opened.getsockopt(_SOL_UDP, _UDP_SEGMENT)
    except OSError:
        return False
    return True


def count_overruns(opened: socket.socket) -> int:
    """Return how many datagrams found a socket's receive buffer full, if that is known.

    Linux knows: it is the last of the numbers that SO_MEMINFO gives.
    """
    try:
        told = opened.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 4 * _N_MEMINFO)
    except OSError:
        return 0
    numbers = struct.unpack(f"={len(told) // 4}I", told)
    return int(numbers[-1]) if len(numbers) == _N_MEMINFO else 0


@contextmanager
def say_why_not(endpoint: Endpoint) -> Iterator[None]:
    """Turn an OSError inside the block into a `StartError` about an endpoint."""
    try:
        yield
    except OSError as error:
        code = _CODES.get(error.errno or 0, NO_SUCH_ADDRESS)
        raise StartError(
            f"cannot listen on {endpoint}: {say_reason(error)}", code
        ) from error
