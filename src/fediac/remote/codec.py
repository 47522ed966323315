"""Values <-> bytes: for disks and journals, and between coordinator and clients.

MessagePack with arrays as dtype, shape and bytes, and with the few classes below by
their names. Nothing else is ever made from bytes, whoever sent them.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import msgspec
import numpy as np

from fediac.compressors.protocol import State
from fediac.core.exchange import (
    BlockTotals,
    Consensus,
    IndexedTotals,
    Peak,
    ServerTotals,
    Totals,
)
from fediac.errors import RemoteProtocolError
from fediac.sessions.client import Attempt, Work
from fediac.sessions.journal import Began, Committed, Numbered
from fediac.sessions.messages import (
    Alive,
    Hello,
    Model,
    Over,
    Refused,
    Start,
    Status,
    Verdict,
    Word,
)

_CLASSES: Mapping[str, type[Any]] = {
    each.__name__: each
    for each in (
        Consensus,
        Peak,
        Totals,
        BlockTotals,
        IndexedTotals,
        ServerTotals,
        State,
        Attempt,
        Work,
        Began,
        Committed,
        Numbered,
        Model,
        Start,
        Status,
        Verdict,
        Word,
        Hello,
        Alive,
        Over,
        Refused,
    )
}
_DTYPES = frozenset("uifb")
"""Kinds of NumPy's types that may travel: whole numbers, floats, booleans."""


def to_bytes(value: object) -> bytes:
    """Return a value as bytes."""
    return msgspec.msgpack.encode(_plain(value))


def from_bytes(data: bytes) -> Any:  # noqa: ANN401 - whatever was written
    """Return the value that `to_bytes` wrote; arrays are NumPy's.

    Raises:
        RemoteProtocolError: The bytes are not such a value.
    """
    try:
        return _value(msgspec.msgpack.decode(data))
    except (msgspec.MsgspecError, TypeError, ValueError, KeyError) as error:
        raise RemoteProtocolError(f"message cannot be read: {error}") from error


def _plain(value: object) -> object:
    match value:
        case None | bool() | int() | float() | str() | bytes():
            return value
        case tuple() | list():
            return [_plain(each) for each in value]
        case Mapping():
            return {"map": {str(key): _plain(each) for key, each in value.items()}}
        case _ if is_dataclass(value) and type(value).__name__ in _CLASSES:
            parts = [_plain(getattr(value, each.name)) for each in fields(value)]
            return {"class": type(value).__name__, "fields": parts}
    array = np.ascontiguousarray(np.asarray(value))
    if array.dtype.kind not in _DTYPES:
        raise TypeError(f"{type(value).__name__} cannot be written")
    shape = list(np.asarray(value).shape)
    return {"array": array.dtype.str, "shape": shape, "data": array.tobytes()}


def _value(plain: Any) -> Any:  # noqa: ANN401
    if isinstance(plain, list):
        return tuple(_value(each) for each in plain)
    if not isinstance(plain, dict):
        return plain
    if "map" in plain:
        return {key: _value(each) for key, each in plain["map"].items()}
    if "class" in plain:
        return _CLASSES[plain["class"]](*(_value(each) for each in plain["fields"]))
    dtype = np.dtype(plain["array"])
    if dtype.kind not in _DTYPES:
        raise ValueError(f"dtype must be of numbers, got {dtype}")
    flat = np.frombuffer(plain["data"], dtype=dtype)
    return flat.reshape(plain["shape"]).copy()
