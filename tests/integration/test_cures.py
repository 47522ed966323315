"""What docs/negative.md reports of is still another algorithm than lean as it was."""

from collections.abc import Callable

import numpy as np
import pytest
from benchmarks import cures

from fediac import FediAC, aggregate
from fediac.compressors import Compressor

N_CLIENTS, DIM = 20, 20_000

CURES_NOW = (cures.capped_residual, cures.peak_of_chosen)

CURES = (
    cures.fading_by_age,
    cures.fading_by_share,
    cures.falling_threshold,
    cures.rotating_4,
    cures.rotating_16,
)


def run(compressor: Compressor, n_rounds: int) -> bytes:
    """Return what clients have left after some rounds of the same updates."""
    rng = np.random.default_rng(1)
    sizes = rng.permutation(np.arange(1, DIM + 1)) ** -0.5
    updates = [
        (sizes * rng.standard_normal(DIM)).astype(np.float32) for _ in range(N_CLIENTS)
    ]
    states = None
    for number in range(1, n_rounds + 1):
        result = aggregate(
            updates, compressor, seed=1, round_number=number, states=states
        )
        states = result.states
    assert states is not None
    return b"".join(np.asarray(each.residual).tobytes() for each in states)


@pytest.mark.parametrize("make", CURES)
def test_a_cure_changes_what_lean_as_it_was_leaves(
    make: Callable[[int], FediAC],
) -> None:
    lean = FediAC.lean(N_CLIENTS, **cures.THEN)
    assert run(make(N_CLIENTS), 13) != run(lean, 13)


@pytest.mark.parametrize("make", CURES_NOW)
def test_a_cure_changes_what_lean_leaves(make: Callable[[int], FediAC]) -> None:
    assert run(make(N_CLIENTS), 13) != run(FediAC.lean(N_CLIENTS), 13)
