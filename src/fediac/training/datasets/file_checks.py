"""Checks that every loader of a data set makes, and the errors of its files."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fediac.errors import DatasetError, say_reason


def refuse(path: Path, expected: str, found: str) -> DatasetError:
    """Return the error for a file that is not what it should be."""
    return DatasetError(f"{path}: expected {expected}, found {found}")


def unreadable(path: Path, error: OSError) -> DatasetError:
    """Return the error for a file that cannot be read, with the system's reason."""
    return DatasetError(f"{path}: {say_reason(error)}")


def check_labels(
    labels: NDArray[Any], n_classes: int, path: Path, *, what: str = "labels"
) -> None:
    """Raise a `DatasetError` naming the first label outside ``0..n_classes-1``."""
    outside = np.flatnonzero((labels < 0) | (labels >= n_classes))
    if len(outside):
        first = int(outside[0])
        raise refuse(
            path,
            f"{what} in 0..{n_classes - 1}",
            f"{labels[first]} at example {first}",
        )
