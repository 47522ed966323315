"""Before the first round: a dataset as every loader returns it."""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_CHUNK = 1024  # images; their float64 copy stays small


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """Images with their labels.

    Attributes:
        images: uint8 (n, channels, height, width); or, from a user's own arrays,
            float32 or int64 (n, ...), ready for the model.
        labels: int64 (n,), from 0; or, for a user's own loss, float32 or int64 targets
            (n, ...).
        writers: int32 (n,), who made each image; None where unknown.
    """

    images: NDArray[Any]
    labels: NDArray[Any]
    writers: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Examples to train on and to test on.

    Attributes:
        name: What results on it are called.
        n_classes: Kinds of labels; 0 for other targets.
        mean: Each channel's mean ``pixels / 255`` over the training images.
        std: Their standard deviation; 1 for a channel that is constant.
    """

    name: str
    train: Examples
    test: Examples
    n_classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def sha256(self) -> str:
        """A hash of all examples in their order, in hexadecimal.

        Two datasets with one hash are equal; partitions can then be compared by theirs.
        """
        digest = hashlib.sha256()
        for part in (self.train, self.test):
            digest.update(repr(part.images.shape).encode())
            digest.update(np.ascontiguousarray(part.images).data)
            digest.update(_little_endian(part.labels))
            if part.writers is not None:
                digest.update(part.writers.astype("<i4").data)
        return digest.hexdigest()


def _little_endian(labels: NDArray[Any]) -> bytes:
    """Return whole numbers as 64 bits each, and floats with their shape."""
    if labels.dtype.kind != "f":
        return labels.astype("<i8").tobytes()
    return repr(labels.shape).encode() + labels.astype("<f4").tobytes()


def make_dataset(
    name: str, train: Examples, test: Examples, *, n_classes: int
) -> Dataset:
    """Return a dataset with the mean and deviation of its training pixels."""
    mean, std = pixel_statistics(train.images)
    return Dataset(name, train, test, n_classes, mean, std)


def pixel_statistics(
    images: NDArray[np.uint8],
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return each channel's mean and standard deviation of ``pixels / 255``.

    The sums are of whole numbers below 2**53, so float64 adds them exactly, in any
    order.
    """
    n_pixels = images[:, 0].size
    means, stds = [], []
    for channel in range(images.shape[1]):
        total = squares = 0
        for start in range(0, len(images), _CHUNK):
            pixels = images[start : start + _CHUNK, channel].astype(np.float64).ravel()
            total += int(np.sum(pixels))
            squares += int(np.dot(pixels, pixels))
        variance = (n_pixels * squares - total**2) / n_pixels**2
        means.append(total / n_pixels / 255.0)
        stds.append(variance**0.5 / 255.0 or 1.0)
    return tuple(means), tuple(stds)
