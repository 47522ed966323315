"""A user's own arrays as a data set, without files or preparation."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fediac.errors import DatasetError, say_count
from fediac.training.datasets import Dataset, Examples
from fediac.training.datasets.types import make_dataset

Pair = tuple[Any, Any]
"""Inputs and labels, as NumPy arrays or PyTorch tensors."""


def dataset_of(train: Pair, test: Pair, *, name: str = "own data") -> Dataset:
    """Return arrays as a data set; bytes are pixels, other numbers stay as they are.

    Args:
        train: Inputs (n, ...) and labels (n,) from 0.
        test: The same, to measure accuracy on.
        name: What results on it are called.
    """
    parts = [_examples(pair, what) for pair, what in ((train, "train"), (test, "test"))]
    if parts[0].images.shape[1:] != parts[1].images.shape[1:]:
        raise DatasetError(
            f"test inputs must have the shape of train's {parts[0].images.shape[1:]}, "
            f"got {parts[1].images.shape[1:]}"
        )
    train_is, test_is = (part.images.dtype for part in parts)
    if train_is != test_is:
        raise DatasetError(
            f"test inputs must be of the kind of train's, {train_is}, got {test_is}: "
            "only bytes are normalized"
        )
    n_classes = int(max(part.labels.max() for part in parts)) + 1
    if parts[0].images.dtype == np.uint8:
        return make_dataset(name, parts[0], parts[1], n_classes=n_classes)
    return Dataset(name, parts[0], parts[1], n_classes, mean=(0.0,), std=(1.0,))


def _examples(pair: Pair, what: str) -> Examples:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise DatasetError(
            f"{what} must be a pair of inputs and labels, got {type(pair).__name__}"
        )
    inputs, labels = (_as_array(each) for each in pair)
    if not inputs.ndim or not labels.ndim or inputs.dtype.kind not in "fiub":
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
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise DatasetError(
            f"{what} labels must be a vector of whole numbers from 0, "
            f"got {labels.dtype} of shape {labels.shape}"
        )
    if labels.min() < 0:
        raise DatasetError(
            f"{what} labels must be whole numbers from 0, got {labels.min()}"
        )
    return Examples(_usable(inputs, what), labels.astype(np.int64))


def _as_array(given: Any) -> NDArray[Any]:  # noqa: ANN401 - what a user gives
    """Return a tensor's values as an array, or anything else as an array."""
    if isinstance(given, Tensor):
        given = given.detach().to_dense().cpu()
        given = given.float() if given.dtype == torch.bfloat16 else given
    return np.asarray(given)


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
        return inputs.astype(np.int64)
    with np.errstate(over="ignore"):
        inputs = inputs.astype(np.float32)
    if not np.isfinite(inputs).all():
        raise DatasetError(f"{what} inputs must be finite, in float32 as well")
    return inputs
