"""What a conductor and a client keep of somebody who has not proved the key."""

import socket
from collections.abc import Iterator

import pytest

from fediac.errors import SessionError
from fediac.remote.channel import SHORT, Channel
from fediac.sessions.messages import Status
from tests.support import refuses

KEY = b"the key of a job"


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        other, _ = server.accept()
        with one, other:
            yield one, other


def held(channel: Channel) -> int:
    return len(channel._in)


@pytest.mark.parametrize("side", ["conductor", "client"])
def test_who_has_not_proved_the_key_takes_little_memory(
    pair: tuple[socket.socket, socket.socket], side: str
) -> None:
    ours, theirs = pair
    is_server = side == "conductor"
    channel = Channel(ours, KEY, is_server=is_server)
    stranger = Channel(theirs, b"another key of it", is_server=not is_server)
    stranger.flush()
    assert ours.recv(1, socket.MSG_PEEK)
    # A frame that says it is long, and much of it.
    head = (1 << 33).to_bytes(8, "big") + bytes(16)
    theirs.settimeout(5.0)
    with refuses(f"a frame has at most {SHORT} bytes, got {1 << 33}", SessionError):
        for _ in range(1000):
            theirs.sendall(head + bytes(50_000))
            channel.receive()
            assert held(channel) <= SHORT
    assert held(channel) <= SHORT


def test_who_has_proved_it_may_send_a_model(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    one, other = pair
    client = Channel(one, KEY, is_server=False)
    conductor = Channel(other, KEY, is_server=True)
    for channel in (client, conductor):
        channel.flush()
    got: list[object] = []
    conductor.send(Status(1, 2))
    conductor.send(bytes(300_000))
    while len(got) < 2:
        conductor.receive()
        conductor.flush()
        got += client.receive()
    assert got == [Status(1, 2), bytes(300_000)]
