"""The compiled loop of a switch on UDP: C structures, and many packets a call.

The caller knows about sockets and sessions; here are numbers and arrays.
"""

import ctypes
import os
import sys
from collections.abc import Sequence
from ctypes import c_int, c_int32, c_int64, c_size_t, c_uint8, c_uint32, c_uint64
from ctypes import c_void_p as pointer
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fediac.native import library
from fediac.native.dispatch import host_kernels
from fediac.native.library import Signatures, declare
from fediac.native.packets import AnswerRows

ADDRESS_BYTES = 24
_MAX_MESSAGES, _MAX_UP, _N_COUNTS = 64, 64, 5

_BUFFER_BYTES = 65_536 + 1_472
"""Room for a datagram, however many the kernel joined in it; not a power of two, so
that equal places of many do not share a line of the processor's cache."""

_SPARE_ROWS = 512
"""Answers that wait for the end of a batch."""

_SIGNATURES: Signatures = {
    "fediac_serve_layout": (None, [pointer]),
    "fediac_serve": (c_int, [pointer, c_int64]),
    "fediac_answer_bytes": (c_size_t, [c_size_t]),
    "fediac_most_answers": (c_size_t, [pointer]),
    "fediac_is_job_valid": (c_int, [pointer, c_size_t, c_size_t]),
}


class Why(IntEnum):
    """Why a loop came back."""

    TIME_IS_UP = 0
    SOMEBODY_WANTS = 1
    """A byte came where the process is woken."""
    GOES_UP = 2
    """Datagrams are for Python."""


class Traffic(NamedTuple):
    """What a loop counted; dropped is what belongs to no session or has a wrong tag."""

    arrived: int
    sent: int
    unsent: int
    dropped_foreign: int
    dropped_tag: int


@dataclass(frozen=True, slots=True)
class Served:
    """A session, as arrays that the loop reads and writes while they are in use.

    Attributes:
        number: The session's.
        job: Its job's record, alone.
        registers: Its own.
        counts: Its counters.
        key: Its tags are made with it.
        heard_us: When each member was last heard.
        addresses: A row for each member; zeros: it has not joined.
        joined: Members, in the order in which they joined.
    """

    number: int
    job: NDArray[np.void]
    registers: NDArray[np.uint8]
    counts: NDArray[np.int64]
    key: NDArray[np.uint8]
    heard_us: NDArray[np.int64]
    addresses: NDArray[np.uint8]
    joined: NDArray[np.uint16]

    def places(self) -> tuple[int, ...]:
        """Return the fields of the loop's record of it."""
        arrays = (self.job, self.registers, self.counts, self.key, self.heard_us)
        places = [each.ctypes.data for each in (*arrays, self.addresses, self.joined)]
        return (self.number, *places, len(self.joined), len(self.addresses))


class _Session(ctypes.Structure):
    _fields_ = (
        ("number", c_uint64),
        ("job", pointer),
        ("registers", pointer),
        ("counts", pointer),
        ("key", pointer),
        ("heard_us", pointer),
        ("addresses", pointer),
        ("joined", pointer),
        ("n_joined", c_uint32),
        ("n_members", c_uint32),
    )


class _Message(ctypes.Structure):
    _fields_ = (
        ("address", c_uint8 * ADDRESS_BYTES),
        ("n_bytes", c_uint32),
        ("segment_bytes", c_uint32),
    )


class _Up(ctypes.Structure):
    _fields_ = (("at", c_uint64), ("n_bytes", c_uint32), ("message", c_uint32))


class _Loop(ctypes.Structure):
    _fields_ = (
        ("fd", c_int32),
        ("wake_fd", c_int32),
        ("is_v6", c_int32),
        ("joins_answers", c_int32),
        ("sessions", pointer),
        ("n_sessions", c_uint64),
        ("buffers", pointer),
        ("buffer_bytes", c_uint64),
        ("answers", AnswerRows),
        ("owners", pointer),
        ("max_bytes", c_uint64),
        ("n_messages", c_uint32),
        ("message", c_uint32),
        ("offset", c_uint32),
        ("n_up", c_uint32),
        ("counts", c_int64 * _N_COUNTS),
        ("messages", _Message * _MAX_MESSAGES),
        ("up", _Up * _MAX_UP),
    )


_STRUCTURES = (_Session, _Message, _Up, _Loop)


class ServeLoop:
    """Carries packets of sessions between a socket and their registers.

    Args:
        kernels: The library's functions.
        fd: The socket.
        wake_fd: What becomes readable when there is something else to do.
        is_v6: Whether the socket is one of IPv6.
        joins: Whether the kernel cuts long datagrams into equal ones.
        max_bytes: The longest packet; longer ones are dropped.
    """

    def __init__(
        self,
        kernels: "ServeKernels",
        fd: int,
        wake_fd: int,
        *,
        is_v6: bool,
        joins: bool,
        max_bytes: int,
    ) -> None:
        self._kernels = kernels
        self._buffers = np.zeros(_MAX_MESSAGES * _BUFFER_BYTES, np.uint8)
        self._c = _Loop(
            fd=fd,
            wake_fd=wake_fd,
            is_v6=is_v6,
            joins_answers=joins,
            buffers=self._buffers.ctypes.data,
            buffer_bytes=_BUFFER_BYTES,
            max_bytes=max_bytes,
        )
        self._serving: Sequence[Served] = ()
        self._rows: tuple[NDArray[np.generic], ...] = ()

    def set_sessions(self, served: Sequence[Served]) -> None:
        """Serve these sessions from now on; their arrays are kept alive."""
        ordered = sorted(served, key=lambda each: each.number)
        for each in ordered:
            self._kernels.check_job(each)
        table = (_Session * len(ordered))(*(_Session(*s.places()) for s in ordered))
        self._allocate(ordered)
        self._c.sessions = ctypes.addressof(table)
        self._c.n_sessions = len(ordered)
        self._serving, self._table = ordered, table

    def _allocate(self, served: Sequence[Served]) -> None:
        """Make room for the answers of a batch; all before have been sent."""
        payloads = [int(each.job["payload_bytes"][0]) for each in served]
        stride = self._kernels.answer_bytes(max(payloads, default=0))
        most = max(map(self._kernels.most_answers, served), default=0)
        n_rows = most + _SPARE_ROWS
        answers = self._c.answers
        if answers.stride == stride and answers.capacity >= n_rows:
            return
        rows = np.empty((n_rows, stride), np.uint8)
        lengths = np.empty(n_rows, np.int32)
        destinations, owners = np.empty((2, n_rows), np.uint16)
        places = (each.ctypes.data for each in (rows, lengths, destinations))
        self._c.answers = AnswerRows(*places, stride, n_rows, 0, 0)
        self._c.owners = owners.ctypes.data
        self._rows = (rows, lengths, destinations, owners)

    def serve(self, until_us: int) -> Why:
        """Carry packets until a time, or until something else has to be done.

        Raises:
            OSError: The socket is of no use.
        """
        return self._kernels.serve(self._c, until_us)

    def rise(self) -> list[tuple[bytes, bytes]]:
        """Return the datagrams for Python: where each came from, and what it says."""
        loop, data = self._c, self._buffers.data
        return [
            (
                bytes(loop.messages[up.message].address),
                bytes(data[up.at :][: up.n_bytes]),
            )
            for up in loop.up[: loop.n_up]
        ]

    def take_traffic(self) -> Traffic:
        """Return what was counted since this was last asked."""
        traffic = Traffic(*self._c.counts)
        self._c.counts = (c_int64 * _N_COUNTS)()
        return traffic


class ServeKernels:
    """The functions of the C library that carry packets."""

    def __init__(self, loaded: ctypes.CDLL) -> None:
        declare(loaded, _SIGNATURES)
        lengths = (c_size_t * len(_STRUCTURES))()
        loaded.fediac_serve_layout(ctypes.addressof(lengths))
        if list(lengths) != [ctypes.sizeof(each) for each in _STRUCTURES]:
            raise AttributeError("the structures of the library have other lengths")
        self._c = loaded

    def serve(self, loop: _Loop, until_us: int) -> Why:
        """Carry packets; see `ServeLoop.serve`."""
        code: int = self._c.fediac_serve(ctypes.byref(loop), until_us)
        if code < 0:
            raise OSError(-code, os.strerror(-code))
        return Why(code)

    def answer_bytes(self, payload_bytes: int) -> int:
        """Return the length of a row that holds any answer."""
        n_bytes: int = self._c.fediac_answer_bytes(payload_bytes)
        return n_bytes

    def most_answers(self, served: Served) -> int:
        """Return a bound of the answers that one packet can cause."""
        n_answers: int = self._c.fediac_most_answers(served.job.ctypes.data)
        return n_answers

    def check_job(self, served: Served) -> None:
        """Refuse a job that is not within its registers."""
        payload_bytes = int(served.job["payload_bytes"][0])
        n_members, n_bytes = int(served.job["n_clients"][0]), len(served.registers)
        place = served.job.ctypes.data
        is_valid = self._c.fediac_is_job_valid(place, n_bytes, payload_bytes)
        if not is_valid or not n_members <= len(served.addresses) <= len(
            served.heard_us
        ):
            raise ValueError(
                f"served must be a job in {n_bytes} register bytes with its members, "
                f"got {served.job}"
            )


def serve_kernels() -> ServeKernels | None:
    """Return the compiled loop; None where there are no kernels, or not on Linux."""
    is_here = sys.platform == "linux" and host_kernels() is not None
    loaded = library.load() if is_here else None
    if loaded is None:
        return None
    try:
        return ServeKernels(loaded)
    except AttributeError:
        library.reject("its C kernels were built from older sources")
        return None
