"""Whether two vectors are the same bits, and where they are not."""

from typing import Any

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[Any]


def say_difference(what: str, got: Any, expected: Any) -> str | None:  # noqa: ANN401
    """Return how a vector differs from the one in memory; None: they are the same bits.

    Args:
        what: What it is, and whose.
        got: What came over the network; None: nothing, such as no residual.
        expected: What the round in memory gave.
    """
    if got is None or expected is None:
        if got is expected:
            return None
        have = ("nothing", "something")
        return (
            f"{what}: {have[got is not None]} instead of {have[expected is not None]}"
        )
    a, b = np.asarray(got), np.asarray(expected)
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return f"{what}: {a.dtype} of {a.shape} instead of {b.dtype} of {b.shape}"
    differ = np.flatnonzero(_bits(a) != _bits(b))
    if not differ.size:
        return None
    first = int(differ[0])
    return (
        f"{what}: {differ.size:,} of {a.size:,} entries differ, the first one is "
        f"{first}: {a[first]!r} instead of {b[first]!r}"
    )


def _bits(values: Vector) -> Vector:
    """Return values as whole numbers: -0.0 is not 0.0, and NaN is NaN."""
    kind = np.dtype(f"u{values.dtype.itemsize}")
    return np.ascontiguousarray(values).view(kind)
