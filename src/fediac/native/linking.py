"""A client's packets over its socket: many a system call, in C."""

import ctypes
import sys
import threading
from collections.abc import Sequence
from ctypes import c_char_p, c_int, c_int32, c_size_t
from ctypes import c_void_p as pointer

import numpy as np

from fediac.native import library
from fediac.native.dispatch import host_kernels
from fediac.native.library import Signatures, declare

_SIGNATURES: Signatures = {
    "fediac_send_packets": (c_size_t, [c_int, c_char_p, pointer, c_size_t, pointer]),
    "fediac_receive_packets": (
        c_size_t,
        [c_int, pointer, c_size_t, pointer, c_size_t, pointer],
    ),
}
N_ROWS = 256
"""Packets that are received together."""

_ROW_BYTES = 9_216
"""Room for a packet: the longest of the protocol, and none that comes is longer."""


class LinkKernels:
    """Sends and receives packets of connected sockets, for one thread."""

    def __init__(self, loaded: ctypes.CDLL) -> None:
        declare(loaded, _SIGNATURES)
        self._c = loaded
        self._rows = np.empty((N_ROWS, _ROW_BYTES), np.uint8)
        self._lengths = np.zeros(N_ROWS, np.int32)
        self._error = c_int32()

    def send(self, fd: int, packets: Sequence[bytes]) -> tuple[int, int]:
        """Return how many of them left, and the number of the error behind them."""
        lengths = np.array([len(data) for data in packets], np.int32)
        n_sent: int = self._c.fediac_send_packets(
            fd,
            b"".join(packets),
            lengths.ctypes.data,
            len(packets),
            ctypes.byref(self._error),
        )
        return n_sent, self._error.value

    def receive(self, fd: int) -> tuple[list[bytes], int]:
        """Return packets that have come, and the number of the error behind them."""
        n_taken: int = self._c.fediac_receive_packets(
            fd,
            self._rows.ctypes.data,
            _ROW_BYTES,
            self._lengths.ctypes.data,
            len(self._rows),
            ctypes.byref(self._error),
        )
        lengths = self._lengths[:n_taken].tolist()
        rows = zip(self._rows, lengths, strict=False)
        return [row[:length].tobytes() for row, length in rows], self._error.value


_own = threading.local()


def link_kernels() -> LinkKernels | None:
    """Return what sends and receives here: one for each thread, for all its sockets.

    None without kernels, or not on Linux.
    """
    if sys.platform != "linux" or host_kernels() is None:
        return None
    if not hasattr(_own, "kernels"):
        _own.kernels = _load()
    kernels: LinkKernels | None = _own.kernels
    return kernels


def _load() -> LinkKernels | None:
    loaded = library.load()
    if loaded is None:
        return None
    try:
        return LinkKernels(loaded)
    except AttributeError:
        library.reject("its C kernels were built from older sources")
        return None
