"""Values between a coordinator and a client: who has the key, and nobody else."""

import socket
import struct
from collections.abc import Iterator

import numpy as np
import pytest

from fediac.errors import LocalProtocolError, SessionError
from fediac.remote.channel import SHORT, Channel
from fediac.sessions.messages import Alive, Model, Status, Word
from tests.support import refuses

KEY = bytes(range(32))
STATUS = Status(3, 1, ready_round=2)

Pair = tuple[Channel, Channel]


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def pair(
    sockets: tuple[socket.socket, socket.socket],
    key: bytes | None = KEY,
    other: bytes | None = KEY,
) -> Pair:
    """A coordinator's side and a client's, which have not heard of each other yet."""
    server = Channel(sockets[0], key, is_server=True)
    client = Channel(sockets[1], other, is_server=False)
    server.flush()
    client.flush()
    return server, client


@pytest.mark.parametrize("key", [KEY, None])
def test_values_arrive_in_order_in_both_directions(
    sockets: tuple[socket.socket, socket.socket], key: bytes | None
) -> None:
    server, client = pair(sockets, key, key)
    client.send(STATUS)  # waits for the other side's hello
    assert client.receive() == []
    assert not server.is_proved
    assert server.receive() == [STATUS]
    assert server.is_proved
    server.send(Alive())
    server.send(Word(1, 2))
    assert client.receive() == [Alive(), Word(1, 2)]


def test_a_session_s_key_is_told_to_who_has_the_members_key_alone(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    server, client = pair(sockets)
    with refuses("both sides must have said hello before", LocalProtocolError):
        server.veil(bytes(16), 7)
    server.receive()
    client.receive()
    key = bytes(range(16))
    veiled = server.veil(key, 7)
    assert veiled != key
    assert client.veil(veiled, 7) == key
    assert client.veil(veiled, 8) != key
    assert server.veil(bytes(16), 8) != server.veil(bytes(16), 7)


def test_a_model_comes_whole_however_often_the_socket_is_full(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    server, client = pair(sockets)
    server.receive()
    server.send(Alive())
    assert client.receive() == [Alive()]  # only who has proved the key may say more
    values = np.arange(2_000_000, dtype=np.float32)
    server.send(Word(1, 2, model=Model(1, values)))
    assert server.has_waiting
    found: list[Word] = []
    while not found:
        server.flush()
        found += client.receive()
    assert found[0].model is not None
    assert found[0].model.values.tobytes() == values.tobytes()
    assert not server.has_waiting


def test_another_key_is_noticed_by_both(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    server, client = pair(sockets, KEY, bytes(32))
    server.send(Alive())
    client.send(STATUS)
    server.receive()  # the hello alone, and what waited for it leaves
    for side in (client, server):
        with refuses("the other side has another key for this job", SessionError):
            side.receive()
            side.receive()
        assert not side.is_proved


def test_a_frame_that_is_said_again_is_refused(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = sockets
    server = Channel(ours, KEY, is_server=True)
    server.flush()
    between, far = socket.socketpair()
    with between, far:
        client = Channel(far, KEY, is_server=False)
        client.flush()
        between.sendall(theirs.recv(100))
        theirs.sendall(between.recv(100))
        client.receive()
        client.send(STATUS)
        frame = between.recv(1000)
        theirs.sendall(frame)
        assert server.receive() == [STATUS]
        theirs.sendall(frame)
        with refuses("the other side has another key for this job", SessionError):
            server.receive()


def test_another_version_is_named_beside_our_own(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = sockets
    client = Channel(ours, KEY, is_server=False)
    theirs.sendall(struct.pack(">6sH16s", b"fediac", 7, bytes(16)))
    text = "the other side speaks version 7 of the channel, not 2"
    with refuses(text, SessionError):
        client.receive()


def test_who_is_none_of_us_is_sent_away(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = sockets
    server = Channel(ours, KEY, is_server=True)
    theirs.sendall(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
    text = "the other side is no coordinator or client of fediac"
    with refuses(text, SessionError):
        server.receive()


def test_a_coordinator_takes_no_long_frames(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = sockets
    server = Channel(ours, None, is_server=True)
    hello = struct.pack(">6sH16s", b"fediac", 2, bytes(16))
    theirs.sendall(hello + struct.pack(">Q16s", 1 << 40, bytes(16)))
    text = f"a frame has at most {SHORT} bytes, got {1 << 40}"
    with refuses(text, SessionError):
        server.receive()


def test_who_has_left_is_noticed(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    server, client = pair(sockets)
    client.close()
    server.receive()
    assert server.is_closed
