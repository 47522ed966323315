"""Finite in, finite out: a round of any algorithm refuses an update or ends finite.

Nothing warns on the way: pytest makes warnings errors.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fediac import FedAvg, FediAC, Libra, OmniReduce, State, SwitchML, TopK, aggregate
from fediac.compressors import CATALOG, Compressor
from fediac.errors import NotFiniteError
from fediac.native import disabled
from fediac.transports.vectors import RoundResult
from tests.support import KINDS, to_numpy

N = 3
DIM = 7
LARGEST = 2.0**100

# In lanes of three bits a level of one stands for three peaks: as far above as it goes.
COMPRESSORS: dict[str, Compressor] = {
    "fediac": FediAC(N, DIM, 1, bits=3),
    "switchml": SwitchML(N, bits=3),
    "omnireduce": OmniReduce(N, 4, block=2),
    "libra": Libra(N, 5, hot=np.array([0, 3, 4])),
    "fedavg": FedAvg(N),
    "topk": TopK(N, 5),
}

SIZES = [
    0.0,
    2.0**-149,
    2.0**-100,
    1.0,
    2.0**99,
    float(np.nextafter(np.float32(LARGEST), np.float32(0))),
    LARGEST,
    float(np.nextafter(np.float32(LARGEST), np.float32(np.inf))),
    2.0**126,
    float(np.finfo(np.float32).max),
]

Rows = NDArray[np.float64]


def rows(sizes: Sequence[float]) -> st.SearchStrategy[Rows]:
    entry = st.builds(lambda sign, size: sign * size, _SIGNS, st.sampled_from(sizes))
    return st.lists(entry, min_size=N * DIM, max_size=N * DIM).map(
        lambda entries: np.array(entries).reshape(N, DIM)
    )


_SIGNS = st.sampled_from([-1.0, 1.0])
_CORES: dict[str, Callable[[], Any]] = {"kernels": nullcontext, "core": disabled}


def test_every_algorithm_is_here() -> None:
    assert list(COMPRESSORS) == list(CATALOG)


@pytest.mark.parametrize("core", _CORES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", COMPRESSORS)
@settings(max_examples=15, deadline=None)
@given(first=rows(SIZES), then=rows([size for size in SIZES if size <= LARGEST]))
def test_finite_updates_are_refused_or_end_in_finite_means_and_residuals(
    name: str, dtype: Any, kind: str, core: str, first: Rows, then: Rows
) -> None:
    states: Sequence[State] = [State()] * N
    for number, given_rows in enumerate((first, then, then), start=1):
        updates = [KINDS[kind](row.astype(dtype)) for row in given_rows]
        largest = np.abs(given_rows).max(axis=1)
        with _CORES[core]():
            result = finite_round(name, updates, states, number, largest)
        if result is None:
            return
        assert np.all(np.isfinite(to_numpy(result.mean)))
        states = result.states
        for state in states:
            if state.residual is not None:
                assert np.all(np.isfinite(to_numpy(state.residual)))


def finite_round(
    name: str,
    updates: list[Any],
    states: Sequence[State],
    number: int,
    largest: NDArray[np.float64],
) -> RoundResult | None:
    """Return what a round gives; None where it refuses a client by its number.

    Residuals may hold more than updates, but never before the first round.
    """
    compressor = COMPRESSORS[name]
    run = partial(aggregate, updates, compressor, seed=1, round_number=number)
    if np.any(largest > LARGEST):
        first = int(np.argmax(largest > LARGEST))
        with pytest.raises(NotFiniteError, match=f"^client {first}, round {number}: "):
            run(states=states)
        return None
    if number == 1:
        return run(states=states)
    try:
        return run(states=states)
    except NotFiniteError as error:
        refused = str(error)
    assert re.match(rf"client \d, round {number}: update \+ residual has \d+ ", refused)
    return None


@pytest.mark.parametrize("name", [each for each in COMPRESSORS if each != "fedavg"])
def test_residual_that_makes_the_sum_too_large_is_named(name: str) -> None:
    updates = [np.full(DIM, LARGEST, np.float32)] * N
    kept = [np.zeros(DIM, np.float32) for _ in range(N)]
    kept[1][2:4] = LARGEST
    text = re.escape(
        "client 1, round 5: update + residual has 2 entries that are NaN, infinite or "
        "beyond 2**100 (update has none); State() starts without a residual"
    )
    states = [State(each) for each in kept]
    for out in (None, states):
        with pytest.raises(NotFiniteError, match=f"^{text}$"):
            aggregate(
                updates,
                COMPRESSORS[name],
                seed=1,
                round_number=5,
                states=states,
                out=out,
            )
        assert np.array_equal(kept[1], np.where([0, 0, 1, 1, 0, 0, 0], LARGEST, 0.0))
