"""A user's own data, in whatever form, as a data set of ours."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fediac.errors import DatasetError, say_count
from fediac.training.datasets import Dataset, Examples
from fediac.training.datasets.types import make_dataset
from fediac.user_data import Columns, Data, Rows, join_rows, read_rows, split_clients


@dataclass(frozen=True, slots=True, eq=False)
class OwnData:
    """What a user gave to learn from.

    Attributes:
        clients: The numbers of each client's training examples, if each had its own.
    """

    dataset: Dataset
    clients: list[NDArray[np.int64]] | None


def read_data(
    train: Data,
    test: Data,
    *,
    columns: Columns | None = None,
    has_loss: bool = False,
    name: str = "own data",
) -> OwnData:
    """Return what a user has as a data set; bytes are pixels, other numbers stay.

    Args:
        train: Inputs (n, ...) and labels (n,) from 0, a data set or a loader; or a list
            of such, one a client.
        test: The same, to measure accuracy on.
        columns: Names of input and target, for rows that are dicts.
        has_loss: Targets may be anything that a loss of the user's own takes.
        name: What results on it are called.

    Raises:
        DatasetError: They are none of these, or do not fit each other.
    """
    with torch.random.fork_rng(devices=[]):
        # Loaders and data sets that draw at random do so once, and the same every time.
        torch.default_generator.manual_seed(0)
        rows, clients = _read(train, "train", columns)
        tests, _ = _read(test, "test", columns)
    parts = [
        _examples(each, what, has_loss=has_loss)
        for each, what in ((rows, "train"), (tests, "test"))
    ]
    _check_alike(*parts)
    is_classes = not has_loss or _are_classes(parts[0].labels)
    n_classes = int(max(each.labels.max() for each in parts)) + 1 if is_classes else 0
    if parts[0].images.dtype == np.uint8:
        dataset = make_dataset(name, parts[0], parts[1], n_classes=n_classes)
    else:
        dataset = Dataset(name, parts[0], parts[1], n_classes, (0.0,), (1.0,))
    return OwnData(dataset, clients)


def _read(
    data: Data,
    what: str,
    columns: Columns | None,
) -> tuple[Rows, list[NDArray[np.int64]] | None]:
    """Return all examples, and who has which if there is one of it for each client."""
    each = split_clients(data)
    if each is None:
        return read_rows(data, what, columns), None
    parts = [
        read_rows(part, f"{what} of client {client}", columns)
        for client, part in enumerate(each)
    ]
    return join_rows(parts, what)


def _check_alike(train: Examples, test: Examples) -> None:
    for what, of_train, of_test in (
        ("inputs", train.images, test.images),
        ("labels", train.labels, test.labels),
    ):
        if of_train.shape[1:] != of_test.shape[1:]:
            raise DatasetError(
                f"test {what} must have the shape of train's {of_train.shape[1:]}, "
                f"got {of_test.shape[1:]}"
            )
        if of_train.dtype != of_test.dtype:
            hint = ": only bytes are normalized" if what == "inputs" else ""
            raise DatasetError(
                f"test {what} must be of the kind of train's, {of_train.dtype}, "
                f"got {of_test.dtype}{hint}"
            )


def _are_classes(labels: NDArray[Any]) -> bool:
    return labels.ndim == 1 and labels.dtype.kind in "iu" and labels.min() >= 0


def _examples(rows: Rows, what: str, *, has_loss: bool) -> Examples:
    inputs, labels = rows.inputs, rows.targets
    kinds = "fiub"
    if not inputs.ndim or not labels.ndim or inputs.dtype.kind not in kinds:
        raise DatasetError(
            f"{what} must be arrays of numbers, got inputs of {inputs.dtype} and "
            f"labels of {labels.dtype}"
        )
    if len(inputs) != len(labels) or not len(labels):
        raise DatasetError(
            f"{what} must have as many labels as inputs, at least one, "
            f"got {say_count(len(inputs), 'input')} and "
            f"{say_count(len(labels), 'label')}"
        )
    labels = _targets(labels, what) if has_loss else _labels(labels, what)
    return Examples(_usable(inputs, what), labels)


def _labels(labels: NDArray[Any], what: str) -> NDArray[np.int64]:
    """Return classes, which cross entropy takes."""
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise DatasetError(
            f"{what} labels must be a vector of whole numbers from 0, "
            f"got {labels.dtype} of shape {labels.shape}; other targets need a loss"
        )
    if labels.min() < 0:
        raise DatasetError(
            f"{what} labels must be whole numbers from 0, got {labels.min()}"
        )
    return labels.astype(np.int64)


def _targets(labels: NDArray[Any], what: str) -> NDArray[Any]:
    """Return what a loss of the user's own takes: int64 or float32."""
    if labels.dtype.kind in "iub":
        return labels.astype(np.int64)
    with np.errstate(over="ignore"):
        targets = labels.astype(np.float32)
    if labels.dtype.kind != "f" or not np.isfinite(targets).all():
        raise DatasetError(f"{what} labels must be finite numbers, in float32 as well")
    return targets


def _usable(inputs: NDArray[Any], what: str) -> NDArray[Any]:
    """Return inputs as bytes, as int64 (a model's word numbers) or as float32."""
    if inputs.dtype == np.uint8:
        if inputs.ndim != 4:
            raise DatasetError(
                f"{what} inputs of uint8 must be images of shape (n, channels, height, "
                f"width), got shape {inputs.shape}"
            )
        return inputs
    if inputs.dtype.kind in "iu":
        return inputs.astype(np.int64, copy=False)
    with np.errstate(over="ignore"):
        inputs = inputs.astype(np.float32, copy=False)
    if not np.isfinite(inputs).all():
        raise DatasetError(f"{what} inputs must be finite, in float32 as well")
    return inputs
