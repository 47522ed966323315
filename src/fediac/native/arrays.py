"""Which arrays the kernels can work on, and how C sees them: in place, never copied."""

from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_torch_array
from numpy.typing import NDArray

Array = Any
View = NDArray[Any]

MAX_ENTRIES = 1 << 32
"""Kernels number entries in 32 bits; longer arrays are left to core."""

_DTYPES = (np.float32, np.uint8)
_LANE_DTYPES = (np.int64, np.int32)


def all_fit(arrays: tuple[Array, ...]) -> bool:
    """Return whether C can take all of ``arrays`` as values and packed bits.

    They must be of one kind: NumPy arrays or CPU tensors, float32 or uint8, with
    nothing between their entries. None stands for an array that is not there.
    """
    present = [array for array in arrays if array is not None]
    if not present:
        return False
    if isinstance(present[0], np.ndarray):
        return all(_fits(array, _DTYPES) for array in present)
    return all(is_torch_array(array) and _tensor_fits(array) for array in present)


def all_fit_on_device(arrays: tuple[Array, ...]) -> bool:
    """Return whether Triton can take all of ``arrays``: the same, as CUDA tensors."""
    present = [array for array in arrays if array is not None]
    return bool(present) and all(
        is_torch_array(array) and _tensor_fits(array, "cuda") for array in present
    )


def lanes_fit_on_device(lanes: Array) -> bool:
    """Return whether Triton can pack ``lanes``: a CUDA tensor of int64."""
    return bool(
        is_torch_array(lanes)
        and lanes.device.type == "cuda"
        and lanes.dtype == array_namespace(lanes).int64
        and lanes.ndim == 1
        and lanes.is_contiguous()
    )


def lanes_fit(lanes: Array) -> bool:
    """Return whether C can pack ``lanes``: a NumPy array of int64 or int32."""
    return _fits(lanes, _LANE_DTYPES)


def _fits(array: Array, dtypes: tuple[Any, ...]) -> bool:
    return (
        isinstance(array, np.ndarray)
        and array.dtype in dtypes
        and array.ndim == 1
        and array.flags.c_contiguous
        and array.flags.aligned
        and array.size < MAX_ENTRIES
    )


def _tensor_fits(tensor: Array, kind: str = "cpu") -> bool:
    xp = array_namespace(tensor)
    return bool(
        tensor.device.type == kind
        and tensor.dtype in (xp.float32, xp.uint8)
        and tensor.layout == xp.strided
        and tensor.ndim == 1
        and tensor.is_contiguous()
        and tensor.shape[0] < MAX_ENTRIES
    )


def view(array: Array) -> View:
    """Return the NumPy array itself, or a NumPy array of the tensor's memory."""
    if isinstance(array, np.ndarray):
        return array
    seen: View = array.detach().numpy()
    return seen


def floats(array: Array, name: str, n_entries: int | None = None) -> View:
    """Return the view of float32 entries, as many as there must be."""
    return _checked(view(array), name, "float32", n_entries)


def packed(array: Array, name: str, n_bytes: int | None = None) -> View:
    """Return the view of packed bytes, as many as there must be."""
    return _checked(view(array), name, "uint8", n_bytes)


def writable(seen: View, name: str) -> View:
    """Return the view, which C is going to write to."""
    if not seen.flags.writeable:
        raise ValueError(f"{name} must be writable, got a read-only array")
    return seen


def _checked(seen: View, name: str, dtype: str, n_entries: int | None) -> View:
    if seen.dtype != dtype:
        raise TypeError(f"{name} must be {dtype}, got {seen.dtype}")
    if n_entries is not None and seen.size != n_entries:
        raise ValueError(f"{name} must have {n_entries} entries, got {seen.size}")
    return seen


def empty_like(array: Array, n_entries: int, dtype: str) -> Array:
    """Return a new array of the same kind as ``array``; ``dtype`` by its name."""
    if isinstance(array, np.ndarray):
        return np.empty(n_entries, dtype=dtype)
    xp = array_namespace(array)
    return xp.empty(n_entries, dtype=getattr(xp, dtype), device=device(array))
