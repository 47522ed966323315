"""Checks of a round's input, before anything is changed; errors are one line."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from array_api_compat import device, is_numpy_array, is_torch_array

from fediac.compressors.protocol import Compressor, State, can_run_rounds
from fediac.compressors.shared_steps import nonfinite_error
from fediac.compressors.weighted import check_weight
from fediac.core.bitpack import MAX_LANE_BITS
from fediac.core.corrected import count_nonfinite
from fediac.core.integers import as_whole
from fediac.core.rng import Stream
from fediac.core.types import Array, Update
from fediac.errors import ArgumentError, UpdateError, say_count
from fediac.switch.pipeline import Switch
from fediac.transports.protocol import SwitchElsewhere
from fediac.transports.shared_memory import Written
from fediac.wire.header import MAX_CLIENTS


def require_updates(updates: object) -> None:
    """Refuse updates that are no list: one client's state_dict, for instance."""
    if not is_list(updates):
        raise TypeError(
            "updates must be a list with one element a client, "
            f"got {type(updates).__name__}"
        )


def check_arguments(
    updates: object,
    compressor: object,
    switch: object,
    *,
    seed: object,
    round_number: object,
    phase: object,
) -> None:
    """Refuse arguments of the wrong type, naming them."""
    require_updates(updates)
    if not can_run_rounds(compressor):
        name = getattr(compressor, "__name__", type(compressor).__name__)
        raise TypeError(
            f"compressor must be one like FediAC(...), with run_round, got {name}"
        )
    if switch is not None and not isinstance(switch, Switch | SwitchElsewhere):
        raise TypeError(f"switch must be a Switch, got {type(switch).__name__}")
    as_whole("n_clients of the compressor", getattr(compressor, "n_clients", None))
    as_whole("seed", seed)
    as_whole("round_number", round_number)
    if not isinstance(phase, str):
        raise TypeError(f"phase must be a string, got {type(phase).__name__}")


def check_states(name: str, states: object) -> None:
    """Refuse states that did not come from a round."""
    every: Any = states if is_list(states) else [None]
    if not all(isinstance(each, State) for each in every):
        raise TypeError(
            f"{name} must be the list of states that a round returned, "
            f"got {_name_kinds(states)}"
        )
    for client, each in enumerate(every):
        bits = each.bits
        if bits is None:
            continue
        if not 1 <= as_whole(f"client {client}: bits in {name}", bits) <= MAX_LANE_BITS:
            raise ArgumentError(
                "client",
                f"{client}: bits in {name} must be in 1..{MAX_LANE_BITS} (a "
                f"lane), got {bits}",
            )


def _name_kinds(given: Any) -> str:  # noqa: ANN401 - anything at all
    """Return the type of a value, and the types of its elements."""
    name = type(given).__name__
    if not is_list(given):
        return name
    kinds = dict.fromkeys(type(each).__name__ for each in given)
    return f"{name} of {', '.join(kinds)}"


def is_list(given: object) -> bool:
    """Return whether this is a sequence; an array is one, of its rows."""
    has_order = hasattr(given, "__len__") and hasattr(given, "__getitem__")
    return has_order and not isinstance(given, str | bytes | Mapping)


def check_round(
    updates: Sequence[Update | None],
    states: Sequence[State],
    buffers: Sequence[Update | None],
    compressor: Compressor,
) -> dict[int, Update]:
    """Return the updates that are present, if they fit each other."""
    n_clients = len(updates)
    if n_clients > MAX_CLIENTS:
        raise ArgumentError(
            "updates",
            f"must be at most {MAX_CLIENTS} (bits of a slot's bitmap), got {n_clients}",
        )
    if n_clients < compressor.n_clients:
        raise ArgumentError(
            "compressor",
            f"is for {say_count(compressor.n_clients, 'client')}, "
            f"got {say_count(n_clients, 'update')}",
        )
    for given, name in ((states, "states"), (buffers, "out")):
        if len(given) != n_clients:
            raise ArgumentError(
                name,
                f"must have {say_count(n_clients, 'state')} (one per update), "
                f"got {len(given)}",
            )
    present = {i: each for i, each in enumerate(updates) if each is not None}
    if len(present) > compressor.n_clients:
        raise ArgumentError(
            "compressor",
            f"is for {say_count(compressor.n_clients, 'client')} but "
            f"{len(present)} updates are present",
        )
    if not present:
        raise ArgumentError("updates", "must have at least one that is not None")
    like = next(iter(present.values()))
    for client, update in present.items():
        _check_update(client, update, like)
        _check_kept(client, "residual", states[client].residual, update)
        _check_kept(client, "out", buffers[client], update)
    check_extras(dict(enumerate(states)), like)
    _check_buffers(present, states, {client: buffers[client] for client in present})
    return present


def check_weights(
    weights: object, updates: Sequence[Any], *, n_clients: int
) -> dict[int, int] | None:
    """Return the weight of every client that is present; None if all count alike.

    Args:
        weights: One a client; that of an absent one does not matter.
        updates: What clients gave.
        n_clients: How many weights are added at most.
    """
    if weights is None:
        return None
    if not is_list(weights):
        raise TypeError(
            "weights must be a list with a whole number a client, "
            f"got {type(weights).__name__}"
        )
    given: Any = weights
    if len(given) != len(updates):
        raise ArgumentError(
            "weights",
            f"must be {len(updates)} (one per update), got {len(given)}",
        )
    present = [i for i, each in enumerate(updates) if each is not None]
    return {
        i: check_weight(f"weight of client {i}", given[i], n_clients=n_clients)
        for i in present
    }


def _check_array(client: int, name: str, array: Array) -> None:
    """Refuse anything but an array of a kind that a round can use."""
    if not (is_numpy_array(array) or is_torch_array(array)):
        raise UpdateError(
            f"client {client}: {name} must be a NumPy array or a PyTorch tensor, "
            f"got {type(array).__name__}"
        )
    if getattr(array, "requires_grad", False):
        raise UpdateError(
            f"client {client}: {name} must not require a gradient, pass {name}.detach()"
        )
    if isinstance(array, np.ma.MaskedArray):
        raise UpdateError(
            f"client {client}: {name} must not be masked, pass {name}.filled(0)"
        )
    if is_torch_array(array) and (
        array.is_nested or str(array.layout) != "torch.strided"
    ):
        raise UpdateError(
            f"client {client}: {name} must be dense, pass {name}.to_dense()"
        )


def _check_update(client: int, update: Array, like: Array) -> None:
    _check_array(client, "update", update)
    if dtype_name(update) not in ("float32", "float64"):
        raise UpdateError(
            f"client {client}: update must be float32 or float64, "
            f"got {dtype_name(update)}"
        )
    if update.ndim != 1 or not update.shape[0]:
        raise UpdateError(
            f"client {client}: update must be a vector with at least one entry, "
            f"got shape {tuple(update.shape)}"
        )
    if update.shape != like.shape:
        raise UpdateError(
            f"client {client}: update has "
            f"{say_count(update.shape[0], 'entry', 'entries')} but the first has "
            f"{like.shape[0]}"
        )
    if describe(update) != describe(like):
        raise UpdateError(
            f"client {client}: update is {describe(update)} but the first is "
            f"{describe(like)}"
        )
    if getattr(update, "is_meta", False):
        raise UpdateError(
            f"client {client}: update must have values, got a tensor on meta"
        )


def _check_kept(client: int, name: str, kept: Array | None, update: Array) -> None:
    if kept is None:
        return
    _check_array(client, name, kept)
    if describe(kept) != describe(update):
        raise UpdateError(
            f"client {client}: {name} is {describe(kept)} but update is "
            f"{describe(update)}"
        )
    if kept.shape != update.shape:
        raise UpdateError(
            f"client {client}: {name} has shape {tuple(kept.shape)} but update has "
            f"shape {tuple(update.shape)}"
        )


def check_kept(states: Mapping[int, State], updates: Mapping[int, Update]) -> None:
    """Refuse what clients would keep if a later round could not use it.

    Args:
        states: Client -> what its round returned.
        updates: Client -> what it went in with.
    """
    for client, state in states.items():
        _check_kept(client, "residual", state.residual, updates[client])
    check_extras(states, next(iter(updates.values())))


def check_extras(states: Mapping[int, State], like: Update) -> None:
    """Refuse extras that a later round or a checkpoint could not use.

    Args:
        states: Client -> what it keeps.
        like: An update.
    """
    for client, state in states.items():
        if not isinstance(state.extras, Mapping):
            raise UpdateError(
                f"client {client}: extras must be arrays by name, "
                f"got {type(state.extras).__name__}"
            )
        for key, kept in state.extras.items():
            if not isinstance(key, str) or not _is_text(key):
                raise UpdateError(
                    f"client {client}: extras must be arrays by name, got the name "
                    f"{key!r}"
                )
            name = f"extras[{key!r}]"
            _check_array(client, name, kept)
            if not _KEPT.fullmatch(dtype_name(kept)):
                raise UpdateError(
                    f"client {client}: {name} must be of floats, whole numbers or "
                    f"booleans, got {dtype_name(kept)}"
                )
            if place(kept) != place(like):
                raise UpdateError(
                    f"client {client}: {name} must be a {place(like)} as updates are, "
                    f"got a {place(kept)}"
                )


_KEPT = re.compile(r"(bfloat|float|u?int)(8|16|32|64)|bool")
"""Names of the dtypes that a checkpoint can store."""


def _is_text(name: str) -> bool:
    """Return whether a name can be encoded: half a surrogate pair cannot."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_buffers(
    present: Mapping[int, Update],
    states: Sequence[State],
    buffers: Mapping[int, Array | None],
) -> None:
    for client, buffer in buffers.items():
        if buffer is not None:
            _check_writable(client, buffer)
    written = Written.of(buffers)
    for client, update in present.items():
        written.check(client, "update", update, may_be_own=False)
        residual = states[client].residual
        if residual is not None:
            written.check(client, "residual", residual, may_be_own=True)
    for client, state in enumerate(states):
        # Who is absent keeps theirs for a later round.
        residual = None if client in present else state.residual
        if is_numpy_array(residual) or is_torch_array(residual):
            written.check(client, "residual", residual, may_be_own=False)
        for key, kept in state.extras.items():
            written.check(client, f"extras[{key!r}]", kept, may_be_own=False)


def _check_writable(client: int, buffer: Array) -> None:
    if is_numpy_array(buffer):
        if not buffer.flags.writeable:
            raise UpdateError(
                f"client {client}: out must be writable, got a read-only array"
            )
        return
    if buffer.is_inference():
        # Clients run in threads of their own, which are not in that mode.
        raise UpdateError(
            f"client {client}: out must not be an inference tensor, pass one made "
            "outside torch.inference_mode()"
        )
    if buffer.stride(0) == 0 and len(buffer) > 1:
        raise UpdateError(
            f"client {client}: out must have memory for each entry, got an expanded "
            "tensor"
        )


def dtype_name(array: Array) -> str:
    """Return the name of an array's dtype, without its library."""
    return str(array.dtype).removeprefix("torch.")


def describe(array: Array) -> str:
    """Return an array's library, dtype and device in words."""
    return f"{_kind(array)} of {dtype_name(array)} on {device(array)}"


def place(array: Array) -> str:
    """Return an array's library and device in words."""
    return f"{_kind(array)} on {device(array)}"


def _kind(array: Array) -> str:
    return "NumPy array" if is_numpy_array(array) else "PyTorch tensor"


def check_finite(
    present: Mapping[int, Update],
    states: Sequence[State],
    streams: Mapping[int, Stream],
) -> None:
    """Refuse NaN and infinity before residuals are overwritten."""
    for client, update in present.items():
        n_nonfinite = count_nonfinite(update, states[client].residual)
        if n_nonfinite:
            raise nonfinite_error(streams[client], update, n_nonfinite)
