"""Updates from .npy files, checked before they are used."""

import tokenize
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from fediac.errors import UpdateError, say_count, say_reason

_DTYPES = (np.dtype(np.float32), np.dtype(np.float64))

# What a damaged header can make NumPy's parser raise.
_PARSE_ERRORS = (
    ValueError,
    SyntaxError,
    TypeError,
    MemoryError,
    RecursionError,
    tokenize.TokenError,
)


def open_updates(path: Path) -> NDArray[Any]:
    """Return a file's updates as (n_updates, dim), mapped, not read.

    The file holds one update of shape (dim,) or several of shape (n_updates, dim),
    float32 or float64. Nothing in it is ever executed: pickled objects are refused.

    Raises:
        UpdateError: The file is missing, damaged or holds something else.
    """
    try:
        with path.open("rb") as file:
            shape, dtype = _read_header(file, path)
        _check_header(shape, dtype, path)
        with warnings.catch_warnings(action="ignore"):  # as in _read_header
            values = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise UpdateError(f"{path}: {say_reason(error)}") from error
    except (ValueError, OverflowError) as error:
        if isinstance(error, UpdateError):
            raise
        raise UpdateError(
            f"{path}: file is cut short, its header promises {_in_words(shape)}"
        ) from error
    return np.asarray(values).reshape(-1, shape[-1])


def each_update(paths: Sequence[Path]) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield every update of every file, with its name for errors.

    Raises:
        UpdateError: A file is unusable, or its updates are of another length.
    """
    dim = None
    for path in paths:
        updates = open_updates(path)
        if dim is None:
            dim = updates.shape[1]
        if updates.shape[1] != dim:
            entries = say_count(updates.shape[1], "entry", "entries")
            raise UpdateError(
                f"{path} has {entries} per update but {paths[0]} has {dim}"
            )
        for row, update in enumerate(updates):
            yield f"{path}: update {row}", np.ascontiguousarray(update)


def _read_header(file: BinaryIO, path: Path) -> tuple[tuple[int, ...], np.dtype[Any]]:
    try:
        version = npy.read_magic(file)
        read = (
            npy.read_array_header_1_0
            if version == (1, 0)
            else npy.read_array_header_2_0
        )
        # NumPy warns of headers that Python 2 wrote; it reads them all the same.
        with warnings.catch_warnings(action="ignore"):
            shape, _, dtype = read(file)
    except _PARSE_ERRORS as error:
        raise UpdateError(f"{path}: not a .npy file, or damaged") from error
    return shape, dtype


def _check_header(shape: tuple[int, ...], dtype: np.dtype[Any], path: Path) -> None:
    if dtype not in _DTYPES:
        raise UpdateError(f"{path}: dtype must be float32 or float64, got {dtype}")
    if len(shape) not in (1, 2) or min(shape) < 1:
        raise UpdateError(
            f"{path}: shape must be (dim,) or (n_updates, dim), none of them zero, "
            f"got {shape}"
        )


def _in_words(shape: tuple[int, ...]) -> str:
    return " x ".join(f"{length}" for length in shape) + " entries"
