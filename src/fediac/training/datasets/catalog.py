"""Name -> dataset: a plain table, and users' own files."""

import os
from collections.abc import Callable
from pathlib import Path

from fediac.errors import ConfigError, DatasetError, hint_name
from fediac.training.datasets.by_writer import read_by_writer
from fediac.training.datasets.cifar import CIFAR10, CIFAR100, read_cifar
from fediac.training.datasets.leaf import read_leaf
from fediac.training.datasets.own_file import read_image_folder, read_npz
from fediac.training.datasets.types import Dataset

DIGITS_FILE = Path(__file__).with_name("digits.npz")
"""The embedded set; `digits.md` beside it says where it is from."""

FOLDER_VARIABLE = "FEDIAC_DATA"

# Data folder, may download -> dataset.
_READERS: dict[str, Callable[[Path, bool], Dataset]] = {
    "digits": lambda _folder, _online: read_by_writer(DIGITS_FILE, "digits"),
    "cifar10": lambda folder, online: read_cifar(CIFAR10, folder, may_download=online),
    "cifar100": lambda folder, online: read_cifar(
        CIFAR100, folder, may_download=online
    ),
    "femnist": lambda folder, _online: read_leaf(folder / "femnist", "femnist"),
}

_ENDINGS = ("_by_writer.npz", ".npz")


def load_dataset(
    name: str, folder: Path | None = None, *, download: bool = False
) -> Dataset:
    """Return a dataset by its name.

    ``digits`` is inside the package; ``cifar10``, ``cifar100`` and ``femnist`` are read
    from the data folder in their publishers' layouts. Your own data are the path of an
    .npz file (see `read_npz`) or of a folder of images (see `read_image_folder`), as
    ``data/mine.npz``, ``./mine.npz`` or ``photos/``; or a plain name, which is that of
    a file in the data folder, ``<name>_by_writer.npz`` or ``<name>.npz``, or else of a
    folder here.

    Args:
        name: What to load.
        folder: The data folder; without it, ``$FEDIAC_DATA``, or ``~/.cache/fediac``.
        download: Fetch CIFAR's official archive if its files are missing.

    Raises:
        ConfigError: The name is unknown; the message names the nearest.
        DatasetError: A file is missing, damaged or holds something else.
    """
    where = find_folder(folder)
    if name in _READERS:
        return _READERS[name](where, download)
    paths = [where / f"{name}{ending}" for ending in _ENDINGS]
    for path in paths:
        if path.is_file():
            return read_npz(path, name)
    own = _find_own(name, folder) or _find_plain(name)
    if own is not None:
        called = own.resolve().stem if own.is_file() else own.resolve().name
        return (read_npz if own.is_file() else read_image_folder)(own, called)
    names = [*_READERS, *_own_names(where)]
    raise ConfigError(
        f"unknown dataset {name!r}{hint_name(name, names)} "
        f"(no {paths[0].name} or {paths[1].name} in {where})"
    )


def find_folder(folder: Path | None) -> Path:
    """Return the data folder: the given one, ``$FEDIAC_DATA`` or the user's cache."""
    if folder is not None:
        return folder.expanduser()
    variable = os.environ.get(FOLDER_VARIABLE)
    return Path(variable or Path("~", ".cache", "fediac")).expanduser()


def _find_own(name: str, folder: Path | None) -> Path | None:
    """Return the file or folder that a path means; None where it is a plain name.

    Raises:
        DatasetError: It is a path, and nothing is there.
    """
    if not name.endswith((".npz", "/", os.sep)) and not {"/", os.sep} & set(name):
        return None
    path = Path(name).expanduser()
    places = [path] if folder is None else [path, find_folder(folder) / path]
    for place in places:
        if place.exists():
            return place
    raise DatasetError(f"{path}: no such file or folder")


def _find_plain(name: str) -> Path | None:
    """Return the folder here that has a plain name; one has folders for its classes."""
    path = Path(name)
    if not name or not path.is_dir():
        return None
    return path if any(each.is_dir() for each in path.iterdir()) else None


def _own_names(folder: Path) -> list[str]:
    """Return the names of the .npz files in the data folder."""
    files = sorted(path.name for path in folder.glob("*.npz"))
    return [file.removesuffix(".npz").removesuffix("_by_writer") for file in files]
