"""Arrays of an .npz file; nothing in it is ever executed."""

import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from fediac.errors import DatasetError
from fediac.training.datasets.file_checks import refuse, unreadable

Arrays = dict[str, NDArray[Any]]

# What a damaged archive, member or header can make NumPy and zipfile raise. A pickled
# array is a ValueError.
_DAMAGE = (
    ValueError,
    EOFError,
    KeyError,
    SyntaxError,
    TypeError,
    MemoryError,
    RuntimeError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


def read_arrays(path: Path, choose: Callable[[Sequence[str]], Iterable[str]]) -> Arrays:
    """Return arrays of a file by their names.

    Args:
        path: The file.
        choose: Names of all arrays -> those to read.

    Raises:
        DatasetError: The file is missing, damaged or holds something else.
    """
    try:
        with path.open("rb") as file, _open_archive(file, path) as archive:
            names = choose(tuple(archive.files))
            return {name: _member(archive, name, path) for name in names}
    except OSError as error:
        raise unreadable(path, error) from error


def _open_archive(file: BinaryIO, path: Path) -> NpzFile:
    try:
        archive = np.load(file, allow_pickle=False)
    except _DAMAGE as error:
        found = f"{path.stat().st_size:,} bytes that are none"
        raise refuse(path, "a whole .npz file", found) from error
    if not isinstance(archive, NpzFile):
        raise refuse(path, "a .npz file", "a single array")
    return archive


def _member(archive: NpzFile, name: str, path: Path) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.asarray(archive[name])
    except _DAMAGE as error:
        raise DatasetError(
            f"{path}: array {name!r} is damaged or holds pickled objects, "
            "which are never loaded"
        ) from error
    return array
