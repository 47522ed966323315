"""Checks of what rounds ask and return; errors are one line.

The user's own algorithms come through here, so a message names what they wrote.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from numbers import Integral, Real
from typing import Any

from array_api_compat import is_numpy_array, is_torch_array

from fediac.compressors.protocol import Facts, Outcome, State
from fediac.core.bitpack import MAX_LANE_BITS, n_packed_bytes
from fediac.core.exchange import (
    BlockSum,
    Exchange,
    IndexedSum,
    Max,
    ServerSum,
    Sum,
    Tally,
)
from fediac.core.mean import Mean
from fediac.errors import LocalProtocolError
from fediac.transports.argument_checks import dtype_name

_SAME: dict[type[Exchange], tuple[str, ...]] = {
    Tally: ("dim", "threshold"),
    Sum: ("n_levels", "bits_up", "bits_down", "limit"),
    BlockSum: ("n_blocks",),
    IndexedSum: ("size", "bits", "is_narrow"),
    ServerSum: ("bits", "index_bits"),
}
"""What must be equal on all clients, as they share one answer."""

_ARRAYS: dict[type[Exchange], tuple[str, tuple[str, ...]]] = {
    Tally: ("votes", ("uint8",)),
    Sum: ("lanes", ("uint8",)),
    BlockSum: ("levels", ("int32", "int64")),
    IndexedSum: ("levels", ("int32", "int64")),
    ServerSum: ("values", ("float32", "float64")),
}
"""Exchange -> the attribute that travels, and the types it may have."""


def require_exchanges(yielded: Any) -> tuple[Exchange, ...]:  # noqa: ANN401 - anything
    """Return the exchanges that a round yielded, if a transport can carry them."""
    is_tuple = isinstance(yielded, tuple) and len(yielded) > 0
    if not is_tuple or not all(isinstance(each, Exchange) for each in yielded):
        raise LocalProtocolError(
            "run_round must yield exchanges, as in yield from ask(Max(1.0)), "
            f"got {_name_kind(yielded)}"
        )
    exchanges: tuple[Exchange, ...] = yielded
    for each in exchanges:
        _check_contents(each)
    return exchanges


def _check_contents(asked: Exchange) -> None:
    """Refuse an exchange whose array is not what travels, or whose peak is none."""
    kind = type(asked)
    if isinstance(asked, Tally | Max) and not isinstance(asked.peak, Real):
        raise LocalProtocolError(
            f"{kind.__name__}: peak must be a number, got {type(asked.peak).__name__}"
        )
    if kind not in _ARRAYS:
        return
    _check_widths(asked)
    name, types = _ARRAYS[kind]
    array = getattr(asked, name)
    is_array = is_numpy_array(array) or is_torch_array(array)
    found = dtype_name(array) if is_array else type(array).__name__
    if found not in types:
        raise LocalProtocolError(
            f"{kind.__name__}: {name} must be an array of {' or '.join(types)}, "
            f"got {found}"
        )
    if isinstance(asked, Tally | Sum):
        n_bits = asked.n_levels * asked.bits_up if isinstance(asked, Sum) else asked.dim
        if len(array) != n_packed_bytes(n_bits):
            raise LocalProtocolError(
                f"{kind.__name__}: {name} must be {n_packed_bytes(n_bits)} bytes, "
                f"{n_bits} bits packed, got {len(array)}"
            )


def _check_widths(asked: Exchange) -> None:
    """Refuse widths that a lane or a pair cannot have."""
    if isinstance(asked, Sum):
        _check_lane_widths(asked)
    if not isinstance(asked, IndexedSum | ServerSum):
        return
    is_float = isinstance(asked, ServerSum) and asked.bits is None
    for name in ("index_bits",) if is_float else ("index_bits", "bits"):
        bits: Any = getattr(asked, name)
        is_whole = isinstance(bits, Integral)
        if not is_whole or not 1 <= bits <= MAX_LANE_BITS:
            raise LocalProtocolError(
                f"{type(asked).__name__}: {name} must be in 1..{MAX_LANE_BITS}, "
                f"got {bits!r}"
            )


def _check_lane_widths(asked: Sum) -> None:
    for name, most in (("bits_down", MAX_LANE_BITS), ("bits_up", asked.bits_down)):
        bits: Any = getattr(asked, name)
        is_whole = isinstance(bits, Integral)
        if not is_whole or not 1 <= bits <= most:
            of = " (bits_down)" if name == "bits_up" else ""
            raise LocalProtocolError(
                f"Sum: {name} must be in 1..{most}{of}, got {bits!r}"
            )


def require_outcome(returned: object) -> Outcome:
    """Return the outcome of a round, if it is usable."""
    if not isinstance(returned, Outcome):
        raise LocalProtocolError(
            f"run_round must return an Outcome, got {_name_kind(returned)}"
        )
    for name, kind, hint in (
        ("mean", Mean, ""),
        ("state", State, ", whose extras have room for more than a residual"),
        ("facts", Facts, ""),
    ):
        found: object = getattr(returned, name)
        # What more a state of another class has would be forgotten.
        if not isinstance(found, kind) or (kind is State and type(found) is not State):
            raise LocalProtocolError(
                f"run_round must return an Outcome with a {kind.__name__} as its "
                f"{name}{hint}, got {_name_kind(found)}"
            )
    _check_parts(returned)
    return returned


def _check_parts(outcome: Outcome) -> None:
    parts: object = outcome.mean.parts
    if not isinstance(parts, Sequence):
        raise LocalProtocolError(
            f"parts of a Mean must be a tuple or list, got {_name_kind(parts)}"
        )
    for part in parts:
        if not callable(getattr(part, "write", None)):
            raise LocalProtocolError(
                f"parts of a Mean must have write(out), got {_name_kind(part)}"
            )
    for each in fields(outcome.facts):
        number = getattr(outcome.facts, each.name)
        if not isinstance(number, Real):
            raise LocalProtocolError(
                f"Facts: {each.name} must be a number, got {_name_kind(number)}"
            )
    bits = outcome.state.bits
    is_width = isinstance(bits, Integral) and 1 <= bits <= MAX_LANE_BITS
    if bits is not None and not is_width:
        raise LocalProtocolError(
            f"State: bits must be None or in 1..{MAX_LANE_BITS} (a lane), got {bits!r}"
        )


def _name_kind(given: object) -> str:
    """Return the type of a value, and the types of a tuple's elements."""
    name = type(given).__name__
    if not isinstance(given, tuple):
        return name
    return f"{name} of {', '.join(type(each).__name__ for each in given) or 'nothing'}"


def check_same(
    asked: Mapping[int, tuple[Exchange, ...]], outcomes: Mapping[int, Outcome]
) -> None:
    """Refuse clients that ask different things, as they share one answer.

    Args:
        asked: Client -> what it asks.
        outcomes: What those have that ask no more.
    """
    if outcomes:
        raise LocalProtocolError(
            f"client {next(iter(asked))} asks more exchanges than "
            f"client {next(iter(outcomes))}: all clients must ask the same"
        )
    first, *others = asked
    kinds = [type(each).__name__ for each in asked[first]]
    if len(set(kinds)) < len(kinds):
        # Bills and simulated packets tell them apart by their kind.
        raise LocalProtocolError(
            "exchanges that travel together must be of different kinds, got "
            f"{', '.join(kinds)}: ask one after the other"
        )
    for client in others:
        found = [type(each).__name__ for each in asked[client]]
        if found != kinds:
            raise LocalProtocolError(
                f"client {client} asks {', '.join(found)} but client {first} asks "
                f"{', '.join(kinds)}: all clients must ask the same"
            )
        for own, other in zip(asked[client], asked[first], strict=True):
            for name in _SAME.get(type(own), ()):
                if getattr(own, name) != getattr(other, name):
                    raise LocalProtocolError(
                        f"client {client} asks {type(own).__name__} with {name} "
                        f"{getattr(own, name)} but client {first} with "
                        f"{getattr(other, name)}: all clients must ask the same"
                    )
