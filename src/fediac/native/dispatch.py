"""Choosing between the kernels and core, array by array."""

import importlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import NamedTuple

from fediac.native import library
from fediac.native.arrays import (
    Array,
    all_fit,
    all_fit_on_device,
    lanes_fit,
    lanes_fit_on_device,
)
from fediac.native.device import DeviceKernels
from fediac.native.kernels import Kernels


class _Switch:
    """Whether the kernels may be used, and the one object that stands for them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_disabled = 0
        self._kernels: Kernels | None = None
        self._on_device: DeviceKernels | None = None

    def kernels(self) -> Kernels | None:
        if self._n_disabled:
            return None
        if self._kernels is None:
            self._kernels = _load()
        return self._kernels

    def kernels_on_device(self) -> DeviceKernels | None:
        if self._n_disabled or not library.is_wanted():
            return None
        if self._on_device is None:
            self._on_device = _load_on_device()
        return self._on_device

    def count(self, step: int) -> None:
        with self._lock:
            self._n_disabled += step


def _load() -> Kernels | None:
    loaded = library.load()
    if loaded is None:
        return None
    try:
        return Kernels(loaded)
    except AttributeError:
        library.reject("its C kernels were built from older sources")
        return None


def _load_on_device() -> DeviceKernels | None:
    """Return the Triton kernels; PyTorch's CUDA builds come with Triton on Linux."""
    try:
        return DeviceKernels(importlib.import_module("fediac.native.device_kernels"))
    except ImportError:
        return None


_switch = _Switch()


def kernels_for(*arrays: Array | None) -> Kernels | DeviceKernels | None:
    """Return the compiled kernels when they can work on ``arrays``, else None.

    They can on NumPy arrays, CPU tensors and, with Triton, CUDA tensors of float32
    (values) or uint8 (packed bits) that are one-dimensional and contiguous. The first
    call warns when the library was not built.
    """
    if all_fit_on_device(arrays):
        return _switch.kernels_on_device()
    return host_kernels_for(*arrays)


def host_kernels() -> Kernels | None:
    """Return the C kernels, if there are any, for what needs no arrays."""
    return _switch.kernels()


def host_kernels_for(*arrays: Array | None) -> Kernels | None:
    """Return the C kernels when they can work on ``arrays``, else None."""
    return _switch.kernels() if all_fit(arrays) else None


def kernels_for_lanes(lanes: Array) -> Kernels | DeviceKernels | None:
    """Return the compiled kernels when they can pack ``lanes``, else None."""
    if lanes_fit_on_device(lanes):
        return _switch.kernels_on_device()
    return _switch.kernels() if lanes_fit(lanes) else None


class StepKernels(NamedTuple):
    """The Triton kernels of a training step.

    Attributes:
        steps: Batch norm, picking of examples, SGD.
        convolutions: Are for Hopper GPUs; None: are not to be used.
    """

    steps: ModuleType
    convolutions: ModuleType | None


def kernels_for_steps() -> StepKernels | None:
    """Return the Triton kernels of a training step, None where there is no Triton."""
    if _switch.kernels_on_device() is None:
        return None
    names = ("step_kernels", "convolution_kernels")
    return StepKernels(*(importlib.import_module(f"fediac.native.{n}") for n in names))


@contextmanager
def disabled() -> Iterator[None]:
    """Make every thread run core instead of the kernels inside the block."""
    _switch.count(+1)
    try:
        yield
    finally:
        _switch.count(-1)


def isa() -> str | None:
    """Return the instruction set that the kernels use, None without kernels."""
    kernels = _switch.kernels()
    return None if kernels is None else kernels.isa


def name_kernels(device: str) -> str:
    """Return what works on arrays of a device: an instruction set, triton or none.

    Args:
        device: ``cpu`` or ``cuda``.
    """
    if device == "cuda":
        return "none" if _switch.kernels_on_device() is None else "triton"
    return isa() or "none"
