"""CIFAR-10 and CIFAR-100 from their official binary releases.

A record is one or two label bytes and 3,072 pixels: the red, the green and the blue
plane, row by row (A. Krizhevsky, "Learning Multiple Layers of Features from Tiny
Images", 2009). CIFAR-100 gives the coarse label first, then the fine one, which is
used.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fediac.errors import DatasetError
from fediac.training.datasets.download import Archive, download
from fediac.training.datasets.file_checks import check_labels, refuse, unreadable
from fediac.training.datasets.types import Dataset, Examples, make_dataset

_SHAPE = (3, 32, 32)
_N_PIXELS = 3 * 32 * 32


@dataclass(frozen=True, slots=True)
class Release:
    """One of the two sets, as it is published.

    Attributes:
        train_files: Names of the files to train on, in order.
        n_labels: Label bytes in a record; the last one counts.
    """

    name: str
    archive: Archive
    train_files: tuple[str, ...]
    test_files: tuple[str, ...]
    n_labels: int
    n_classes: int


_BATCHES = tuple(f"data_batch_{number}.bin" for number in range(1, 6))

CIFAR10 = Release(
    name="cifar10",
    archive=Archive(
        url="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        md5="c32a1d4ab5d03f1284b67883e8d87530",
        folder="cifar-10-batches-bin",
        sizes=dict.fromkeys((*_BATCHES, "test_batch.bin"), 10_000 * (1 + _N_PIXELS)),
    ),
    train_files=_BATCHES,
    test_files=("test_batch.bin",),
    n_labels=1,
    n_classes=10,
)

CIFAR100 = Release(
    name="cifar100",
    archive=Archive(
        url="https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
        md5="03b5dce01913d631647c71ecec9e9cb8",
        folder="cifar-100-binary",
        sizes={
            "train.bin": 50_000 * (2 + _N_PIXELS),
            "test.bin": 10_000 * (2 + _N_PIXELS),
        },
    ),
    train_files=("train.bin",),
    test_files=("test.bin",),
    n_labels=2,
    n_classes=100,
)


def read_cifar(release: Release, folder: Path, *, may_download: bool) -> Dataset:
    """Return one of the two sets from the data folder.

    Args:
        release: Which one.
        folder: The data folder; the files are in the release's own folder inside.
        may_download: Fetch the archive if a file is missing.

    Raises:
        DatasetError: A file is missing, of the wrong size or holds impossible labels.
    """
    archive = release.archive
    inside = folder / archive.folder
    missing = [name for name in archive.sizes if not (inside / name).exists()]
    if missing and may_download:
        download(archive, folder)
    elif missing:
        raise DatasetError(
            f"{inside}: {', '.join(missing)} missing; give the data folder that has "
            f"them, unpack {archive.url} in {folder} or allow that (download)"
        )
    train = _read_files(release, inside, release.train_files)
    test = _read_files(release, inside, release.test_files)
    return make_dataset(release.name, train, test, n_classes=release.n_classes)


def _read_files(release: Release, inside: Path, names: tuple[str, ...]) -> Examples:
    """Return the examples of several files, one after the other."""
    n_bytes = release.n_labels + _N_PIXELS
    counts = [release.archive.sizes[name] // n_bytes for name in names]
    images = np.empty((sum(counts), *_SHAPE), dtype=np.uint8)
    labels = np.empty(sum(counts), dtype=np.int64)
    start = 0
    for name, count in zip(names, counts, strict=True):
        records = _read_records(inside / name, count, n_bytes)
        rows = slice(start, start + count)
        images[rows] = records[:, release.n_labels :].reshape(-1, *_SHAPE)
        labels[rows] = records[:, release.n_labels - 1]
        check_labels(labels[rows], release.n_classes, inside / name)
        start += count
    return Examples(images, labels)


def _read_records(path: Path, count: int, n_bytes: int) -> NDArray[np.uint8]:
    """Return a file as (count, bytes of a record), if it is exactly that long."""
    try:
        found = path.stat().st_size
        if found != count * n_bytes:
            raise refuse(path, f"{count * n_bytes:,} bytes", f"{found:,}")
        return np.fromfile(path, dtype=np.uint8).reshape(count, n_bytes)
    except OSError as error:
        raise unreadable(path, error) from error
