"""Users' own data on the command line: arrays in an .npz file, images in folders.

What is missing is made up in the same way every time: without a split every fifth
example is for the test, of each client and class alike as far as that goes.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fediac.errors import DatasetError
from fediac.training.datasets.by_writer import read_by_writer
from fediac.training.datasets.file_checks import refuse
from fediac.training.datasets.npz import Arrays, read_arrays
from fediac.training.datasets.types import Dataset, Examples, make_dataset

_TEST_EVERY = 5
"""Without a split, one of so many examples is for the test."""

_CHANNELS = (1, 3, 4)

_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")

_SPLITS = {"train": 0, "test": 1}


def read_npz(path: Path, name: str) -> Dataset:
    """Return the data set in an .npz file, with the name given.

    It has ``x`` (n, ...) and ``y`` (n,), and may have ``client`` (n,), whose each
    example is, and ``split`` (n,): 0 or "train", 1 or "test". Classes and clients are
    whole numbers or strings. Bytes of three or four dimensions are images, (n, height,
    width) with channels before or behind; all else are numbers, which the model gets as
    float32, or as int64 where they are whole. The layout of `read_by_writer` is read
    too.

    Raises:
        DatasetError: The file is missing, damaged or holds something else.
    """
    arrays = read_arrays(path, _choose)
    if not arrays:  # no x: the other layout, or what it says is missing
        return read_by_writer(path, name)
    if "x" not in arrays or "y" not in arrays:
        raise refuse(path, "arrays x and y", ", ".join(arrays))
    inputs = _read_inputs(arrays["x"], path)
    n_examples = len(inputs)
    if arrays["y"].dtype.kind == "f":
        raise refuse(
            path,
            "y as whole numbers or strings, a class each (for regression there is "
            "fediac.Experiment with a loss)",
            f"{arrays['y'].dtype}",
        )
    labels, n_classes = _read_labels(_column(arrays, "y", n_examples, path), path)
    clients = None
    if "client" in arrays:
        found = _column(arrays, "client", n_examples, path)
        clients = np.unique(found, return_inverse=True)[1].astype(np.int32)
    is_test = _read_split(arrays, labels, clients, path)
    parts = [
        Examples(
            np.ascontiguousarray(inputs[rows]),
            labels[rows],
            None if clients is None else clients[rows],
        )
        for rows in (np.flatnonzero(~is_test), np.flatnonzero(is_test))
    ]
    return _finish(path, name, parts, n_classes)


def read_image_folder(path: Path, name: str) -> Dataset:
    """Return the images in a folder with one folder for each class.

    There may be a ``train`` and a ``test`` folder above those of the classes. All
    images have one size; they have one channel if all of them are grey, else three.

    Raises:
        DatasetError: Pillow is missing, or images are not as they should be.
    """
    if find_spec("PIL") is None:
        raise DatasetError(f"{path}: images need Pillow: pip install pillow")
    folders = {each.name: each for each in _subfolders(path)}
    is_apart = set(folders) == set(_SPLITS)
    roots = [folders[split] for split in _SPLITS] if is_apart else [path]
    classes = sorted({each.name for root in roots for each in _subfolders(root)})
    if len(classes) < 2:
        raise refuse(path, "a folder for each of two classes or more", f"{classes}")
    files = [
        (file, label, split)
        for split, root in enumerate(roots)
        for label, each in enumerate(classes)
        for file in _list_images(root / each)
    ]
    if not files:
        raise refuse(path, f"images ({', '.join(_SUFFIXES)})", "none")
    images = _stack([file for file, _, _ in files])
    labels = np.array([label for _, label, _ in files], dtype=np.int64)
    is_test = np.array([split == 1 for _, _, split in files])
    if not is_apart:
        is_test = _make_split(labels, None)
    parts = [
        Examples(np.ascontiguousarray(images[rows]), labels[rows])
        for rows in (np.flatnonzero(~is_test), np.flatnonzero(is_test))
    ]
    return _finish(path, name, parts, len(classes))


def _choose(names: Sequence[str]) -> list[str]:
    if not {"x", "y"} & set(names):
        return []
    return [each for each in ("x", "y", "client", "split") if each in names]


def _column(arrays: Arrays, key: str, length: int, path: Path) -> NDArray[Any]:
    """Return whole numbers or strings, one an example."""
    array = arrays[key]
    if array.dtype.kind not in "iubUS" or array.shape != (length,):
        raise refuse(
            path,
            f"{key} as whole numbers or strings ({length},)",
            f"{array.dtype} {array.shape}",
        )
    return array


def _read_inputs(array: NDArray[Any], path: Path) -> NDArray[Any]:
    """Return images as bytes with channels first, other inputs as floats or int64."""
    if array.ndim < 2 or array.dtype.kind not in "fiub" or not array.size:
        raise refuse(
            path, "x as numbers (n, ...), at least one", f"{array.dtype} {array.shape}"
        )
    if array.dtype == np.uint8 and array.ndim in (3, 4):
        if array.ndim == 3:
            return array[:, None]
        is_last = array.shape[1] not in _CHANNELS and array.shape[3] in _CHANNELS
        return np.moveaxis(array, 3, 1) if is_last else array
    if array.dtype.kind in "iu" and array.dtype != np.uint8:
        return array.astype(np.int64)
    with np.errstate(over="ignore"):
        inputs = array.astype(np.float32)
    if not np.isfinite(inputs).all():
        first = int(np.argwhere(~np.isfinite(inputs))[0][0])
        raise refuse(
            path, "x that is finite in float32", f"NaN or infinity at example {first}"
        )
    return inputs


def _read_labels(array: NDArray[Any], path: Path) -> tuple[NDArray[np.int64], int]:
    """Return classes from 0, and how many there are; strings in their order."""
    if array.dtype.kind in "US":
        names, labels = np.unique(array, return_inverse=True)
        return labels.astype(np.int64), len(names)
    if array.min() < 0:
        raise refuse(path, "y from 0", f"{array.min()}")
    return array.astype(np.int64), int(array.max()) + 1


def _read_split(
    arrays: Arrays,
    labels: NDArray[np.int64],
    clients: NDArray[np.int32] | None,
    path: Path,
) -> NDArray[np.bool_]:
    """Return which examples are for the test."""
    if "split" not in arrays:
        return _make_split(labels, clients)
    split = _column(arrays, "split", len(labels), path)
    for example, each in enumerate(split.tolist()):
        word = each.decode(errors="replace") if isinstance(each, bytes) else each
        if word not in _SPLITS and word not in _SPLITS.values():
            raise refuse(
                path, 'split of 0 or "train" and 1 or "test"', f"{word!r} at {example}"
            )
    if split.dtype.kind in "US":
        return np.asarray(split.astype(str) == "test")
    return np.asarray(split == 1)


def _make_split(
    labels: NDArray[np.int64], clients: NDArray[np.int32] | None
) -> NDArray[np.bool_]:
    """Return every fifth example, counted along clients, and classes of each."""
    order = np.lexsort((labels, np.zeros_like(labels) if clients is None else clients))
    is_test = np.zeros(len(labels), dtype=np.bool_)
    is_test[order[_TEST_EVERY - 1 :: _TEST_EVERY]] = True
    return is_test


def _finish(
    path: Path, name: str, parts: Sequence[Examples], n_classes: int
) -> Dataset:
    train, test = parts
    for part, which in ((train, "training"), (test, "test")):
        if not len(part):
            raise refuse(path, f"{which} examples", "none")
    if train.images.dtype == np.uint8:
        return make_dataset(name, train, test, n_classes=n_classes)
    return Dataset(name, train, test, n_classes, (0.0,), (1.0,))


def _subfolders(path: Path) -> list[Path]:
    return sorted(
        each for each in path.iterdir() if each.is_dir() and each.name[0] != "."
    )


def _list_images(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(
        each
        for each in folder.iterdir()
        if each.suffix.lower() in _SUFFIXES and each.name[0] != "."
    )


def _stack(files: Sequence[Path]) -> NDArray[np.uint8]:
    """Return all images as (n, channels, height, width)."""
    pixels = [_read_image(file) for file in files]
    is_grey = all(each.ndim == 2 for each in pixels)
    size = pixels[0].shape[:2]
    for file, each in zip(files, pixels, strict=True):
        if each.shape[:2] != size:
            raise refuse(
                file,
                f"{size[0]} x {size[1]} pixels as {files[0].name}",
                f"{each.shape[0]} x {each.shape[1]}",
            )
    if is_grey:
        return np.stack(pixels)[:, None]
    colored = [
        each if each.ndim == 3 else np.repeat(each[:, :, None], 3, axis=2)
        for each in pixels
    ]
    return np.moveaxis(np.stack(colored), 3, 1)


def _read_image(file: Path) -> NDArray[np.uint8]:
    """Return (height, width) of a grey image, (height, width, 3) of another."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(file) as image:
            is_grey = image.mode in ("1", "L", "LA")
            return np.asarray(image.convert("L" if is_grey else "RGB"), dtype=np.uint8)
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise refuse(file, "an image", type(error).__name__) from error
