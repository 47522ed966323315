"""A switch in a process of its own, and those who talk to it over UDP."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

from fediac.network.addresses import Endpoint
from fediac.selftest.peers import key_for
from fediac.wire.control import (
    Close,
    Control,
    Cookie,
    Join,
    Open,
    Opened,
    Welcome,
    read_control,
)
from fediac.wire.header import Flag, Kind
from fediac.wire.packet import Packet, decode, encode
from fediac.wire.status import Status
from fediac.wire.tag import is_tag_right, session_key, tagged

KEY = bytes(range(32))
"""The key of all jobs, on a switch that a test starts with one."""

_END_S = 20.0
"""After so long something is broken."""

_TRY_S = 0.5

ASKED = Open(
    100,
    job=7,
    epoch=1,
    n_clients=2,
    n_observers=1,
    payload_bytes=64,
    lease_ms=60_000,
    silence_ms=60_000,
)


class RunningSwitch:
    """A switch in a process of its own, from its first line on."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.first = self.line()
        self.endpoint = Endpoint.parse(self.first["address"], name="address")

    def line(self) -> dict[str, Any]:
        """Return the next line that it says."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()
        said: dict[str, Any] = json.loads(line)
        return said

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, dict[str, Any], str]:
        """Return its exit code, its last line and what it said of errors."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=_END_S)
        lines = out.splitlines()
        return self.process.returncode, json.loads(lines[-1]) if lines else {}, err


@contextmanager
def running_switch(
    *options: str, listen: str = "127.0.0.1:0", **environment: str
) -> Iterator[RunningSwitch]:
    """Start a switch; at the end of the block it is no more, whatever happened."""
    command = [sys.executable, "-m", "fediac", "switch", "--json", "--listen", listen]
    process = subprocess.Popen(
        [*command, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=_environment(environment),
    )
    try:
        yield RunningSwitch(process)
    finally:
        process.kill()
        process.communicate()


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "FEDIAC_KEY"}
    return kept | dict(more)


@dataclass
class Peer:
    """A coordinator or a member: a socket that is connected to a switch."""

    socket: socket.socket
    key: bytes | None = None

    @classmethod
    def of(cls, endpoint: Endpoint, key: bytes | None = None) -> Self:
        """Return a peer of the switch at an endpoint."""
        family, address = endpoint.resolve(socket.SOCK_DGRAM)
        opened = socket.socket(family, socket.SOCK_DGRAM)
        opened.connect(address)
        return cls(opened, key)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, packet: Packet, *, key: bytes | None = None) -> None:
        """Send a packet with its tag."""
        made = key_for(packet, key or self.key)
        self.socket.send(tagged(encode(packet), made))

    def receive(self, timeout_s: float = _END_S) -> Packet:
        """Return the next packet; its tag must be right."""
        self.socket.settimeout(timeout_s)
        data = self.socket.recv(0xFFFF)
        packet = decode(data)
        assert is_tag_right(data, session_key(self.key, packet.session))
        return packet

    def ask(self, packet: Packet) -> Packet:
        """Return the answer to a packet, which is repeated until there is one."""
        end = time.monotonic() + _END_S
        while time.monotonic() < end:
            self.send(packet)
            try:
                return self.receive(_TRY_S)
            except TimeoutError:
                continue
        raise AssertionError(f"no answer to {packet}")

    def prove(self, asked: Open | Close | Join | Status) -> Control:
        """Return the answer to what is said with the cookie that it brings."""
        cookie = read_control(self.ask(asked.write()))
        assert isinstance(cookie, Cookie), cookie
        return read_control(self.ask(replace(asked, cookie=cookie.cookie).write()))


@dataclass
class Members:
    """A session's coordinator and members, all joined; clients first."""

    asked: Open
    coordinator: Peer
    peers: list[Peer]


@contextmanager
def joined(
    endpoint: Endpoint, asked: Open = ASKED, key: bytes | None = None
) -> Iterator[Members]:
    """Open a session and let all its members join."""
    n_members = asked.n_clients + asked.n_observers
    peers = [Peer.of(endpoint, key) for _ in range(1 + n_members)]
    try:
        assert isinstance(peers[0].prove(asked), Opened)
        for client, peer in enumerate(peers[1:]):
            welcome = peer.prove(join_of(asked, client))
            assert isinstance(welcome, Welcome), welcome
        yield Members(asked, peers[0], peers[1:])
    finally:
        for peer in peers:
            peer.socket.close()


def join_of(asked: Open, client: int, *, counter: int = 1) -> Join:
    """Return how a member joins."""
    return Join(
        asked.session,
        client,
        counter,
        asked.payload_bytes,
        is_observer=client >= asked.n_clients,
    )


def votes(asked: Open, client: int, mask: int, *, exchange: int = 0) -> Packet:
    """Return a client's votes on two entries, or an observer's packet."""
    if client >= asked.n_clients:
        return Packet(
            Kind.TALLY,
            asked.session,
            exchange,
            client,
            threshold=2,
            flags=Flag.OBSERVE,
        )
    return Packet(
        Kind.TALLY,
        asked.session,
        exchange,
        client,
        n_items=2,
        threshold=2,
        body=bytes([mask]),
    )
