"""Exchanges and answers <-> Flower's own record types.

A message of ours has two records: a `ConfigRecord` of names and numbers, and an
`ArrayRecord` of everything that is long. What travels is made from a fixed table of
classes, whoever sent it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from fediac.core.exchange import (
    BlockSum,
    BlockTotals,
    Consensus,
    IndexedSum,
    IndexedTotals,
    Max,
    Peak,
    ServerSum,
    ServerTotals,
    Sum,
    Tally,
    Totals,
)
from fediac.errors import RemoteProtocolError

NAME = "fediac"
ARRAYS_NAME = "fediac.arrays"

_CLASSES: Mapping[str, type[Any]] = {
    each.__name__: each
    for each in (
        Tally,
        Max,
        Sum,
        BlockSum,
        IndexedSum,
        ServerSum,
        Consensus,
        Peak,
        Totals,
        BlockTotals,
        IndexedTotals,
        ServerTotals,
    )
}


@dataclass(slots=True)
class Parcel:
    """What one message of ours holds.

    Attributes:
        values: Names -> numbers, strings and lists of these.
        arrays: Names -> arrays.
    """

    values: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, Any] = field(default_factory=dict)

    def put(self, content: RecordDict) -> None:
        """Add this to a message's content."""
        content[NAME] = ConfigRecord(self.values)
        if self.arrays:
            content[ARRAYS_NAME] = array_record(self.arrays)

    @classmethod
    def take(cls, content: RecordDict) -> "Parcel | None":
        """Take what is ours out of a message's content; None: it has nothing."""
        values = content.config_records.get(NAME)
        if values is None:
            return None
        del content[NAME]
        record = content.array_records.get(ARRAYS_NAME)
        if record is not None:
            del content[ARRAYS_NAME]
        return cls(dict(values), {} if record is None else arrays_of(record))

    def add_all(self, prefix: str, values: Sequence[Any]) -> None:
        """Add exchanges, or answers, under a prefix."""
        self.values[prefix] = [type(each).__name__ for each in values]
        for place, each in enumerate(values):
            for one in fields(each):
                self._add(f"{prefix}.{place}.{one.name}", getattr(each, one.name))

    def _add(self, name: str, value: Any) -> None:  # noqa: ANN401 - a field's
        if value is None:
            return
        if isinstance(value, bool | str):
            self.values[name] = value
        elif isinstance(value, Integral):
            self.values[name] = int(value)
        elif isinstance(value, Real):
            self.values[name] = float(value)
        else:
            self.arrays[name] = np.ascontiguousarray(np.asarray(value))

    def all_of(self, prefix: str) -> tuple[Any, ...]:
        """Return the exchanges, or answers, under a prefix.

        Raises:
            RemoteProtocolError: They are none.
        """
        found = []
        for place, name in enumerate(self.values.get(prefix, ())):
            start = f"{prefix}.{place}."
            given = {
                key.removeprefix(start): each
                for key, each in (*self.values.items(), *self.arrays.items())
                if key.startswith(start)
            }
            found.append(_make(name, given))
        return tuple(found)


def _make(name: str, given: Mapping[str, Any]) -> object:
    if name not in _CLASSES:
        raise RemoteProtocolError(f"message has {name!r}, which is no exchange")
    kind = _CLASSES[name]
    known = {each.name for each in fields(kind)}
    if not known.issuperset(given):
        unknown = sorted(set(given) - known)[0]
        raise RemoteProtocolError(f"message has {unknown!r}, which {name} has not")
    # What is None does not travel; what must not be None is required.
    optional = {"indices": None} if name == "ServerTotals" else {}
    try:
        return kind(**{**optional, **given})
    except TypeError as error:
        raise RemoteProtocolError(f"message has no whole {name}: {error}") from error


def array_record(arrays: Mapping[str, Any]) -> ArrayRecord:
    """Return arrays by their names as Flower's record."""
    return ArrayRecord({key: Array(np.asarray(each)) for key, each in arrays.items()})


def arrays_of(record: ArrayRecord) -> dict[str, Any]:
    """Return the NumPy arrays of a record by their names."""
    return {key: each.numpy() for key, each in record.items()}


def count_bytes(values: Iterable[Any]) -> int:
    """Return the bytes of the arrays of exchanges or answers."""
    return sum(
        getattr(value, "nbytes", 0)
        for each in values
        for value in (getattr(each, one.name) for one in fields(each))
    )
