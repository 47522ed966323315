"""What an algorithm does not send stays for the next round, or a share of it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from fediac import aggregate
from fediac.compressors import ErrorFeedback, Round, State, ask
from fediac.compressors.shared_steps import unsent
from fediac.core.corrected import Corrected
from fediac.core.exchange import Max
from fediac.core.rng import Stream
from tests.support import KINDS, bytes_of, kind_of, normal_update, refuses

DIM = 300


@dataclass(frozen=True, slots=True)
class Silent(ErrorFeedback):
    """Sends nothing, so all is kept."""

    def compress(
        self,
        corrected: Corrected,
        state: State,
        stream: Stream,  # noqa: ARG002 - nothing is random
        kept: Any,  # noqa: ARG002 - all of it stays
    ) -> Round:
        yield from ask(Max(1.0))
        return unsent(corrected, state, n_votes=0, bits=0, peak=1.0)


def keep(update: Any, states: Any = None, **settings: Any) -> Any:
    """Return the residual of one client after a round."""
    made = Silent(1, **settings)
    done = aggregate([update], made, seed=1, round_number=1, states=states)
    return done.states[0].residual


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_residual_fades_alike_in_every_library(kind: str, dtype: type[Any]) -> None:
    values = normal_update(DIM, dtype)
    given = KINDS[kind](values)
    faded = keep(given, fade=0.1)
    assert kind_of(faded) == kind_of(given)
    assert bytes_of(faded) == (values * dtype(0.9)).tobytes()
    assert bytes_of(given) == values.tobytes()


def test_what_is_kept_is_added_to_the_next_update_before_it_fades() -> None:
    values = normal_update(DIM, np.float32)
    before = (State(values),)
    assert keep(values, before, fade=0.5).tobytes() == values.tobytes()
    assert keep(values, before).tobytes() == (values + values).tobytes()


def test_without_a_residual_nothing_is_kept() -> None:
    assert keep(normal_update(DIM, np.float32), residual=False) is None


@pytest.mark.parametrize("fade", [0, 0.0, 0.1, np.float64(0.5), 0.999])
def test_fades_below_one_are_fine(fade: Any) -> None:
    assert Silent(1, fade=fade).fade == fade


@pytest.mark.parametrize("fade", [-0.1, 1, 1.0, float("nan"), float("inf")])
def test_a_fade_leaves_something(fade: float) -> None:
    with refuses(f"fade must be at least 0 and below 1, got {fade}"):
        Silent(1, fade=fade)


@pytest.mark.parametrize("fade", ["0.1", None, True])
def test_a_fade_is_a_number(fade: Any) -> None:
    with refuses(f"fade must be a number, got {fade!r}", TypeError):
        Silent(1, fade=fade)


def test_nothing_fades_without_a_residual() -> None:
    assert Silent(1, fade=0.0, residual=False).fade == 0.0
    with refuses("fade must be 0 without a residual, got 0.1"):
        Silent(1, fade=0.1, residual=False)
