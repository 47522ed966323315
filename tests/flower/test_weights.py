"""Clients that count by their examples: the same bits as `fediac.aggregate` has."""

from typing import Any

import numpy as np
import pytest
from flwr.app import Message
from flwr.serverapp.strategy import FedAvg

from fediac.errors import ArgumentError, ConfigError
from fediac.flower import CompressedStrategy
from tests.flower.apps import N_CLIENTS, SEED, in_memory, make_app, record_of, start
from tests.flower.local_grid import LocalGrid
from tests.flower.test_rounds import (
    FEDIAC,
    asks,
    require_residuals,
    require_same,
    round_of,
)
from tests.switches import running_switch

WEIGHTS = (31, 2, 7, 500)

ALGORITHMS: list[tuple[str, dict[str, Any]]] = [
    ("fediac", FEDIAC),
    ("fediac", {**FEDIAC, "bits": "coarse", "lanes": "dense"}),
    ("switchml", {}),
    ("omnireduce", {}),
    ("libra", {"hot": np.arange(0, 600, 7)}),
    ("fedavg", {}),
    ("topk", {}),
]


def run(
    grid: LocalGrid, algorithm: str = "fediac", n_rounds: int = 3, **settings: Any
) -> Any:
    own = settings.pop("own", None) or FedAvg(fraction_evaluate=0.0)
    strategy = CompressedStrategy(
        own, algorithm, seed=SEED, weights="examples", **settings
    )
    return strategy.start(grid, record_of(start()), num_rounds=n_rounds, timeout=20)


@pytest.mark.parametrize(("algorithm", "settings"), ALGORITHMS)
def test_weighted_rounds_are_those_of_aggregate(
    algorithm: str, settings: dict[str, Any]
) -> None:
    grid = LocalGrid(make_app(n_examples=WEIGHTS), N_CLIENTS)
    result = run(grid, algorithm, **settings)
    model, states, history = in_memory(algorithm, settings, 3, weights=WEIGHTS)
    require_same(result.arrays, model)
    require_residuals(grid, states)
    for number, each in enumerate(history, start=1):
        metrics = result.train_metrics_clientapp[number]
        assert metrics["fediac-gamma"] == pytest.approx(each.facts.gamma, abs=1e-12)
    equal, _, _ = in_memory(algorithm, settings, 3)
    assert any(model[name].tobytes() != each.tobytes() for name, each in equal.items())


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [("fediac", FEDIAC), ("switchml", {}), ("omnireduce", {})],
)
def test_weighted_rounds_over_the_switch_are_those_of_aggregate(
    algorithm: str, settings: dict[str, Any]
) -> None:
    grid = LocalGrid(make_app(n_examples=WEIGHTS), N_CLIENTS, is_threaded=True)
    with running_switch() as switch:
        result = run(grid, algorithm, 2, switch=str(switch.endpoint), **settings)
    model, _, _ = in_memory(algorithm, settings, 2, weights=WEIGHTS)
    require_same(result.arrays, model)
    assert result.train_metrics_clientapp[2]["fediac-over-switch"] == 1


def test_who_is_absent_has_no_weight_in_the_round() -> None:
    def fault(node: int, message: Message) -> str | None:
        is_it = (asks(message), round_of(message), node) == ("answers", 2, 4)
        return "lost" if is_it else None

    grid = LocalGrid(make_app(n_examples=WEIGHTS), N_CLIENTS, fault=fault)
    result = run(grid, n_rounds=2, **FEDIAC)
    model, _, _ = in_memory("fediac", FEDIAC, 2, [(2, 3)], weights=WEIGHTS)
    require_same(result.arrays, model)


def test_equal_weights_are_no_weights() -> None:
    grid = LocalGrid(make_app(), N_CLIENTS)
    model, _, _ = in_memory("fediac", FEDIAC, 3)
    require_same(run(grid, **FEDIAC).arrays, model)


def test_they_take_one_message_round_more() -> None:
    grid = LocalGrid(make_app(n_examples=WEIGHTS), N_CLIENTS)
    result = run(grid, n_rounds=1, bits=12, **FEDIAC)
    to_one = [asks(each) for each in grid.sent if each.metadata.dst_node_id == 1]
    assert to_one == ["train", "answers", "answers", "settle"]
    sent = result.train_metrics_clientapp[1]
    assert sent["fediac-bytes-weights-up"] == 4 * N_CLIENTS


def test_the_strategy_says_which_metric_it_weighs_by() -> None:
    grid = LocalGrid(make_app(n_examples=WEIGHTS), N_CLIENTS)
    with pytest.raises(ConfigError) as caught:
        run(grid, own=FedAvg(weighted_by_key="n"), **FEDIAC)
    assert str(caught.value) == (
        "node 1 refuses: train must reply with the metric 'n', by which clients count "
        "with weights='examples'"
    )


def test_a_client_without_examples_is_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    grid = LocalGrid(make_app(n_examples=(31.0, 2, 0, 500)), N_CLIENTS)
    result = run(grid, n_rounds=1, **FEDIAC)
    model, _, _ = in_memory("fediac", FEDIAC, 1, [(1, 2)], weights=WEIGHTS)
    require_same(result.arrays, model)
    assert "num-examples must be at least 1, got 0" in caplog.text


@pytest.mark.parametrize("said", [2.5, float("inf")])
def test_what_is_no_whole_number_is_left_out(
    caplog: pytest.LogCaptureFixture, said: float
) -> None:
    grid = LocalGrid(make_app(n_examples=(31, 2, said, 500)), N_CLIENTS)
    result = run(grid, n_rounds=1, **FEDIAC)
    assert result.train_metrics_clientapp[1]["fediac-members"] == 3
    assert f"num-examples must be a whole number, got {said}" in caplog.text


def test_another_word_for_weights_is_refused() -> None:
    with pytest.raises(ArgumentError) as caught:
        CompressedStrategy(FedAvg(), weights="num-examples")
    assert str(caught.value) == (
        "weights must be equal or examples, got 'num-examples'"
    )
