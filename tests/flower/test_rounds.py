"""Rounds over Flower messages are those of `fediac.aggregate`, whoever fails."""

from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord, MetricRecord
from flwr.serverapp.strategy import FedAdam, FedAvg, FedAvgM, FedProx, Krum

from fediac.errors import ArgumentError
from fediac.flower import CompressedStrategy
from tests.flower.apps import (
    N_CLIENTS,
    SEED,
    in_memory,
    make_app,
    record_of,
    start,
)
from tests.flower.local_grid import LocalGrid

FEDIAC: dict[str, Any] = {"n_votes": "20%", "threshold": 2}


def asks(message: Any) -> Any:
    return message.content.config_records["fediac"]["ask"]


def round_of(message: Any) -> Any:
    return message.content.config_records["fediac"]["round"]


def has_model(message: Any) -> Any:
    return "arrays" in message.content.array_records


def require_same(record: Any, model: Any) -> None:
    found = {key: each.numpy() for key, each in record.items()}
    assert list(found) == list(model)
    for name, each in model.items():
        assert found[name].dtype == each.dtype
        assert found[name].tobytes() == each.tobytes(), name


def require_residuals(grid: Any, states: Any) -> None:
    for node, state in enumerate(states, start=1):
        kept = grid.context(node).state["fediac.kept.residual"]
        if state.residual is None:
            assert not kept
        else:
            assert kept["residual"].numpy().tobytes() == state.residual.tobytes()


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        ("fediac", {"n_votes": "20%", "threshold": 2}),
        (
            "fediac",
            {"n_votes": "20%", "threshold": 2, "bits": "coarse", "lanes": "dense"},
        ),
        ("switchml", {}),
        ("omnireduce", {}),
        ("libra", {"hot": np.arange(0, 600, 7)}),
        ("fedavg", {}),
        ("topk", {}),
    ],
)
def test_mean_and_residuals_are_those_of_aggregate(
    algorithm: Any, settings: Any
) -> None:
    n_rounds = 3
    model, states, history = in_memory(algorithm, settings, n_rounds)
    grid = LocalGrid(make_app(), N_CLIENTS)
    strategy = CompressedStrategy(FedAvg(), algorithm, seed=SEED, **settings)
    result = strategy.start(grid, record_of(start()), num_rounds=n_rounds)
    require_same(result.arrays, model)
    require_residuals(grid, states)
    for number, each in enumerate(history, start=1):
        metrics = result.train_metrics_clientapp[number]
        assert metrics["fediac-gamma"] == pytest.approx(each.facts.gamma, abs=1e-12)
        assert metrics["fediac-chosen"] == each.facts.chosen
        assert metrics["loss"] == 0.5


def test_a_round_takes_two_messages_and_no_model_down() -> None:
    grid = LocalGrid(make_app(), N_CLIENTS)
    strategy = CompressedStrategy(FedAvg(), seed=SEED, bits=12, **FEDIAC)
    strategy.start(grid, record_of(start()), num_rounds=2)
    second = [each for each in grid.sent if round_of(each) == 2]
    to_one = [asks(each) for each in second if each.metadata.dst_node_id == 1]
    assert to_one == ["train", "answers", "evaluate"]
    assert not any(has_model(each) for each in second)
    first = [each for each in grid.sent if round_of(each) == 1]
    assert sum(has_model(each) for each in first) == N_CLIENTS


def test_bytes_are_counted_by_phase() -> None:
    grid = LocalGrid(make_app(), N_CLIENTS)
    strategy = CompressedStrategy(FedAvg(), seed=SEED, bits=12, **FEDIAC)
    result = strategy.start(grid, record_of(start()), num_rounds=2)
    first, second = (result.train_metrics_clientapp[i] for i in (1, 2))
    dim = 20 * 30 + 10
    assert second["fediac-bytes-votes-up"] == N_CLIENTS * -(-dim // 8)
    assert second["fediac-bytes-votes-down"] == N_CLIENTS * -(-dim // 8)
    n_chosen = second["fediac-chosen"]
    assert second["fediac-bytes-levels-up"] == N_CLIENTS * -(-n_chosen * 12 // 8)
    assert second["fediac-bytes-statistics-up"] == N_CLIENTS * 32 * 3
    assert "fediac-bytes-model-down" not in second
    model_bytes = sum(np.asarray(each).nbytes for each in start().values())
    assert first["fediac-bytes-model-down"] == N_CLIENTS * model_bytes


@pytest.mark.parametrize("how", ["error", "lost"])
@pytest.mark.parametrize("when", ["train", "answers"])
def test_a_client_that_fails_is_absent_and_loses_nothing(when: Any, how: Any) -> Any:
    absent = [(2, 2)]

    def fault(node: Any, message: Any) -> Any:
        is_it = (round_of(message), node) == (2, 3) and asks(message) == when
        return how if is_it else None

    grid = LocalGrid(make_app(), N_CLIENTS, fault=fault)
    strategy = CompressedStrategy(FedAvg(fraction_evaluate=0.0), seed=SEED, **FEDIAC)
    result = strategy.start(grid, record_of(start()), num_rounds=2, timeout=0.01)
    model, _, _ = in_memory("fediac", FEDIAC, 2, absent)
    require_same(result.arrays, model)
    assert result.train_metrics_clientapp[2]["fediac-members"] == 3
    assert result.train_metrics_clientapp[2]["fediac-lost"] == 1
    kept = grid.context(3).state
    if when == "answers":  # it has trained, and its update is still in its hands
        assert kept["fediac.kept.numbers"]["work.round"] == 2
        assert kept["fediac.kept.work"]["learned"].numpy().any()
    else:  # it has not heard of that round at all
        assert kept["fediac.kept.numbers"]["work.round"] == 1


def test_what_was_not_counted_goes_into_the_residual() -> Any:
    seen: dict[Any, Any] = {}

    def fault(node: Any, message: Any) -> Any:
        if node != 3 or asks(message) != "answers":
            return None
        state = grid.context(3).state
        for name, key in (("work", "learned"), ("residual", "residual")):
            record = state.array_records[f"fediac.kept.{name}"]
            seen[name, round_of(message)] = record[key].numpy() if record else None
        return "lost" if round_of(message) == 2 else None

    grid = LocalGrid(make_app(), N_CLIENTS, fault=fault)
    strategy = CompressedStrategy(FedAvg(fraction_evaluate=0.0), seed=SEED, **FEDIAC)
    strategy.start(grid, record_of(start()), num_rounds=3, timeout=0.01)
    left = seen["residual", 2] + seen["work", 2]
    assert np.array_equal(seen["residual", 3], left)
    model_again = [
        each.metadata.dst_node_id
        for each in grid.sent
        if round_of(each) == 3 and has_model(each)
    ]
    assert model_again == [3]


def test_a_round_with_too_few_clients_is_given_up() -> Any:
    def fault(node: Any, message: Any) -> Any:
        is_it = round_of(message) == 1 and asks(message) == "answers"
        return "error" if is_it and node != 1 else None

    grid = LocalGrid(make_app(), N_CLIENTS, fault=fault)
    strategy = CompressedStrategy(
        FedAvg(fraction_evaluate=0.0), seed=SEED, enough=2, **FEDIAC
    )
    result = strategy.start(grid, record_of(start()), num_rounds=2)
    assert 1 not in result.train_metrics_clientapp
    assert result.train_metrics_clientapp[2]["fediac-members"] == N_CLIENTS


@pytest.mark.parametrize(
    "make",
    [
        lambda: FedProx(proximal_mu=0.1),
        lambda: FedAdam(eta=0.01),
        lambda: FedAvgM(server_momentum=0.9),
    ],
)
def test_the_strategy_that_is_there_gets_the_mean(make: Any) -> None:
    grid = LocalGrid(make_app(), N_CLIENTS)
    strategy = CompressedStrategy(make(), seed=SEED, **FEDIAC)
    result = strategy.start(grid, record_of(start()), num_rounds=1)
    by_hand = make()
    by_hand.configure_train(1, record_of(start()), ConfigRecord(), grid)
    model, _, _ = in_memory("fediac", FEDIAC, 1)
    reply = grid.sent[0]
    reply.content["arrays"] = record_of(model)
    reply.content["metrics"] = MetricRecord({"num-examples": 1})
    for name in list(reply.content):
        if name not in ("arrays", "metrics"):
            del reply.content[name]
    expected, _ = by_hand.aggregate_train(1, [reply])
    for name, each in result.arrays.items():
        if each.numpy().dtype.kind == "f":
            wanted = expected[name].numpy().astype(np.float32)
            assert np.array_equal(each.numpy(), wanted), name


def test_a_server_optimizer_s_model_goes_down_to_clients() -> None:
    grid = LocalGrid(make_app(), N_CLIENTS)
    strategy = CompressedStrategy(FedAdam(eta=0.01), seed=SEED, **FEDIAC)
    result = strategy.start(grid, record_of(start()), num_rounds=2)
    assert result.train_metrics_clientapp[2]["fediac-bytes-model-down"] > 0
    total = sum(float(each.numpy().sum()) for each in result.arrays.values())
    assert result.evaluate_metrics_clientapp[2]["total"] == pytest.approx(total)


def test_a_strategy_that_looks_at_each_model_is_refused() -> None:
    with pytest.raises(ArgumentError) as caught:
        CompressedStrategy(Krum())
    assert str(caught.value) == (
        "strategy must be one that needs the mean alone, such as FedAvg, FedProx or "
        "FedAdam, got Krum, which looks at each model"
    )


def test_once_enough_have_replied_others_are_waited_for_a_while_only() -> Any:
    def fault(node: Any, message: Any) -> Any:
        return "lost" if node == 4 and asks(message) == "train" else None

    grid = LocalGrid(make_app(), N_CLIENTS, fault=fault)
    strategy = CompressedStrategy(
        FedAvg(fraction_evaluate=0.0), enough=3, grace_s=0.05, **FEDIAC
    )
    result = strategy.start(grid, record_of(start()), num_rounds=1)  # timeout: 1 h
    assert result.train_metrics_clientapp[1]["fediac-members"] == 3


def test_where_most_are_away_nobody_keeps_a_model() -> None:
    grid = LocalGrid(make_app(), 12)
    own = FedAvg(fraction_train=1 / 4, fraction_evaluate=0.0, min_available_nodes=12)
    strategy = CompressedStrategy(own, seed=SEED, **FEDIAC)
    result = strategy.start(grid, record_of(start()), num_rounds=4)
    assert result.train_metrics_clientapp[4]["fediac-members"] == 3
    for context in grid.contexts.values():
        assert not context.state.array_records["fediac.kept.model"]
    trained = [each for each in grid.sent if asks(each) == "train"]
    assert all(has_model(each) for each in trained if round_of(each) > 1)
