"""Arrays of any library -> NumPy for packets, and answers back to what was given."""

from typing import Any

import numpy as np
import numpy.typing as npt
from array_api_compat import array_namespace, device

from fediac.core.types import Array

Bytes = npt.NDArray[np.uint8]


def as_bytes(packed: Array) -> Bytes:
    """Return packed bytes as a NumPy array without gaps."""
    return np.ascontiguousarray(np.asarray(packed, dtype=np.uint8))


def as_int64(values: Array) -> npt.NDArray[np.int64]:
    """Return whole numbers as a NumPy array of 64 bits each."""
    return np.asarray(values, dtype=np.int64)


def as_int32(values: Array) -> npt.NDArray[np.int32]:
    """Return whole numbers as a NumPy array of 32 bits each."""
    return np.asarray(values, dtype=np.int32)


def as_kind(values: npt.NDArray[Any], like: Array) -> Array:
    """Return ``values`` as the kind of array that ``like`` is, without a copy.

    Where it is, too: PyTorch may have been told to make tensors elsewhere.
    """
    return array_namespace(like).asarray(values, device=device(like))


def float_bits(peak: float) -> int:
    """Return the bit pattern of a float32, which orders like the float itself."""
    return int(np.float32(peak).view(np.uint32))


def bits_float(bits: int) -> float:
    """Return the float32 with this bit pattern."""
    return float(np.uint32(bits).view(np.float32))
