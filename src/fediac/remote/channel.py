"""Values over a TCP connection, between a coordinator and one client.

Each side says hello with a nonce; from both nonces and the members' key follows the key
of a tag that every later frame has, with its number and its direction. So nobody
without the members' key is listened to, and no frame counts twice or elsewhere. Nothing
is encrypted but the keys of sessions. Nothing blocks: bytes wait here until the socket
takes them.
"""

import hashlib
import hmac
import secrets
import socket
import struct
from contextlib import suppress
from typing import Any

from fediac.errors import LocalProtocolError, RemoteProtocolError, SessionError
from fediac.remote.codec import from_bytes, to_bytes

VERSION = 2
_HELLO = struct.Struct(">6sH16s")
_MAGIC = b"fediac"
_FRAME = struct.Struct(">Q16s")
_CHUNK = 1 << 20

SHORT, LONG = 1 << 16, 1 << 36
"""The longest frame from a client, which says how it stands; from a coordinator."""


class Channel:
    """One side of a connection.

    Args:
        connection: Connected; it is made not to block.
        key: The job's for its members; None: it has none.
        is_server: Whether this is the coordinator's side.

    Attributes:
        is_closed: Whether the other side has left.
    """

    def __init__(
        self, connection: socket.socket, key: bytes | None, *, is_server: bool
    ) -> None:
        self.socket = connection
        self.is_closed = False
        connection.settimeout(0.0)
        with suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._shared_key, self._is_server = key, is_server
        self._limit = SHORT if is_server else LONG
        self._nonce = secrets.token_bytes(16)
        self._key: bytes | None = None
        self._waiting: list[object] = []
        self._out = bytearray(_HELLO.pack(_MAGIC, VERSION, self._nonce))
        self._in = bytearray()
        self._n_out = self._n_in = 0

    def close(self) -> None:
        """End the connection."""
        self.is_closed = True
        self.socket.close()

    @property
    def is_proved(self) -> bool:
        """Whether the other side has shown that it has the key."""
        return self._n_in > 0

    @property
    def has_waiting(self) -> bool:
        """Whether something waits for the socket to take it."""
        return bool(self._out)

    def send(self, value: object) -> None:
        """Send a value, once the socket takes it."""
        if self._key is None:
            self._waiting.append(value)
            return
        body = to_bytes(value)
        tag = _tag(self._key, self._is_server, self._n_out, body)
        self._n_out += 1
        self._out += _FRAME.pack(len(body), tag)
        self._out += body
        self.flush()

    def veil(self, key: bytes, session: int) -> bytes:
        """Return a session's key as it travels, or the key from that."""
        if self._key is None:
            raise LocalProtocolError("both sides must have said hello before")
        cover = hashlib.blake2b(
            session.to_bytes(8, "big"),
            digest_size=len(key),
            key=self._key,
            person=b"fediac veil",
        ).digest()
        return bytes(a ^ b for a, b in zip(key, cover, strict=True))

    def flush(self) -> None:
        """Give the socket what it takes."""
        try:
            while self._out and not self.is_closed:
                n_sent = self.socket.send(memoryview(self._out)[:_CHUNK])
                del self._out[:n_sent]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.is_closed = True

    def receive(self) -> list[Any]:
        """Return the values that have come.

        Raises:
            SessionError: The other side has another key, or speaks otherwise.
        """
        self._fill()
        if self._key is None and not self._greet():
            return []
        values = []
        while (body := self._take()) is not None:
            try:
                values.append(from_bytes(body))
            except RemoteProtocolError as error:
                raise SessionError(str(error)) from error
        return values

    @property
    def _most(self) -> int:
        """How much of the other side is kept: little, until it has proved the key."""
        return self._limit if self.is_proved else SHORT

    def _fill(self) -> None:
        try:
            while (room := self._most - len(self._in)) > 0:
                data = self.socket.recv(min(_CHUNK, room))
                if not data:
                    self.is_closed = True
                    return
                self._in += data
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.is_closed = True

    def _greet(self) -> bool:
        """Take the other side's hello; return whether it is there."""
        if len(self._in) < _HELLO.size:
            return False
        magic, version, theirs = _HELLO.unpack_from(self._in)
        if magic != _MAGIC:
            raise SessionError("the other side is no coordinator or client of fediac")
        if version != VERSION:
            raise SessionError(
                f"the other side speaks version {version} of the channel, not {VERSION}"
            )
        del self._in[: _HELLO.size]
        nonces = self._nonce + theirs if self._is_server else theirs + self._nonce
        self._key = hashlib.blake2b(
            nonces,
            digest_size=32,
            key=self._shared_key or b"",
            person=b"fediac channel",
        ).digest()
        waiting, self._waiting = self._waiting, []
        for value in waiting:
            self.send(value)
        return True

    def _take(self) -> bytes | None:
        """Return the next frame's body, if all of it is there."""
        if self._key is None or len(self._in) < _FRAME.size:
            return None
        length, tag = _FRAME.unpack_from(self._in)
        if length > self._most - _FRAME.size:
            raise SessionError(f"a frame has at most {self._most} bytes, got {length}")
        end = _FRAME.size + length
        if len(self._in) < end:
            return None
        body = bytes(memoryview(self._in)[_FRAME.size : end])
        del self._in[:end]
        made = _tag(self._key, not self._is_server, self._n_in, body)
        if not hmac.compare_digest(tag, made):
            raise SessionError("the other side has another key for this job")
        self._n_in += 1
        return body


def _tag(key: bytes, is_server: bool, number: int, body: bytes) -> bytes:  # noqa: FBT001
    """Return the tag of a frame, from its direction and its number on."""
    made = hashlib.blake2b(key=key, digest_size=16, person=b"fediac frame")
    made.update(struct.pack(">BQ", is_server, number))
    made.update(body)
    return made.digest()
