"""Clients that count by their weights: what is agreed, sent, refused and expected."""

from typing import Any

import numpy as np
import pytest

from fediac import FedAvg, FediAC, State, SwitchML
from fediac.compressors import Weighted
from fediac.compressors.forecast import Conditions, asks_of, expect_of
from fediac.compressors.weighted import weight_factors
from fediac.core.bitpack import unpack_lanes
from fediac.core.exchange import Max, Sum, Totals
from fediac.core.quantize import level_limit
from fediac.core.rng import Stream

LIMIT = level_limit(bits=32, n_clients=3)


def begin(weight: int) -> tuple[Any, Sum]:
    """A round that has asked for the sum of weights."""
    update = np.array([1.0, -2.0, 0.5], np.float32)
    clients = Weighted(SwitchML(3), weight).run_round(update, State(), Stream(1, 1, 0))
    (asked,) = next(clients)
    assert isinstance(asked, Sum)
    return clients, asked


def answer(total: int, *, n_clients: int = 3) -> Totals:
    lanes = np.array([total + n_clients * LIMIT], "<u4").view(np.uint8)
    return Totals(lanes, 1, 32, LIMIT, n_clients)


def test_a_weight_travels_as_one_level_of_32_bits() -> None:
    _, asked = begin(120)
    assert (asked.n_levels, asked.bits_up, asked.bits_down) == (1, 32, 32)
    assert asked.phase == "weights"
    assert int(unpack_lanes(asked.lanes, 1, 32)[0]) - asked.limit == 120


def test_what_follows_is_the_round_of_the_weighted_update() -> None:
    clients, _ = begin(120)
    (peak,) = clients.send((answer(240),))
    assert peak == Max(2.0 * 120 * 3 / 240)


def test_the_share_is_of_those_that_take_part() -> None:
    clients, _ = begin(120)
    (peak,) = clients.send((answer(240, n_clients=2),))
    assert peak == Max(2.0)


def test_factors_are_the_share_of_all_weights_times_the_clients() -> None:
    assert weight_factors({0: 1, 4: 3}) == {0: 0.5, 4: 1.5}
    assert weight_factors({0: 7, 1: 7, 2: 7}) == {0: 1.0, 1: 1.0, 2: 1.0}


def test_a_residual_in_place_of_the_weighted_update_leaves_the_update_alone() -> None:
    update = np.array([1.0, -2.0, 0.5], np.float32)
    clients = Weighted(SwitchML(3), 2).run_round(update, State(), Stream(1, 1, 0))
    next(clients)
    clients.send((answer(6),))
    assert update.tolist() == [1.0, -2.0, 0.5]


@pytest.mark.parametrize(
    ("weight", "error", "message"),
    [
        (0, ValueError, "weight must be at least 1, got 0"),
        (0.5, TypeError, "weight must be a whole number, got 0.5"),
        (True, TypeError, "weight must be a whole number, got True"),
        (
            LIMIT + 1,
            ValueError,
            f"weight must be at most {LIMIT} (3 of them are added in 32 bits), "
            f"got {LIMIT + 1}",
        ),
    ],
)
def test_a_weight_that_cannot_be_added_is_refused(
    weight: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        Weighted(SwitchML(3), weight)
    assert str(caught.value) == message


def test_the_largest_weights_of_all_clients_fit() -> None:
    assert weight_factors(dict.fromkeys(range(3), LIMIT)) == dict.fromkeys(
        range(3), 1.0
    )
    assert Weighted(SwitchML(3), LIMIT).weight == LIMIT


def test_one_sum_is_asked_and_expected_before_all_else() -> None:
    for inner in (FedAvg(3), FediAC(3, threshold=2)):
        weighted = Weighted(inner)
        assert asks_of(weighted)[0].kind == "sum"
        assert asks_of(weighted)[1:] == asks_of(inner)
        first, *others = expect_of(weighted, Conditions(100))
        assert [(each.phase, each.up, each.down) for each in first] == [
            ("weights", 1, 1)
        ]
        assert others == list(expect_of(inner, Conditions(100)))
