"""What several test folders share: kinds of arrays, streams, plain comparisons."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fediac.core.rng import Stream

Make = Callable[[NDArray[Any]], Any]

KINDS: dict[str, Make] = {"numpy": np.array, "torch": torch.tensor}
"""Kind of array -> what makes one of it, always a copy."""


def to_numpy(array: Any) -> NDArray[Any]:
    on_host = array.cpu() if isinstance(array, torch.Tensor) else array
    return np.asarray(on_host)


def kind_of(array: Any) -> str:
    return "torch" if isinstance(array, torch.Tensor) else "numpy"


def bytes_of(array: Any) -> bytes:
    return to_numpy(array).tobytes()


def stream(
    purpose: str = "test", *, seed: int = 7, round_number: int = 3, client: int = 2
) -> Stream:
    return Stream(seed, round_number, client).purpose(purpose)


def normal_update(dim: int, dtype: Any = np.float32, *, seed: int = 0) -> NDArray[Any]:
    """A vector of normal magnitudes whose sizes span a few powers of two."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(dim) * np.exp2(rng.integers(-6, 3, dim))
    return values.astype(dtype)


def refuses(text: str, error: type[Exception] = ValueError) -> Any:
    """Expect an error whose whole text is ``text``."""
    return pytest.raises(error, match=f"^{re.escape(text)}$")
