"""FEMNIST in LEAF's JSON layout (Caldas et al., "LEAF", 2018).

``femnist/train/*.json`` and ``femnist/test/*.json`` each hold ``users``,
``num_samples`` and ``user_data``: for every user ``x``, images of 784 floats in 0..1,
and ``y``, labels in 0..61 (digits, capitals, small letters). LEAF's images are dark on
white, 1.0 being white; that is kept, so a pixel here is ``round(255 * x)``.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fediac.errors import DatasetError, say_count
from fediac.training.datasets.file_checks import check_labels, refuse, unreadable
from fediac.training.datasets.types import Dataset, Examples, make_dataset

N_CLASSES = 62
_SIDE = 28
_KEYS = {"users": list, "num_samples": list, "user_data": dict}
_N_REMEMBERED = 4096

Part = list[tuple[str, Examples]]


class _Floats(dict[str, float]):
    """Text of a number -> one float object, made when it is first seen.

    LEAF's pixels have 256 values, so the lists of a whole file share 256 floats; a
    file then takes 8 bytes a pixel for a moment, not 32.
    """

    def __missing__(self, text: str) -> float:
        value = float(text)
        if len(self) < _N_REMEMBERED:
            self[text] = value
        return value


def read_leaf(folder: Path, name: str) -> Dataset:
    """Return the dataset in ``folder``'s ``train`` and ``test``, a file at a time.

    Files are read in the order of their names and users in the order of their file.
    Writers are numbered in the order of all users' names, over both parts.

    Raises:
        DatasetError: A file is missing, damaged or holds something else.
    """
    train, test = (_read_part(folder / part) for part in ("train", "test"))
    users = sorted({user for user, _ in (*train, *test)})
    numbers = {user: number for number, user in enumerate(users)}
    return make_dataset(
        name, _join(train, numbers), _join(test, numbers), n_classes=N_CLASSES
    )


def _read_part(folder: Path) -> Part:
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise DatasetError(
            f"{folder}: no .json files; make them with LEAF's femnist scripts"
        )
    part = [pair for path in paths for pair in _read_file(path)]
    if not part:
        raise refuse(folder, "users with examples", "none")
    return part


def _join(part: Part, numbers: dict[str, int]) -> Examples:
    sizes = [len(examples) for _, examples in part]
    writers = np.repeat([numbers[user] for user, _ in part], sizes)
    return Examples(
        np.concatenate([examples.images for _, examples in part]),
        np.concatenate([examples.labels for _, examples in part]),
        writers.astype(np.int32),
    )


def _read_file(path: Path) -> Part:
    """Return the users in a file that have examples, each with its own."""
    document = _parse(path)
    for key, kind in _KEYS.items():
        value = document.get(key)
        if not isinstance(value, kind):
            found = "nothing" if value is None else f"a {type(value).__name__}"
            raise refuse(path, f"{key} as a {kind.__name__}", found)
    users, counts, data = (document[key] for key in _KEYS)
    if len(users) != len(counts):
        raise refuse(path, f"{len(users)} num_samples, one per user", f"{len(counts)}")
    return [
        (str(user), _read_user(data, user, count, path))
        for user, count in zip(users, counts, strict=True)
        if count != 0
    ]


def _parse(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        document = json.loads(text, parse_float=_Floats().__getitem__)
    except OSError as error:
        raise unreadable(path, error) from error
    except json.JSONDecodeError as error:
        found = f"an error at character {error.pos:,} of {len(text):,}"
        raise refuse(path, "a whole JSON document", found) from error
    except (ValueError, RecursionError) as error:
        raise refuse(path, "a JSON document", "something else") from error
    if not isinstance(document, dict):
        raise refuse(path, f"a dict of {', '.join(_KEYS)}", type(document).__name__)
    return document


def _read_user(data: dict[str, Any], user: str, count: int, path: Path) -> Examples:
    try:
        x, y = data[user]["x"], data[user]["y"]
        n_images, n_labels = len(x), len(y)
        images, labels = np.array(x, dtype=np.float64), np.array(y)
    except (KeyError, TypeError, ValueError) as error:
        expected = f"numbers x and y of user {user!r}"
        raise refuse(path, expected, "something else") from error
    if not n_images == n_labels == count:
        raise refuse(
            path,
            f"{say_count(count, 'example')} of user {user!r}",
            f"{say_count(n_images, 'image')} and {say_count(n_labels, 'label')}",
        )
    _check_images(images, user, path)
    if labels.dtype.kind not in "iu" or labels.ndim != 1:
        found = f"{labels.dtype} {labels.shape}"
        raise refuse(path, f"integer labels of user {user!r}", found)
    check_labels(labels, N_CLASSES, path, what=f"labels of user {user!r}")
    pixels = np.rint(images * 255.0).astype(np.uint8)
    return Examples(pixels.reshape(-1, 1, _SIDE, _SIDE), labels.astype(np.int64))


def _check_images(images: NDArray[np.float64], user: str, path: Path) -> None:
    if images.shape[1:] != (_SIDE**2,):
        expected = f"images of {_SIDE**2} pixels of user {user!r}"
        raise refuse(path, expected, f"shape {images.shape[1:]}")
    inside = (images >= 0.0) & (images <= 1.0)
    if not np.all(inside):
        found = f"{images[~inside][0]:g}"
        raise refuse(path, f"pixels in 0..1 of user {user!r}", found)
