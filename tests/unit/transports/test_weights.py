"""`fediac.aggregate` of clients that count by their examples."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fediac import FedAvg, FediAC, SwitchML, TopK, aggregate
from fediac.compressors.weighted import WEIGHT_BITS
from tests.support import refuses

DIM = 400
WEIGHTS = [900, 75, 25]


def some_updates() -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(DIM).astype(np.float32) for _ in WEIGHTS]


def test_the_mean_is_weighted() -> None:
    updates = some_updates()
    exact = np.average(np.array(updates, np.float64), axis=0, weights=WEIGHTS)
    result = aggregate(
        updates, SwitchML(3, bits=24), seed=1, round_number=1, weights=WEIGHTS
    )
    # Three levels are off by less than one each, their mean by less than 1/f; beside
    # that, factors, products and mean are each rounded to float32.
    allowed = 1.0 / result.facts.scale + 4 * 2.0**-24 * np.abs(updates).max() * 3
    assert np.abs(result.mean - exact).max() < allowed
    plain = np.mean(updates, axis=0, dtype=np.float64)
    assert np.abs(result.mean - plain).max() > 1.0


def test_weights_of_absent_clients_do_not_matter() -> None:
    updates = some_updates()
    two = aggregate(
        [updates[0], None, updates[2]],
        FedAvg(3),
        seed=1,
        round_number=1,
        weights=[3, None, 1],
    )
    exact = (3 * updates[0].astype(np.float64) + updates[2]) / 4
    assert np.abs(two.mean - exact).max() < 1e-6


def test_statistics_are_weighted_as_the_rest_is() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    base = model.state_dict()
    trained = []
    for number in range(2):
        own = {key: each.clone() for key, each in base.items()}
        own["1.running_mean"] += 4.0 * number
        own["0.weight"] += 4.0 * number
        trained.append(own)
    result = aggregate(
        trained,
        SwitchML(2, bits=24),
        base=base,
        seed=1,
        round_number=1,
        weights=[1, 3],
    )
    for key in ("1.running_mean", "0.weight"):
        change = result.model[key] - base[key]
        assert torch.allclose(change, torch.full_like(change, 3.0), atol=1e-5)
    # Agreed on once: the round's, not once more for the statistics.
    assert len(result.ledger.select(phase="weights").rows) == 4


def test_statistics_go_where_the_rounds_values_went() -> None:
    base = nn.BatchNorm1d(4).state_dict()
    result = aggregate(
        [base, base],
        TopK(2, 1),
        base=base,
        seed=1,
        round_number=1,
        weights=[1, 3],
    )
    statistics = result.ledger.select(phase="statistics")
    assert {row.destination for row in statistics.rows} == {"server"}


def test_a_residual_is_of_what_a_client_contributes() -> None:
    updates = some_updates()
    result = aggregate(
        updates,
        FediAC(3, n_votes=40, threshold=2, bits=16),
        seed=1,
        round_number=1,
        weights=WEIGHTS,
    )
    factors = np.array(WEIGHTS) * 3 / sum(WEIGHTS)
    given = sum(
        factor * each.astype(np.float64)
        for factor, each in zip(factors, updates, strict=True)
    )
    kept = sum(np.asarray(state.residual, np.float64) for state in result.states)
    assert np.abs(given - kept - 3 * result.mean).max() < 1e-5


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        (
            {0: 1},
            TypeError,
            "weights must be a list with a whole number a client, got dict",
        ),
        ([1, 2], ValueError, "weights must be 3 (one per update), got 2"),
        ([1, 0, 2], ValueError, "weight of client 1 must be at least 1, got 0"),
        (
            [1, 2, None],
            TypeError,
            "weight of client 2 must be a whole number, got None",
        ),
        (
            [2**30, 1, 1],
            ValueError,
            f"weight of client 0 must be at most {(2**31 - 1) // 3} (3 of them are "
            f"added in {WEIGHT_BITS} bits), got {2**30}",
        ),
    ],
)
def test_weights_that_cannot_be_are_refused(
    weights: Any, error: type[Exception], message: str
) -> None:
    with refuses(message, error):
        aggregate(some_updates(), FedAvg(3), seed=1, round_number=1, weights=weights)
