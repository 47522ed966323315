"""What a training loop has, as the vectors that a round works on, and back again.

A client's update is one vector, a list of arrays, or arrays by name as in a state_dict.
What is learned goes into one vector in the order of the first client; batch norm's
running statistics into another; whole numbers, such as a count of batches, stay out.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from array_api_compat import array_namespace, is_numpy_array, is_torch_array

from fediac.core.types import Array, Update
from fediac.errors import ArgumentError, UpdateError
from fediac.transports.argument_checks import describe, dtype_name, place

Key: TypeAlias = Any
"""A name, a place in a list, or None for a vector."""

BufferRule = Literal["average", "leave"]
"""What becomes of batch norm's running statistics."""

_MEAN, _VARIANCE = "running_mean", "running_var"
"""How batch norm calls its running statistics, after the name of the layer."""

_FLOATS = ("float16", "bfloat16", "float32", "float64")


@dataclass(frozen=True, slots=True)
class Form:
    """Where each array of a client belongs.

    Attributes:
        word: What clients gave, in errors: an update, or a model.
        like: The arrays that decide, by their keys: those of ``base`` or of the first
            client.
        whose: Whose these are, in errors.
        kind: Whether to give back a vector, a list, a tuple or a dict.
        learned: Keys of what the compressor gets.
        statistics: Keys of what is averaged beside it.
    """

    word: str
    like: Mapping[Key, Array]
    whose: str
    kind: type[Any]
    learned: tuple[Key, ...]
    statistics: tuple[Key, ...]

    def read(self, client: int, given: Any) -> dict[Key, Array]:  # noqa: ANN401 - any form
        """Return a client's arrays by their keys, refusing others than the first's."""
        what = f"client {client}: {self.word}"
        arrays = _by_key(given, what)
        for key in self.like:
            if key not in arrays:
                raise UpdateError(f"{what} must have {key!r} as {self.whose}, has not")
        for key, array in arrays.items():
            if key not in self.like:
                raise UpdateError(
                    f"{what} must have the same entries as {self.whose}, which has no "
                    f"{key!r}"
                )
            wanted = self.like[key]
            if tuple(array.shape) != tuple(wanted.shape):
                raise UpdateError(
                    f"{_name(what, key)} has shape {tuple(array.shape)} but "
                    f"{self.whose} has {tuple(wanted.shape)}"
                )
            if place(array) != place(wanted):
                raise UpdateError(
                    f"{_name(what, key)} is a {place(array)} but {self.whose} is a "
                    f"{place(wanted)}"
                )
        return arrays

    def flatten(self, arrays: Mapping[Key, Array], keys: Iterable[Key]) -> Update:
        """Return some of a client's arrays as one vector of the widest float there."""
        parts = [arrays[key] for key in keys]
        xp = array_namespace(*parts)
        widths = {dtype_name(self.like[key]) for key in self.learned + self.statistics}
        dtype = xp.float64 if "float64" in widths else xp.float32
        return xp.concat([xp.astype(xp.reshape(each, (-1,)), dtype) for each in parts])

    def split(self, vector: Update, keys: Iterable[Key]) -> Iterator[tuple[Key, Array]]:
        """Yield the arrays that a vector of `flatten` is made of, each a copy."""
        xp = array_namespace(vector)
        start = 0
        for key in keys:
            like = self.like[key]
            end = start + _size(like)
            part = xp.reshape(vector[start:end], tuple(like.shape))
            yield key, xp.astype(part, like.dtype)
            start = end

    def subtract(self, parts: Mapping[Key, Array]) -> dict[Key, Array]:
        """Return the model that is left when a mean update is subtracted from ``like``.

        Statistics share a grid as coarse as the largest change: rounding may take a
        small variance below zero, and there is no root of that.
        """
        model = {}
        for key, before in self.like.items():
            xp = array_namespace(before)
            if key in parts:
                after = before - parts[key]
            else:
                after = xp.asarray(before, copy=True)
            if key in self.statistics and is_variance(key):
                after = xp.maximum(after, xp.zeros_like(after))
            model[key] = after
        return model

    def give_back(self, arrays: Mapping[Key, Array]) -> Any:  # noqa: ANN401 - any form
        """Return arrays by their keys in the form that clients gave them."""
        if self.kind is dict:
            return {key: arrays[key] for key in self.like}
        in_order = [arrays[key] for key in self.like]
        return self.kind(in_order) if self.kind in (list, tuple) else in_order[0]


def is_array(given: object) -> bool:
    """Return whether this is an array of NumPy or PyTorch."""
    return is_numpy_array(given) or is_torch_array(given)


def find_form(
    updates: Sequence[Any],
    base: Any,  # noqa: ANN401 - any form
    *,
    statistics: BufferRule,
    buffers: Collection[Key] | None,
) -> Form | None:
    """Return the form of a round's updates; None if they are vectors already.

    Args:
        updates: One a client, None for one that is absent.
        base: The model before the round, if clients give theirs after it.
        statistics: Whether running statistics are averaged or left.
        buffers: Which arrays are statistics; None: batch norm's, by their names.
    """
    if statistics not in get_args(BufferRule):
        raise ArgumentError(
            "statistics", f"must be average or leave, got {statistics!r}"
        )
    first = next((i for i, each in enumerate(updates) if each is not None), None)
    if base is not None:
        given, word, whose = base, "model", "base"
    elif first is None or is_array(updates[first]):
        return None
    else:
        given, word, whose = updates[first], "update", "the first"
    what = "base" if base is not None else f"client {first}: update"
    like = _by_key(given, what)
    kinds = {key: dtype_name(each) for key, each in like.items()}
    floats = [key for key in like if kinds[key] in _FLOATS]
    beside = {key for key in floats if _is_statistic(key, buffers)}
    learned = tuple(key for key in floats if key not in beside)
    if not sum(_size(like[key]) for key in learned):
        raise UpdateError(f"{what} must have at least one float to learn, has none")
    averaged = tuple(key for key in floats if key in beside and statistics == "average")
    return Form(word, like, whose, _kind(given), learned, averaged)


def is_variance(key: Key) -> bool:
    """Return whether an array of this name holds variances, which have a root."""
    return isinstance(key, str) and key.rpartition(".")[2] == _VARIANCE


def require_like(client: int, update: Update, base: Update) -> None:
    """Refuse a model that cannot be subtracted from the one before it."""
    if describe(update) != describe(base):
        raise UpdateError(
            f"client {client}: model is {describe(update)} but base is {describe(base)}"
        )


def _is_statistic(key: Key, buffers: Collection[Key] | None) -> bool:
    if buffers is not None:
        return key in buffers
    return isinstance(key, str) and key.rpartition(".")[2] in (_MEAN, _VARIANCE)


def _by_key(given: Any, what: str) -> dict[Key, Array]:  # noqa: ANN401 - any form
    """Return arrays by their keys, without their gradients; checked."""
    arrays: dict[Key, Any]
    if is_array(given):
        arrays = {None: given}
    elif isinstance(given, Mapping):
        arrays = dict(given)
    elif isinstance(given, list | tuple):
        arrays = dict(enumerate(given))
    else:
        way = "; give its state_dict()" if hasattr(given, "state_dict") else ""
        raise UpdateError(
            f"{what} must be a vector, a list of arrays or a state_dict, "
            f"got {type(given).__name__}{way}"
        )
    for key, each in arrays.items():
        if not is_array(each):
            raise UpdateError(
                f"{_name(what, key)} must be a NumPy array or a PyTorch tensor, "
                f"got {type(each).__name__}"
            )
        if "complex" in dtype_name(each):
            raise UpdateError(
                f"{_name(what, key)} must be of floats or whole numbers, "
                f"got {dtype_name(each)}"
            )
    return {
        key: each.detach() if is_torch_array(each) else each
        for key, each in arrays.items()
    }


def _kind(given: Any) -> type[Any]:  # noqa: ANN401 - any form
    kinds = (tuple, list, Mapping)
    found = next((each for each in kinds if isinstance(given, each)), None)
    return dict if found is Mapping else found or type(given)


def _name(what: str, key: Key) -> str:
    return what if key is None else f"{what}[{key!r}]"


def _size(array: Array) -> int:
    size = 1
    for length in array.shape:
        size *= int(length)
    return size
