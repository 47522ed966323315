"""Servers and nodes that are killed and come back: nothing lost, nothing twice."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message, RecordDict
from flwr.serverapp.strategy import FedAdam, FedAvg

from fediac.errors import ConfigError, RunError
from fediac.flower import CompressedStrategy
from fediac.flower.holdings import FOLDER_KEY
from tests.flower.apps import N_CLIENTS, SEED, in_memory, make_app, record_of, start
from tests.flower.local_grid import LocalGrid
from tests.flower.test_rounds import FEDIAC, asks, require_same, round_of


class Killed(BaseException):
    """In place of SIGKILL: nothing may catch it."""


def nodes_with_folders(folder: Path) -> dict[int, dict[str, str]]:
    return {
        node: {FOLDER_KEY: str(folder / f"node{node}")}
        for node in range(1, N_CLIENTS + 1)
    }


def strategy_in(folder: Path | None, make: Any = None) -> CompressedStrategy:
    own = make() if make else FedAvg(fraction_evaluate=0.0)
    return CompressedStrategy(own, seed=SEED, folder=folder, **FEDIAC)


def forget_state(grid: LocalGrid, node: int) -> None:
    """As when a SuperNode ends: Flower keeps its state in memory only."""
    grid.contexts[node].state = RecordDict()


def test_a_node_that_comes_back_goes_on_with_its_residual(tmp_path: Path) -> None:
    def fault(_node: int, _message: Message) -> str | None:
        for each in grid.contexts:  # all SuperNodes are new for every message
            forget_state(grid, each)
        return None

    grid = LocalGrid(make_app(), N_CLIENTS, fault=fault)
    grid.node_config = nodes_with_folders(tmp_path)
    result = strategy_in(None).start(grid, record_of(start()), num_rounds=3)
    model, _, _ = in_memory("fediac", FEDIAC, 3)
    require_same(result.arrays, model)


def test_a_node_without_a_folder_begins_anew_and_gets_the_model() -> None:
    def fault(node: int, message: Message) -> str | None:
        if (node, round_of(message), asks(message)) == (2, 2, "train"):
            forget_state(grid, 2)
        return None

    grid = LocalGrid(make_app(), N_CLIENTS, fault=fault)
    result = strategy_in(None).start(grid, record_of(start()), num_rounds=2)
    assert result.train_metrics_clientapp[2]["fediac-members"] == N_CLIENTS
    sizes = [
        "arrays" in each.content.array_records
        for each in grid.sent
        if round_of(each) == 2 and each.metadata.dst_node_id == 2
    ]
    assert sizes[:2] == [False, True]


@pytest.mark.parametrize("at", ["train", "answers", "commit"])
def test_a_server_that_is_killed_goes_on_from_its_journal(
    tmp_path: Path, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = LocalGrid(make_app(), N_CLIENTS)
    grid.node_config = nodes_with_folders(tmp_path)
    first = strategy_in(tmp_path / "server")

    def fault(node: int, message: Message) -> str | None:
        if round_of(message) == 2 and asks(message) == at and node == 2:
            raise Killed
        return None

    def die(*_: object) -> None:
        raise Killed

    grid.fault = fault
    if at == "commit":  # it is in the journal, and nobody has heard of it
        metrics = "fediac.flower.metrics.RoundMetrics.name_session"
        monkeypatch.setattr(metrics, die)
    with pytest.raises(Killed):
        first.start(grid, record_of(start()), num_rounds=3)
    monkeypatch.undo()
    grid.fault = lambda _node, _message: None
    again = strategy_in(tmp_path / "server")
    result = again.start(grid, record_of(start()), num_rounds=3)
    model, _, _ = in_memory("fediac", FEDIAC, 3)
    require_same(result.arrays, model)
    assert max(result.train_metrics_clientapp) == 3


def test_a_server_optimizer_goes_on_with_its_momentum(tmp_path: Path) -> None:
    def make() -> FedAdam:
        return FedAdam(fraction_evaluate=0.0, eta=0.01)

    whole = strategy_in(None, make).start(
        LocalGrid(make_app(), N_CLIENTS), record_of(start()), num_rounds=4
    )
    grid = LocalGrid(make_app(), N_CLIENTS)
    for n_rounds in (2, 4):
        result = strategy_in(tmp_path, make).start(
            grid, record_of(start()), num_rounds=n_rounds
        )
    found = {name: each.numpy() for name, each in result.arrays.items()}
    for name, each in whole.arrays.items():
        assert np.array_equal(found[name], each.numpy()), name


def test_a_job_that_is_over_trains_nothing_more(tmp_path: Path) -> None:
    grid = LocalGrid(make_app(), N_CLIENTS)
    done = strategy_in(tmp_path).start(grid, record_of(start()), num_rounds=2)
    n_sent = len(grid.sent)
    again = strategy_in(tmp_path).start(grid, record_of(start()), num_rounds=2)
    assert len(grid.sent) == n_sent
    require_same(again.arrays, {k: v.numpy() for k, v in done.arrays.items()})


def test_a_folder_is_one_server_s_at_a_time(tmp_path: Path) -> None:
    def fault(_node: int, _message: Message) -> str | None:
        with pytest.raises(RunError):
            strategy_in(tmp_path).start(grid, record_of(start()), num_rounds=1)
        return None

    grid = LocalGrid(make_app(), N_CLIENTS, fault=fault)
    strategy_in(tmp_path).start(grid, record_of(start()), num_rounds=1)


def test_a_folder_of_another_model_is_refused(tmp_path: Path) -> None:
    grid = LocalGrid(make_app(), N_CLIENTS)
    strategy_in(tmp_path).start(grid, record_of(start()), num_rounds=1)
    other = {**start(), "head.bias": np.zeros(11, dtype=np.float32)}
    with pytest.raises(ConfigError) as caught:
        strategy_in(tmp_path).start(grid, record_of(other), num_rounds=2)
    assert str(caught.value) == (
        "folder has a model with other arrays than initial_arrays; take another "
        "folder for another model"
    )
