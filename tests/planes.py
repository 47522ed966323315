"""The two data planes of the switch, one of which a bare machine may lack."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from fediac import native
from fediac.native import library

PLANES = ("core", "native")


def require_native() -> None:
    """Skip the test where the kernels are not built, or fail if they must be."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        is_missing = native.kernels_for(np.zeros(1, dtype=np.uint8)) is None
    if is_missing and "native" in os.environ.get("FEDIAC_REQUIRE", "").split(","):
        pytest.fail("FEDIAC_REQUIRE names native, but the C kernels are not built")
    if is_missing:
        pytest.skip("native: the C kernels are not built")


@contextmanager
def instruction_set(name: str) -> Iterator[None]:
    """Let the kernels use no more than ``name``; skip where the machine lacks it."""
    require_native()
    with library.isa_capped_at(name) as used:
        if used != name:
            pytest.skip(f"this machine has no {name}")
        yield


@contextmanager
def data_plane(name: str) -> Iterator[None]:
    """Let switches process packets in Python (core) or in C (native)."""
    if name == "native":
        require_native()
        yield
    else:
        with native.disabled():
            yield
