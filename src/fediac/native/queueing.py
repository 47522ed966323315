"""The compiled queueing simulator: C structures and functions, a step a call."""

import ctypes
from ctypes import c_double, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fediac.native import library
from fediac.native.dispatch import host_kernels_for
from fediac.native.library import Signatures, declare

N_DRAWS = 256
N_BATCH = 64

_SIGNATURES: Signatures = {
    "fediac_sim_layout": (None, [c_void_p]),
    "fediac_draws": (None, [c_void_p, c_size_t, c_void_p]),
    "fediac_open_step": (None, [c_void_p]),
    "fediac_serve_step": (c_int64, [c_void_p, c_int64]),
    "fediac_receive": (None, [c_void_p, c_void_p, c_size_t]),
    "fediac_open_bounded_step": (None, [c_void_p]),
    "fediac_serve_bounded_step": (c_int64, [c_void_p, c_int64]),
}

_PROBE = np.zeros(1, np.uint8)


class Draws(ctypes.Structure):
    """Numbers drawn from a stream in order."""

    _fields_ = (
        ("table", c_void_p),
        ("next", c_uint64),
        ("place", c_uint64),
        ("key", c_uint32 * 2),
        ("tail", c_uint32 * 3),
        ("unused", c_uint32),
        ("values", c_int64 * N_DRAWS),
    )


class Server(ctypes.Structure):
    """A server, first come first served."""

    _fields_ = (
        ("services", Draws),
        ("free_at", c_int64),
        ("busy_ps", c_int64),
        ("n_served", c_int64),
        ("max_wait", c_int64),
        ("wait_low", c_uint64),
        ("wait_high", c_uint64),
    )


class Uplink(ctypes.Structure):
    """A trace and where a client is on it."""

    _fields_ = (
        ("totals", c_void_p),
        ("ps_per_unit", c_void_p),
        ("units_per_ps", c_void_p),
        ("n_seconds", c_int64),
        ("second", c_int64),
        ("lap_ps", c_int64),
        ("position", c_int64),
        ("floor_ps", c_int64),
        ("gaps", Draws),
    )


class Downlink(ctypes.Structure):
    """A client's way down."""

    _fields_ = (
        ("gaps", Draws),
        ("ps_per_unit", c_double),
        ("arrival", c_int64),
        ("link_ps", c_int64),
        ("server", Server),
    )


class Exchange(ctypes.Structure):
    """One exchange of all clients."""

    _fields_ = (
        ("done", c_void_p),
        ("left", c_void_p),
        ("is_open", c_void_p),
        ("n_groups", c_int64),
        ("rule", c_int32),
        ("is_far", c_int32),
        ("n_parts", c_int64),
        ("n_last", c_int64),
        ("n_answered", c_int64),
        ("finish", c_void_p),
        ("received", c_void_p),
        ("n_ring", c_int64),
    )


class Flow(ctypes.Structure):
    """What one client sends in one exchange."""

    _fields_ = (
        ("exchange", c_int64),
        ("n_packets", c_int64),
        ("ends", c_void_p),
        ("owns", c_void_p),
        ("needs", c_void_p),
        ("window", c_int64),
    )


class Client(ctypes.Structure):
    """A client in a step."""

    _fields_ = (
        ("uplink", Uplink),
        ("flow", c_void_p),
        ("number", c_int64),
        ("n_left", c_int64),
        ("upcoming", c_int64),
        ("last_arrival", c_int64),
        ("sending_ps", c_int64),
        ("n_needed", c_int64),
    )


class Monitor(ctypes.Structure):
    """What happens over time, in bins."""

    _fields_ = (
        ("n_bins", c_int64),
        ("shift", c_int64),
        ("n_arrivals", c_void_p),
        ("n_starts", c_void_p),
        ("busy_ps", c_void_p),
        ("most_waiting", c_void_p),
        ("most_open", c_void_p),
        ("starts", c_void_p),
        ("n_ring", c_uint64),
        ("n_pushed", c_uint64),
        ("n_popped", c_uint64),
        ("n_open", c_int64),
        ("max_waiting", c_int64),
        ("max_open", c_int64),
        ("open_bin", c_int64),
    )


class Step(ctypes.Structure):
    """Exchanges that travel together, and who serves them."""

    _fields_ = (
        ("clients", c_void_p),
        ("downlinks", c_void_p),
        ("exchanges", c_void_p),
        ("tree_times", c_void_p),
        ("tree_clients", c_void_p),
        ("n_clients", c_int64),
        ("n_leaves", c_int64),
        ("n_exchanges", c_int64),
        ("far_delay_ps", c_int64),
        ("last_departure", c_int64),
        ("log", c_void_p),
        ("n_logged", c_int64),
        ("server", Server),
        ("far_server", Server),
        ("monitor", Monitor),
    )


_STRUCTURES = (
    Draws,
    Server,
    Uplink,
    Downlink,
    Exchange,
    Flow,
    Client,
    Monitor,
    Step,
)


class QueueKernels:
    """The functions of the C library that simulate queues.

    They work on structures of this module, whose pointers the caller keeps alive.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        declare(library, _SIGNATURES)
        lengths = (c_size_t * len(_STRUCTURES))()
        library.fediac_sim_layout(ctypes.addressof(lengths))
        if list(lengths) != [ctypes.sizeof(each) for each in _STRUCTURES]:
            raise AttributeError("the structures of the library have other lengths")
        self._c = library

    def draw(self, draws: Draws, n_numbers: int) -> NDArray[np.int64]:
        """Return the next numbers; for tests."""
        values = np.empty(n_numbers, np.int64)
        self._c.fediac_draws(ctypes.byref(draws), n_numbers, values.ctypes.data)
        return values

    def open_step(self, step: Step, *, is_bounded: bool) -> None:
        """Find the first arrivals."""
        if is_bounded:
            self._c.fediac_open_bounded_step(ctypes.byref(step))
        else:
            self._c.fediac_open_step(ctypes.byref(step))

    def serve_step(self, step: Step, n_packets: int, *, is_bounded: bool) -> int:
        """Serve at most ``n_packets``; return how many.

        It stops early when the ring of waiting packets is full.
        """
        name = "fediac_serve_bounded_step" if is_bounded else "fediac_serve_step"
        n_served: int = getattr(self._c, name)(ctypes.byref(step), n_packets)
        return n_served

    def receive(self, downlink: Downlink, ready: NDArray[np.int64]) -> None:
        """Let a client get packets, given when each was ready."""
        self._c.fediac_receive(ctypes.byref(downlink), ready.ctypes.data, len(ready))


def address_of(structures: ctypes.Array[Any]) -> int:
    """Return where an array of structures begins."""
    return ctypes.addressof(structures)


def queue_kernels() -> QueueKernels | None:
    """Return the compiled simulator, None where there are no kernels or none wanted."""
    loaded = library.load() if host_kernels_for(_PROBE) is not None else None
    if loaded is None:
        return None
    try:
        return QueueKernels(loaded)
    except AttributeError:
        library.reject("its C kernels were built from older sources")
        return None
