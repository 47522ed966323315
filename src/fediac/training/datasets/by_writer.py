"""Users' own data, by writer, from one .npz file; nothing in it is ever executed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fediac.training.datasets.file_checks import check_labels, refuse
from fediac.training.datasets.npz import read_arrays
from fediac.training.datasets.types import Dataset, Examples, make_dataset

Arrays = dict[str, NDArray[Any]]

_JOINED = ("images", "labels", "writer", "split")
_APART = ("x_train", "y_train", "w_train", "x_test", "y_test", "w_test")


def read_by_writer(path: Path, name: str) -> Dataset:
    """Return the dataset in a .npz file, with the name given.

    The file holds ``images`` uint8 (n, height, width) or (n, channels, height, width),
    integers ``labels`` (n,), ``writer`` (n,) and ``split`` (n,; 0 train, 1 test); or
    the two parts apart, as ``x_train``, ``y_train``, ``w_train`` and the same with
    ``_test``. An optional ``class_names`` says how many classes there are; without it
    the largest label does.

    Raises:
        DatasetError: The file is missing, damaged or holds something else.
    """
    arrays = _read_arrays(path)
    if "images" in arrays:
        parts = _divide(arrays, path)
    else:
        parts = [
            _examples(arrays, ("x" + end, "y" + end, "w" + end), path)
            for end in ("_train", "_test")
        ]
    train, test = parts
    if train.images.shape[1:] != test.images.shape[1:]:
        raise refuse(
            path,
            f"test images of shape {train.images.shape[1:]}",
            f"{test.images.shape[1:]}",
        )
    for part, which in ((train, "training"), (test, "test")):
        if len(part) == 0:
            raise refuse(path, f"{which} examples", "none")
    n_classes = _count_classes(arrays, train, test)
    for part in parts:
        check_labels(part.labels, n_classes, path)
    return make_dataset(name, train, test, n_classes=n_classes)


def _read_arrays(path: Path) -> Arrays:
    """Return the arrays of the file's layout, and ``class_names`` if it has them."""

    def choose(names: Sequence[str]) -> list[str]:
        layout = _APART if "x_train" in names else _JOINED
        if not set(layout) <= set(names):
            raise refuse(
                path, f"arrays {', '.join(layout)}", ", ".join(names) or "none"
            )
        return [*layout, *(name for name in ("class_names",) if name in names)]

    return read_arrays(path, choose)


def _divide(arrays: Arrays, path: Path) -> list[Examples]:
    """Return the training and the test examples of a file that marks them by split."""
    joined = _examples(arrays, ("images", "labels", "writer"), path)
    split = _integers(arrays, "split", len(joined), path)
    check_labels(split, 2, path, what="split")
    parts = []
    for number in (0, 1):
        rows = np.flatnonzero(split == number)
        writers = None if joined.writers is None else joined.writers[rows]
        parts.append(Examples(joined.images[rows], joined.labels[rows], writers))
    return parts


def _examples(arrays: Arrays, names: tuple[str, str, str], path: Path) -> Examples:
    """Return the arrays with these names as examples, checked."""
    images = arrays[names[0]]
    if images.dtype != np.uint8 or images.ndim not in (3, 4):
        raise refuse(
            path,
            f"{names[0]} as uint8 (n, height, width) or (n, channels, height, width)",
            f"{images.dtype} {images.shape}",
        )
    if not images.size:
        raise refuse(path, f"{names[0]} with at least one pixel", f"{images.shape}")
    if images.ndim == 3:
        images = images[:, None]
    labels = _integers(arrays, names[1], len(images), path).astype(np.int64)
    writers = _integers(arrays, names[2], len(images), path)
    narrow = writers.astype(np.int32)
    if np.any(narrow != writers):
        number = writers[narrow != writers][0]
        raise refuse(path, f"{names[2]} that fit signed 32 bits", str(number))
    return Examples(np.ascontiguousarray(images), labels, narrow)


def _integers(arrays: Arrays, name: str, length: int, path: Path) -> NDArray[Any]:
    array = arrays[name]
    if array.dtype.kind not in "iu" or array.shape != (length,):
        raise refuse(
            path, f"{name} as integers ({length},)", f"{array.dtype} {array.shape}"
        )
    return array


def _count_classes(arrays: Arrays, train: Examples, test: Examples) -> int:
    if "class_names" in arrays:
        return int(arrays["class_names"].size)
    return 1 + max(int(np.max(train.labels)), int(np.max(test.labels)))
