"""The compiled data plane of the switch, a batch of packets a call."""

import ctypes
from ctypes import c_char_p, c_int, c_size_t, c_void_p
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fediac.native.library import Signatures, declare

SIGNATURES: Signatures = {
    "fediac_answer_bytes": (c_size_t, [c_size_t]),
    "fediac_is_job_valid": (c_int, [c_void_p, c_size_t, c_size_t]),
    "fediac_process_packets": (
        c_size_t,
        [c_void_p, c_void_p, c_size_t, c_void_p, c_void_p, c_size_t, c_void_p],
    ),
    "fediac_tag": (None, [c_char_p, c_size_t, c_char_p, c_char_p]),
    "fediac_tag_packets": (None, [c_void_p, c_void_p, c_size_t, c_size_t, c_char_p]),
    "fediac_check_tags": (
        None,
        [c_void_p, c_void_p, c_size_t, c_size_t, c_char_p, c_void_p],
    ),
}

_HEADER_BYTES, _KEY_BYTES, _TAG_BYTES = 40, 16, 8

_MIN_ROWS = 256
_PACKETS_PER_ROW = 8
"""Packets of a batch for which one row is allocated; more rows follow if needed."""

Rows = tuple[NDArray[np.uint8], NDArray[np.int32], NDArray[np.uint16]]
"""One row of bytes an answer, their lengths and their destinations."""


class _Batch(ctypes.Structure):
    _fields_ = (
        ("rows", c_void_p),
        ("lengths", c_void_p),
        ("stride", c_size_t),
        ("n_packets", c_size_t),
    )


class AnswerRows(ctypes.Structure):
    """Rows for answers, which the caller allocates."""

    _fields_ = (
        ("rows", c_void_p),
        ("lengths", c_void_p),
        ("destinations", c_void_p),
        ("stride", c_size_t),
        ("capacity", c_size_t),
        ("n_answers", c_size_t),
        ("n_needed", c_size_t),
    )


class Room:
    """Memory for answers, used again by whoever processes batch after batch.

    Memory that was just written to is in the processor's caches, where new memory has
    to be fetched from the system first.
    """

    def __init__(self) -> None:
        self._rows: Rows | None = None
        self._c = AnswerRows()

    def open(self, n_rows: int, stride: int) -> tuple[Rows, AnswerRows]:
        """Return at least ``n_rows`` rows, of which none is in use."""
        if self._rows is None or self._c.stride != stride or self._c.capacity < n_rows:
            self._rows, self._c = _allocate(n_rows, stride)
        self._c.n_answers = 0
        return self._rows, self._c


class DataPlane:
    """The functions of the C library that process packets."""

    def __init__(self, library: ctypes.CDLL) -> None:
        declare(library, SIGNATURES)
        self._c = library

    def process_packets(  # noqa: PLR0913 - what a switch is, and a batch
        self,
        registers: NDArray[np.uint8],
        jobs: NDArray[np.void],
        counts: NDArray[np.int64],
        packets: NDArray[np.uint8],
        lengths: NDArray[np.int32],
        *,
        payload_bytes: int,
        out: Room | None = None,
    ) -> Rows:
        """Return answers, lengths and destinations; see `fediac.switch.Switch.process`.

        Registers and counters change in place. The caller has checked the shapes.
        """
        self._check_jobs(jobs, len(registers), payload_bytes)
        packets = np.ascontiguousarray(packets, dtype=np.uint8)
        lengths = np.ascontiguousarray(lengths, dtype=np.int32)
        stride = self._c.fediac_answer_bytes(payload_bytes)
        start, n_needed, chunks = 0, 0, []
        while start < len(packets):
            batch = _batch(packets[start:], lengths[start:])
            n_rows = max(_MIN_ROWS, 2 * n_needed, batch.n_packets // _PACKETS_PER_ROW)
            # What does not fit the room that is given goes to memory of its own.
            room = out if out is not None and start == 0 else Room()
            rows, answers = room.open(n_rows, stride)
            start += self._c.fediac_process_packets(
                registers.ctypes.data,
                jobs.ctypes.data,
                len(jobs),
                counts.ctypes.data,
                ctypes.byref(batch),
                payload_bytes,
                ctypes.byref(answers),
            )
            chunks.append(tuple(array[: answers.n_answers] for array in rows))
            n_needed = answers.n_needed
        return _join(chunks, stride)

    def tag_of(self, packet: bytes, key: bytes) -> bytes:
        """Return the tag of one packet; see `fediac.wire.tag`."""
        if len(packet) < _HEADER_BYTES or len(key) != _KEY_BYTES:
            raise ValueError(
                f"packet must have at least {_HEADER_BYTES} bytes and key "
                f"{_KEY_BYTES}, got {len(packet)} and {len(key)}"
            )
        tag = ctypes.create_string_buffer(_TAG_BYTES)
        self._c.fediac_tag(packet, len(packet), key, tag)
        return tag.raw

    def tag_packets(
        self, rows: NDArray[np.uint8], lengths: NDArray[np.int32], key: bytes
    ) -> None:
        """Put their tags into packets; see `fediac.wire.tag`."""
        self._c.fediac_tag_packets(*_places(rows, lengths, key), key)

    def check_tags(
        self, rows: NDArray[np.uint8], lengths: NDArray[np.int32], key: bytes
    ) -> NDArray[np.bool_]:
        """Return which packets have their tags."""
        are_right = np.zeros(len(rows), dtype=np.bool_)
        places = _places(rows, lengths, key)
        self._c.fediac_check_tags(*places, key, are_right.ctypes.data)
        return are_right

    def _check_jobs(
        self, jobs: NDArray[np.void], register_bytes: int, payload_bytes: int
    ) -> None:
        for place in range(len(jobs)):
            at = jobs.ctypes.data + place * jobs.itemsize
            if not self._c.fediac_is_job_valid(at, register_bytes, payload_bytes):
                raise ValueError(
                    f"jobs must lie in {register_bytes} register bytes and have "
                    f"{payload_bytes} payload bytes, got {jobs[place]}"
                )


def _places(
    rows: NDArray[np.uint8], lengths: NDArray[np.int32], key: bytes
) -> tuple[int, int, int, int]:
    """Return where packets with room for a tag are, and how many."""
    n_packets, stride = rows.shape
    is_dense = rows.flags.c_contiguous and lengths.flags.c_contiguous
    if not is_dense or lengths.dtype != np.int32 or lengths.shape != (n_packets,):
        raise ValueError("rows must be contiguous, with an int32 length each")
    if n_packets and not _HEADER_BYTES <= lengths.min() <= lengths.max() <= stride:
        raise ValueError(
            f"lengths must be in {_HEADER_BYTES}..{stride}, got "
            f"{lengths.min()}..{lengths.max()}"
        )
    if len(key) != _KEY_BYTES:
        raise ValueError(f"key must have {_KEY_BYTES} bytes, got {len(key)}")
    return rows.ctypes.data, lengths.ctypes.data, stride, n_packets


def _batch(packets: NDArray[np.uint8], lengths: NDArray[np.int32]) -> _Batch:
    n_packets, stride = packets.shape
    return _Batch(packets.ctypes.data, lengths.ctypes.data, stride, n_packets)


def _allocate(n_rows: int, stride: int) -> tuple[Rows, AnswerRows]:
    rows = np.empty((n_rows, stride), dtype=np.uint8)
    lengths = np.empty(n_rows, dtype=np.int32)
    destinations = np.empty(n_rows, dtype=np.uint16)
    places = (array.ctypes.data for array in (rows, lengths, destinations))
    return (rows, lengths, destinations), AnswerRows(*places, stride, n_rows, 0, 0)


def _join(chunks: list[Any], stride: int) -> Rows:
    if len(chunks) == 1:
        only: Rows = chunks[0]
        return only
    (rows, lengths, destinations), _ = _allocate(0, stride)
    chunks = [(rows, lengths, destinations), *chunks]
    first, second, third = (
        np.concatenate(parts) for parts in zip(*chunks, strict=True)
    )
    return first, second, third
