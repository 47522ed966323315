"""A whole round: the mean that comes back is unbiased where entries were sent."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fediac import FediAC, SwitchML, aggregate
from fediac.compressors import Compressor, shared_steps
from fediac.core.quantize import send_chosen
from fediac.core.rng import Stream
from tests.statistical.tails import hoeffding

N_CLIENTS = 4
N_COPIES = 4000
PATTERN = np.array([1.0, -0.93, 0.71, -0.5, 0.333, -0.21, 0.1, 0.012])
COMPRESSORS: dict[str, Compressor] = {
    "switchml": SwitchML(N_CLIENTS, bits=6, residual=False),
    "fediac": FediAC(N_CLIENTS, 8000, 2, bits=6, residual=False),
    "fediac by draws": FediAC(N_CLIENTS, 8000, 2, bits=6, law="draws", residual=False),
}


def updates() -> list[NDArray[np.float64]]:
    """Clients whose entries repeat a pattern, each a little smaller than the last."""
    return [np.tile(PATTERN * (1.0 - 0.07 * i), N_COPIES) for i in range(N_CLIENTS)]


# A level is one of two neighbours, so each of the N·n roundings of n chosen copies
# lies in a unit interval around its mean; so does their average, in units of 1/f.
# Must catch a bias of 0.046 of a level, twice Hoeffding's bound, where all 4,000 copies
# are sent, and of 0.29 where as few as 100 are.
def is_unbiased(compressor: Compressor, *, seed: int = 9) -> bool:
    result = aggregate(updates(), compressor, seed=seed, round_number=1)
    expected = np.mean(updates(), axis=0)[: len(PATTERN)]
    rows: Any = result.mean.reshape(N_COPIES, -1)
    # A sum of zero looks like an entry that was not sent: only the gia tells.
    gia = chosen_entries(compressor, seed=seed).reshape(N_COPIES, -1)
    n_sent = gia.sum(axis=0)
    tested = n_sent >= 100
    assert np.count_nonzero(tested) >= 4
    averages = rows.sum(axis=0)[tested] / n_sent[tested]
    error = np.abs(averages - expected[tested]) * result.facts.scale
    bound = hoeffding(N_CLIENTS * n_sent[tested], n_checks=int(tested.sum()))
    return bool(np.all(error <= bound))


def chosen_entries(compressor: Compressor, *, seed: int) -> NDArray[np.bool_]:
    """Which entries were sent: those of wide lanes, where no sum is zero by chance."""
    if isinstance(compressor, SwitchML):
        return np.ones(N_COPIES * len(PATTERN), dtype=bool)
    assert isinstance(compressor, FediAC)
    wide = FediAC(
        N_CLIENTS, compressor.n_votes, 2, bits=32, law=compressor.law, residual=False
    )
    result = aggregate(updates(), wide, seed=seed, round_number=1)
    sent: NDArray[np.bool_] = result.mean != 0
    return sent


@pytest.mark.parametrize("name", COMPRESSORS)
def test_mean_of_a_round_is_unbiased(name: str) -> None:
    assert is_unbiased(COMPRESSORS[name])


@pytest.mark.parametrize("name", ["fediac", "switchml"])
def test_mean_of_rounded_down_levels_is_found(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send_down(values: Any, gia: Any, grid: Any, stream: Stream, **rest: Any) -> Any:
        return send_chosen(values - 0.5 / grid.scale, gia, grid, stream, **rest)

    monkeypatch.setattr(shared_steps, "send_chosen", send_down)
    assert not is_unbiased(COMPRESSORS[name])


def test_mean_of_levels_rounded_with_the_votes_numbers_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def send_with_votes(
        values: Any, gia: Any, grid: Any, stream: Stream, **rest: Any
    ) -> Any:
        votes = Stream(stream.seed, stream.round_number, stream.client, "votes")
        return send_chosen(values, gia, grid, votes, **rest)

    monkeypatch.setattr(shared_steps, "send_chosen", send_with_votes)
    assert not is_unbiased(COMPRESSORS["fediac"])
