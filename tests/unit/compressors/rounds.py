"""Drive one client's round by hand: what it asks, and what it makes of answers."""

from typing import Any

import numpy as np

from fediac.compressors import Compressor, Outcome, Round, State
from fediac.core.exchange import Sum, Totals
from fediac.core.rng import Stream

STREAM = Stream(7, 3, 1)
DIM = 40


def some_update(dtype: Any = np.float32) -> Any:
    """Forty entries, the largest 4.0, none of them equal."""
    return (np.arange(-19, 21) / 5.0).astype(dtype)


def start(compressor: Compressor, update: Any, state: State | None = None) -> Round:
    return compressor.run_round(update, State() if state is None else state, STREAM)


def totals(asked: Sum, n_clients: int = 2) -> Totals:
    """Return the sum of one client's lanes, as the switch answers it."""
    return Totals(asked.lanes, asked.n_levels, asked.bits_down, asked.limit, n_clients)


def answer(client: Round, *answers: Any) -> Any:
    """Return what the client asks next, or its outcome."""
    try:
        asked = client.send(answers) if answers else next(client)
    except StopIteration as stop:
        outcome: Outcome = stop.value
        return outcome
    return asked[0] if len(asked) == 1 else asked
