"""Where a switch and its members are: as people write it, as sockets and C have it."""

import socket
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from fediac.errors import ArgumentError
from fediac.switch.keys import Address

SocketAddress = tuple[Any, ...]
"""As Python's sockets write it: host and port, and for IPv6 flow and scope."""

ADDRESS_BYTES = 24
"""IP (IPv4 mapped into IPv6), port, two zeros, scope; serve.c writes the same."""

_MAPPED = bytes(10) + b"\xff\xff"
_MAX_PORT = 0xFFFF


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A host and a port, as in ``127.0.0.1:4900`` or ``[::1]:4900``."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str, *, name: str, default_host: str = "") -> "Endpoint":
        """Return what was written.

        Args:
            text: What was written.
            name: What to call it in an error.
            default_host: The host of a port alone; none: there must be one.
        """
        host, _, port = text.strip().rpartition(":")
        is_bracketed = host[:1] == "[" and host[-1:] == "]"
        host = host[1:-1] if is_bracketed else host
        host = host or default_host
        is_number = port.isascii() and port.isdigit() and int(port) <= _MAX_PORT
        if not host or not is_number or (":" in host) != is_bracketed:
            form = "PORT or HOST:PORT" if default_host else "HOST:PORT"
            raise ArgumentError(
                name,
                f"must be {form}, such as 127.0.0.1:4900 or [::1]:4900, got {text!r}",
            )
        return cls(host, int(port))

    def __str__(self) -> str:
        """Return it as it is written."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @classmethod
    def of(cls, address: SocketAddress) -> "Endpoint":
        """Return where a socket is."""
        return cls(address[0], address[1])

    def resolve(
        self, kind: socket.SocketKind
    ) -> tuple[socket.AddressFamily, SocketAddress]:
        """Return the family and the address of a socket for it.

        Raises:
            OSError: There is no such host.
        """
        found = socket.getaddrinfo(self.host, self.port, type=kind)
        family, _, _, _, address = found[0]
        return family, address


def is_loopback(address: SocketAddress) -> bool:
    """Return whether only this machine reaches an address."""
    return ip_address(address[0].partition("%")[0]).is_loopback


def pack_address(address: SocketAddress) -> Address:
    """Return an address as bytes."""
    host: str = address[0].partition("%")[0]
    port: int = address[1]
    scope: int = address[3] if len(address) > 2 else 0
    is_v6 = ":" in host
    ip = socket.inet_pton(socket.AF_INET6 if is_v6 else socket.AF_INET, host)
    ip = ip if is_v6 else _MAPPED + ip
    return ip + port.to_bytes(2, "big") + bytes(2) + scope.to_bytes(4, "big")


def unpack_address(address: Address, family: socket.AddressFamily) -> SocketAddress:
    """Return an address for a socket of a family."""
    ip, port = address[:16], int.from_bytes(address[16:18], "big")
    if family == socket.AF_INET:
        return socket.inet_ntop(family, ip[12:]), port
    scope = int.from_bytes(address[20:24], "big")
    return socket.inet_ntop(family, ip), port, 0, scope
