"""Updates from files and run folders, checked before they are used."""

import tokenize
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from fediac.errors import UpdateError, say_count, say_reason
from fediac.plan.update_archives import check_updates, open_archive, open_tensors

_KEPT = "updates-"
"""How a file of a run's updates begins; the rest is the round."""

# What a damaged header can make NumPy's parser raise.
_PARSE_ERRORS = (
    ValueError,
    SyntaxError,
    TypeError,
    MemoryError,
    RecursionError,
    tokenize.TokenError,
)


def updates_name(round_number: int) -> str:
    """Return the name of the file where a run keeps a round's updates."""
    return f"{_KEPT}{round_number}.npy"


def each_update(paths: Sequence[Path]) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield every update of every file or folder, with its name for errors.

    Raises:
        UpdateError: A file is unusable, or its updates are of another length.
    """
    dim = None
    for path in (each for given in paths for each in _list_files(given)):
        for name, updates in _open(path):
            if dim is None:
                dim = updates.shape[1]
            if updates.shape[1] != dim:
                entries = say_count(updates.shape[1], "entry", "entries")
                raise UpdateError(
                    f"{name} has {entries} per update but {paths[0]} has {dim}"
                )
            for row, update in enumerate(updates):
                yield f"{name}: update {row}", np.ascontiguousarray(update)


def count_clients(paths: Sequence[Path]) -> int | None:
    """Return how many clients a run's folder has updates of; None for files.

    A folder has several rounds of the same clients; files may have anything.
    """
    folders = [path for path in paths if path.is_dir()]
    if len(folders) != 1 or len(paths) != 1:
        return None
    return len(open_updates(_list_files(folders[0])[0]))


def _list_files(path: Path) -> list[Path]:
    """Return the files that a path stands for: itself, or those that a run kept.

    Raises:
        UpdateError: It is a folder without updates.
    """
    if not path.is_dir():
        return [path]
    kept = [
        (each, each.stem.removeprefix(_KEPT)) for each in path.glob(f"{_KEPT}*.npy")
    ]
    rounds = sorted((int(number), each) for each, number in kept if number.isdecimal())
    if not rounds:
        raise UpdateError(
            f"{path}: holds no updates; a run keeps them with --set save.updates=1, an "
            "Experiment with save_updates=1"
        )
    return [each for _, each in rounds]


def _open(path: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the updates of a file as (n_updates, dim), each with its name."""
    if path.suffix == ".npz":
        yield from open_archive(path)
    elif path.suffix in (".pt", ".pth"):
        yield from open_tensors(path)
    else:
        yield str(path), open_updates(path)


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
        check_updates(shape, dtype, path)
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


def _in_words(shape: tuple[int, ...]) -> str:
    return " x ".join(f"{length}" for length in shape) + " entries"
