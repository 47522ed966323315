"""Updates and states that a round accepts, to be spoilt."""

from typing import Any

import numpy as np

from fediac import SwitchML, aggregate
from fediac.compressors import State

DIM = 6
N_CLIENTS = 3


def good_updates() -> list[Any]:
    return [np.arange(1, DIM + 1, dtype=np.float32) * (i + 1) for i in range(N_CLIENTS)]


def kept_states() -> list[State]:
    return [State(np.full(DIM, 0.5 + i, dtype=np.float32)) for i in range(N_CLIENTS)]


def with_update(client: int, update: Any) -> list[Any]:
    updates = good_updates()
    updates[client] = update
    return updates


def run(updates: Any, **settings: Any) -> Any:
    defaults: dict[str, Any] = {"seed": 1, "round_number": 9}
    defaults["compressor"] = SwitchML(len(updates))
    return aggregate(updates, **(defaults | settings))


def spoilt(value: float, dtype: Any = np.float32) -> Any:
    update = np.ones(DIM, dtype)
    update[[1, 4]] = value
    return update


NOT_FINITE = "update has 2 entries that are NaN, infinite or beyond 2**100"
