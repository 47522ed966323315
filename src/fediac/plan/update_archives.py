"""Updates from .npz archives and from files of PyTorch; nothing in them is executed."""

import pickle
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from fediac.errors import UpdateError, say_reason
from fediac.transports.forms import find_form

_DTYPES = (np.dtype(np.float32), np.dtype(np.float64))

# What a damaged file can make the libraries raise.
_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, pickle.UnpicklingError),
    *(EOFError, KeyError, RuntimeError, TypeError, ValueError),
)


def check_updates(shape: tuple[int, ...], dtype: np.dtype[Any], name: object) -> None:
    """Refuse arrays that are neither an update nor one a row."""
    if dtype not in _DTYPES:
        raise UpdateError(f"{name}: dtype must be float32 or float64, got {dtype}")
    if len(shape) not in (1, 2) or min(shape) < 1:
        raise UpdateError(
            f"{name}: shape must be (dim,) or (n_updates, dim), none of them zero, "
            f"got {shape}"
        )


def open_archive(path: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield every array of an .npz file as (n_updates, dim), with its name.

    Raises:
        UpdateError: The file is missing, damaged or holds something else.
    """
    with _opened(path) as file:
        try:
            with np.load(file, allow_pickle=False) as archive:
                found = {name: archive[name] for name in archive.files}
        except (OSError, *_DAMAGED) as error:
            raise UpdateError(f"{path}: not an .npz file, or damaged") from error
    if not found:
        raise UpdateError(f"{path}: must hold at least one array, got none")
    for name, values in found.items():
        where = f"{path}: {name}"
        check_updates(values.shape, values.dtype, where)
        yield where, values.reshape(-1, values.shape[-1])


def open_tensors(path: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the updates in a file that ``torch.save`` wrote, with its name.

    It holds a tensor of shape (dim,) or (n_updates, dim); or a state_dict or a list of
    tensors, which is one update; or a list or dict of any of these. Running statistics
    and whole numbers are left out, as `fediac.aggregate` does.

    Raises:
        UpdateError: The file is missing, damaged or holds something else.
    """
    if find_spec("torch") is None:
        raise UpdateError(f"{path}: needs PyTorch: pip install 'fediac[train]'")
    import torch  # slow, and needed for nothing else here

    with _opened(path) as file:
        try:
            found = torch.load(file, map_location="cpu", weights_only=True)
        except (OSError, *_DAMAGED) as error:  # a file cut short is no zip to seek in
            raise UpdateError(
                f"{path}: not a file of tensors alone that torch.save wrote, or damaged"
            ) from error
    for each in _list_updates(found):
        yield str(path), _as_rows(each, path)


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise UpdateError(f"{path}: {say_reason(error)}") from error


def _list_updates(found: Any) -> Sequence[Any]:  # noqa: ANN401 - what a file holds
    """Return what is an update each, or a tensor of several."""
    inside = list(found.values()) if isinstance(found, Mapping) else found
    if not isinstance(inside, list | tuple) or not inside:
        return [found]
    if all(isinstance(each, Mapping | list | tuple) for each in inside):
        return inside
    shapes = {tuple(getattr(each, "shape", (0, 0))) for each in inside}
    is_vectors = len(shapes) == 1 and len(shapes.pop()) == 1
    return inside if is_vectors and not isinstance(found, Mapping) else [found]


def _as_rows(given: Any, path: Path) -> NDArray[Any]:  # noqa: ANN401 - what a file holds
    """Return an update, or several, as (n_updates, dim)."""
    try:
        form = find_form([given], None, statistics="leave", buffers=None)
        if form is not None:
            given = form.flatten(form.read(0, given), form.learned)
    except UpdateError as error:
        raise UpdateError(f"{path}: {error}") from error
    if "bfloat16" in str(given.dtype) or "float16" in str(given.dtype):
        given = given.float()
    values = given.detach().numpy()
    check_updates(values.shape, values.dtype, path)
    rows: NDArray[Any] = values.reshape(-1, values.shape[-1])
    return rows
