from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from fediac.compressors import Facts, Outcome, State
from fediac.core.bitpack import pack_bits, pack_lanes
from fediac.core.exchange import BlockSum, IndexedSum, Max, ServerSum, Sum, Tally
from fediac.core.mean import Mean
from fediac.errors import LocalProtocolError
from fediac.transports.exchange_checks import require_exchanges, require_outcome
from tests.support import refuses

OUTCOME = Outcome(Mean(), State(), Facts(0, 0, 0, 0.0, 0.0, 0.0, 0.0))
FLOATS = np.ones(10, dtype=np.float32)
LANES = pack_lanes(np.full(10, 3), 12)
VOTES = pack_bits(np.ones(10, dtype=bool))
GOOD: dict[str, Any] = {
    "tally": Tally(VOTES, 10, 2, 1.0, 8),
    "max": Max(np.float32(1.0)),  # type: ignore[arg-type] # a number of NumPy's
    "sum": Sum(LANES, 10, 12, 12, 3),
    "tensors": Sum(torch.from_numpy(LANES), 10, 12, 12, 3),
    "blocks": BlockSum(np.arange(2), np.ones((2, 5), np.int32), 2),
    "indexed": IndexedSum(np.arange(10), np.ones(10, np.int32), 10),
    "server": ServerSum(FLOATS),
}


@pytest.mark.parametrize("name", GOOD)
def test_what_can_travel_is_let_through(name: str) -> None:
    assert require_exchanges((GOOD[name],)) == (GOOD[name],)


@pytest.mark.parametrize(
    ("yielded", "got"),
    [
        (Max(1.0), "Max"),
        ((), "tuple of nothing"),
        ((Max(1.0), 7), "tuple of Max, int"),
        (None, "NoneType"),
    ],
)
def test_what_is_no_exchange_is_refused(yielded: Any, got: str) -> None:
    text = "run_round must yield exchanges, as in yield from ask(Max(1.0)), got "
    with refuses(f"{text}{got}", LocalProtocolError):
        require_exchanges(yielded)


@pytest.mark.parametrize(
    ("exchange", "text"),
    [
        (
            Sum(LANES, 10, 13, 12, 3),
            "Sum: bits_up must be in 1..12 (bits_down), got 13",
        ),
        (Sum(LANES, 10, 0, 12, 3), "Sum: bits_up must be in 1..12 (bits_down), got 0"),
        (Sum(LANES, 10, 12, 33, 3), "Sum: bits_down must be in 1..32, got 33"),
        # Levels that nobody packed would be added as if they were lanes.
        (Sum(FLOATS, 10, 8, 8, 3), "Sum: lanes must be an array of uint8, got float32"),
        (Sum(None, 10, 8, 8, 3), "Sum: lanes must be an array of uint8, got NoneType"),
        (
            Sum(LANES[1:], 10, 12, 12, 3),
            "Sum: lanes must be 15 bytes, 120 bits packed, got 14",
        ),
        (
            Tally(np.ones(10, bool), 10, 2, 1.0, 8),
            "Tally: votes must be an array of uint8, got bool",
        ),
        (
            Tally(VOTES, 17, 2, 1.0, 8),
            "Tally: votes must be 3 bytes, 17 bits packed, got 2",
        ),
        (
            Tally(VOTES, 10, 2, torch.ones(()), 8),  # type: ignore[arg-type]
            "Tally: peak must be a number, got Tensor",
        ),
        (Max("a"), "Max: peak must be a number, got str"),  # type: ignore[arg-type]
        (
            BlockSum(np.arange(2), np.ones((2, 5)), 2),
            "BlockSum: levels must be an array of int32 or int64, got float64",
        ),
        (
            IndexedSum(np.arange(10), [1] * 10, 10),
            "IndexedSum: levels must be an array of int32 or int64, got list",
        ),
        (
            ServerSum([1.0, 2.0]),
            "ServerSum: values must be an array of float32 or float64, got list",
        ),
        (
            IndexedSum(np.arange(10), np.ones(10, np.int32), 10, 33),
            "IndexedSum: bits must be in 1..32, got 33",
        ),
        (
            ServerSum(np.ones(10), np.arange(10), 8, 0),
            "ServerSum: index_bits must be in 1..32, got 0",
        ),
        (
            ServerSum(np.ones(10), np.arange(10), 8.0),  # type: ignore[arg-type]
            "ServerSum: bits must be in 1..32, got 8.0",
        ),
    ],
)
def test_what_cannot_travel_is_refused(exchange: Any, text: str) -> None:
    with refuses(text, LocalProtocolError):
        require_exchanges((exchange,))


class Momentum(State):
    pass


RETURN = "run_round must return an Outcome"


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        (None, f"{RETURN}, got NoneType"),
        (
            replace(OUTCOME, mean=FLOATS),  # type: ignore[arg-type]
            f"{RETURN} with a Mean as its mean, got ndarray",
        ),
        (
            replace(OUTCOME, mean=Mean((3,))),  # type: ignore[arg-type]
            "parts of a Mean must have write(out), got int",
        ),
        (
            replace(OUTCOME, mean=Mean(3)),  # type: ignore[arg-type]
            "parts of a Mean must be a tuple or list, got int",
        ),
        # Whatever a class of its own has, a checkpoint would lose.
        *(
            (
                replace(OUTCOME, state=state),  # type: ignore[arg-type]
                f"{RETURN} with a State as its state, whose extras have room for more "
                f"than a residual, got {type(state).__name__}",
            )
            for state in (Momentum(), None)
        ),
        *(
            (
                replace(OUTCOME, state=State(bits=bits)),  # type: ignore[arg-type]
                f"State: bits must be None or in 1..32 (a lane), got {bits!r}",
            )
            for bits in ("8", 0, 33, 8.0)
        ),
        (
            replace(OUTCOME, facts=None),  # type: ignore[arg-type]
            f"{RETURN} with a Facts as its facts, got NoneType",
        ),
        (
            replace(OUTCOME, facts=replace(OUTCOME.facts, energy=torch.ones(()))),  # type: ignore[arg-type]
            "Facts: energy must be a number, got Tensor",
        ),
    ],
)
def test_an_outcome_that_is_none_is_refused(returned: Any, text: str) -> None:
    with refuses(text, LocalProtocolError):
        require_outcome(returned)


@pytest.mark.parametrize("bits", [None, 1, 32, np.int64(9)])
def test_an_outcome_is_let_through(bits: Any) -> None:
    outcome = replace(OUTCOME, state=State(FLOATS, bits, {"a": FLOATS}))
    assert require_outcome(outcome) is outcome
