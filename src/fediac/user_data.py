"""Examples as people have them, read into arrays: pairs, data sets, loaders, rows.

Nothing here knows the libraries they are from. A data set is what has a length and rows
by number; a row is an input with its target, or a dict with columns as Hugging Face has
them; a loader is what gives batches of these.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from array_api_compat import is_torch_array
from numpy.typing import NDArray

from fediac.errors import ArgumentError, DatasetError

Data: TypeAlias = Any
"""Whatever people have their examples in, or one of these."""

Labels: TypeAlias = Any
"""Each example's label: an array, or a list of numbers or names."""

Columns: TypeAlias = tuple[str, str]
"""Names of the input and of the target in rows that are dicts."""

TARGETS = ("label", "labels", "target", "targets", "y")
"""What the column of targets is called, if nobody says so."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Inputs and targets as arrays, an example in each row."""

    inputs: NDArray[Any]
    targets: NDArray[Any]


def read_rows(data: Data, what: str, columns: Columns | None = None) -> Rows:
    """Return the examples in a pair of arrays, a data set, or a loader.

    A data set is read once from its first row to its last, a loader in its own order:
    what they change at random is the same from then on.

    Args:
        data: What a user gave.
        what: What to call it in errors.
        columns: Names of input and target, for rows that are dicts.

    Raises:
        DatasetError: It is none of these, or examples do not fit each other.
    """
    found = _find_arrays(data)
    if found is None:
        found = _read_loader(data, what, columns) or _read_set(data, what, columns)
    inputs, targets = (as_array(each) for each in found)
    if inputs.dtype == object or targets.dtype == object:
        raise DatasetError(
            f"{what} must be arrays of numbers, got inputs of {inputs.dtype} and "
            f"labels of {targets.dtype}"
        )
    return Rows(inputs, targets)


def split_clients(data: Data) -> list[Any] | None:
    """Return what each client has, if this is a list with one of it for each."""
    if not isinstance(data, list | tuple) or _find_arrays(data) is not None:
        return None
    if not data or any(_is_row(each) or not hasattr(each, "__len__") for each in data):
        return None
    return list(data)


def read_labels(data: Data) -> Labels:
    """Return each example's label, of data or of the labels themselves."""
    if hasattr(data, "batch_size") and hasattr(data, "dataset"):
        raise ArgumentError(
            "labels", "must have an order, got a loader; give its data set"
        )
    found = _find_arrays(data)
    if found is not None:
        return as_array(found[1])
    if hasattr(data, "indices") and hasattr(data, "dataset"):  # a Subset of PyTorch
        return np.asarray(read_labels(data.dataset))[np.asarray(data.indices)]
    for name in ("targets", "labels"):
        own = getattr(data, name, None)
        if own is not None and not callable(own):
            return as_array(own)
    first = data[0] if _has_rows(data) and len(data) else None
    if _is_row(first):
        return np.stack(
            [as_array(_split(each, "data", None)[1]) for each in _each(data)]
        )
    return data


def as_array(given: Data) -> NDArray[Any]:
    """Return a tensor's values, or anything else, as an array."""
    if is_torch_array(given):
        given = given.detach().to_dense().cpu()
        given = given.float() if str(given.dtype) == "torch.bfloat16" else given
        return np.asarray(given)
    if hasattr(given, "getbands"):  # an image of Pillow: channels come last, or none
        pixels = np.asarray(given)
        return pixels[None] if pixels.ndim == 2 else np.moveaxis(pixels, -1, 0)
    return np.asarray(given)


def _find_arrays(data: Data) -> tuple[Any, Any] | None:
    """Return inputs and targets, if these are arrays already."""
    if isinstance(data, Rows):
        return data.inputs, data.targets
    if hasattr(data, "images") and hasattr(data, "labels"):  # a part of our data sets
        return data.images, data.labels
    tensors = getattr(data, "tensors", None)  # a TensorDataset
    if isinstance(tensors, tuple) and len(tensors) == 2:
        return tensors[0], tensors[1]
    if not isinstance(data, list | tuple) or len(data) != 2:
        return None
    inputs, targets = data
    if all(_is_column(each) for each in (inputs, targets)):
        return inputs, targets
    return None


def _is_column(given: Data) -> bool:
    """Return whether this is an array of examples, or nested lists of numbers."""
    if hasattr(given, "shape") and hasattr(given, "dtype"):
        return len(given.shape) > 0
    inside = given
    while isinstance(inside, list | tuple) and inside:
        inside = inside[0]
    return isinstance(given, list) and isinstance(inside, int | float)


def _is_row(given: Data) -> bool:
    """Return whether this is one example: an input with one target, or columns."""
    if isinstance(given, Mapping):
        return True
    if not isinstance(given, list | tuple) or len(given) != 2:
        return False
    target = given[1]
    if hasattr(target, "shape"):
        return len(target.shape) == 0
    return isinstance(target, int | float | str)


def _has_rows(data: Data) -> bool:
    return hasattr(data, "__len__") and hasattr(data, "__getitem__")


def _each(data: Data) -> Iterator[Any]:
    """Yield every row: not all that have rows can be iterated over to an end."""
    for number in range(len(data)):
        yield data[number]


def _read_set(
    data: Data,
    what: str,
    columns: Columns | None,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the rows of a data set, which all have one shape."""
    if not _has_rows(data) or isinstance(data, str | Mapping):
        raise DatasetError(
            f"{what} must be a pair of inputs and labels, a data set with a length and "
            f"rows, or a loader of such, got {type(data).__name__}"
        )
    pairs = [_split(row, what, columns) for row in _each(data)]
    if not pairs:
        raise DatasetError(f"{what} must have at least one example, got none")
    inputs, targets = zip(*pairs, strict=True)
    return _stack(inputs, f"{what} inputs"), _stack(targets, f"{what} labels")


def _read_loader(
    data: Data,
    what: str,
    columns: Columns | None,
) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Return the batches of a loader, one after the other; None if it is none."""
    if not (hasattr(data, "dataset") and hasattr(data, "batch_size")):
        return None
    batches = [_split(batch, what, columns) for batch in data]
    if not batches:
        raise DatasetError(f"{what} must have at least one example, got none")
    inputs, targets = zip(*batches, strict=True)
    return _join(inputs, f"{what} inputs"), _join(targets, f"{what} labels")


def _split(row: Data, what: str, columns: Columns | None) -> tuple[Any, Any]:
    """Return the input and the target of a row or a batch."""
    if isinstance(row, Mapping):
        name, target = _choose_columns(tuple(row), what, columns)
        return row[name], row[target]
    if isinstance(row, list | tuple) and len(row) == 2:
        return row[0], row[1]
    got = f"{len(row)} things" if isinstance(row, list | tuple) else type(row).__name__
    raise DatasetError(
        f"{what} must have rows of an input and a target, or with columns, got {got}"
    )


def _choose_columns(
    names: Sequence[str], what: str, columns: Columns | None
) -> tuple[str, str]:
    """Return which columns are input and target: as given, or where it is plain."""
    if columns is not None:
        missing = [name for name in columns if name not in names]
        if missing:
            raise ArgumentError(
                "columns",
                f"must be two of {', '.join(map(repr, names))}, got {missing[0]!r}",
            )
        return columns
    targets = [name for name in names if name in TARGETS]
    others = [name for name in names if name not in TARGETS]
    if len(targets) != 1 or len(others) != 1:
        raise DatasetError(
            f"{what} rows have the columns {', '.join(map(repr, names))}; say which "
            "are input and target, such as columns=('image', 'label')"
        )
    return others[0], targets[0]


def _stack(rows: Sequence[Any], what: str) -> NDArray[Any]:
    arrays = [as_array(each) for each in rows]
    for number, each in enumerate(arrays):
        if each.shape != arrays[0].shape:
            raise DatasetError(
                f"{what} must all have one shape, got {arrays[0].shape} first and "
                f"{each.shape} as number {number}; pad or crop them"
            )
    return np.stack(arrays)


def _join(batches: Sequence[Any], what: str) -> NDArray[Any]:
    arrays = [as_array(each) for each in batches]
    for each in arrays:
        if each.shape[1:] != arrays[0].shape[1:]:
            raise DatasetError(
                f"{what} must all have one shape, got {arrays[0].shape[1:]} in the "
                f"first batch and {each.shape[1:]} in another; pad or crop them"
            )
    return np.concatenate(arrays)


def join_rows(parts: Sequence[Rows], what: str) -> tuple[Rows, list[NDArray[np.int64]]]:
    """Return all clients' examples one after the other, and who has which.

    Args:
        parts: Each client's.
        what: What to call them in errors.
    """
    for client, part in enumerate(parts):
        if not len(part.inputs):
            raise DatasetError(
                f"{what}: client {client} must have at least one example, got none"
            )
        for name in ("inputs", "targets"):
            own, first = getattr(part, name), getattr(parts[0], name)
            if own.shape[1:] != first.shape[1:] or own.dtype.kind != first.dtype.kind:
                raise DatasetError(
                    f"{what}: {name} of client {client} must be like client 0's, "
                    f"{first.dtype} {first.shape[1:]}, got {own.dtype} {own.shape[1:]}"
                )
    ends = np.cumsum([len(part.inputs) for part in parts])
    order = np.arange(ends[-1], dtype=np.int64)
    rows = Rows(
        np.concatenate([part.inputs for part in parts]),
        np.concatenate([part.targets for part in parts]),
    )
    return rows, np.split(order, ends[:-1])
