"""Simulated nodes may keep what they hold in files: the rounds are the same."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Message, RecordDict
from flwr.serverapp.strategy import FedAvg

from fediac.flower import CompressedStrategy, nodes_folder
from fediac.flower.holdings import FOLDER_KEY
from fediac.flower.nodes_folder import MARK, NodesFolder
from tests.flower.apps import N_CLIENTS, SEED, in_memory, make_app, record_of, start
from tests.flower.local_grid import LocalGrid
from tests.flower.test_rounds import FEDIAC, asks, require_same, round_of


class InMemoryGrid(LocalGrid):
    """A grid that is called as Flower's for simulations is."""


def run(grid: LocalGrid, n_rounds: int = 3, **settings: Any) -> Any:
    own = FedAvg(fraction_evaluate=0.0)
    strategy = CompressedStrategy(own, seed=SEED, **FEDIAC, **settings)
    return strategy.start(grid, record_of(start()), num_rounds=n_rounds, timeout=5)


def n_bytes(state: RecordDict) -> int:
    records = state.array_records.values()
    return sum(len(each.data) for record in records for each in record.values())


def test_rounds_are_the_same_and_states_have_nothing_but_a_place(
    tmp_path: Path,
) -> None:
    grid = LocalGrid(make_app(), N_CLIENTS)
    result = run(grid, nodes_folder=tmp_path / "nodes")
    model, _, _ = in_memory("fediac", FEDIAC, 3)
    require_same(result.arrays, model)
    for context in grid.contexts.values():
        assert n_bytes(context.state) == 0
        assert list(context.state) == ["fediac.kept.place"]
        place = Path(str(context.state.config_records["fediac.kept.place"]["folder"]))
        assert place.name == str(context.node_config["partition-id"])
        assert (place / "holdings").exists()
    in_state = LocalGrid(make_app(), N_CLIENTS)
    run(in_state, nodes_folder="memory")
    assert all(n_bytes(each.state) > 0 for each in in_state.contexts.values())


def test_a_simulation_that_is_started_again_goes_on_with_its_residuals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes_folder, "MANY", N_CLIENTS)
    for n_rounds in (2, 3):  # with new nodes, whose states are empty
        grid = InMemoryGrid(make_app(), N_CLIENTS)
        result = run(grid, n_rounds, folder=tmp_path)
    model, _, _ = in_memory("fediac", FEDIAC, 3)
    require_same(result.arrays, model)
    assert (tmp_path / "nodes" / MARK).exists()


def test_only_simulations_of_many_nodes_have_files_by_themselves(
    tmp_path: Path,
) -> None:
    def told(grid: LocalGrid, n_nodes: int, setting: str = "auto") -> str:
        found = NodesFolder(setting, tmp_path)
        found.begin(grid)
        return found.path_for(range(n_nodes))

    few, many = nodes_folder.MANY - 1, nodes_folder.MANY
    simulated, other = InMemoryGrid(make_app()), LocalGrid(make_app())
    assert told(simulated, few) == told(other, many) == ""
    assert told(simulated, many) == str(tmp_path / "nodes")
    assert told(simulated, many, "memory") == ""


def test_a_folder_that_nobody_named_goes_with_the_strategy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    found = NodesFolder("auto", None)
    found.begin(InMemoryGrid(make_app()))
    path = Path(found.path_for(range(nodes_folder.MANY)))
    assert path.parent == tmp_path
    assert path.exists()
    del found
    assert not path.exists()


def test_a_node_elsewhere_obeys_its_own_config_and_no_unmarked_folder(
    tmp_path: Path,
) -> None:
    named, marked = tmp_path / "named", tmp_path / "marked"
    grid = LocalGrid(make_app(), N_CLIENTS)
    grid.node_config = {1: {FOLDER_KEY: str(tmp_path / "own")}}

    def fault(_node: int, _message: Message) -> str | None:
        (named / MARK).unlink(missing_ok=True)  # as on a machine without the folder
        return None

    grid.fault = fault
    result = run(grid, nodes_folder=named)
    model, _, _ = in_memory("fediac", FEDIAC, 3)
    require_same(result.arrays, model)
    assert list((tmp_path / "own").glob("*/holdings"))
    assert not list(named.iterdir())
    grid.fault = lambda _node, _message: None
    run(grid, nodes_folder=marked)  # another job: all but that with its own folder
    assert len(list(marked.glob("*/*/holdings"))) == N_CLIENTS - 1


def test_where_a_node_has_begun_to_keep_it_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "nodes"

    def fault(_node: int, message: Message) -> str | None:
        if round_of(message) == 1:
            (folder / MARK).unlink(missing_ok=True)
        else:
            (folder / MARK).touch()
        return None

    grid = LocalGrid(make_app(), N_CLIENTS, fault=fault)
    result = run(grid, nodes_folder=folder)
    model, _, _ = in_memory("fediac", FEDIAC, 3)
    require_same(result.arrays, model)
    assert all(n_bytes(each.state) > 0 for each in grid.contexts.values())


def test_files_that_are_gone_are_named_and_not_begun_anew(tmp_path: Path) -> None:
    folder = tmp_path / "nodes"
    problems: list[str] = []

    def fault(node: int, message: Message) -> str | None:
        if (node, round_of(message), asks(message)) == (3, 2, "train"):
            shutil.rmtree(next(folder.glob("*/2")))
            with pytest.raises(Exception, match="on this machine") as caught:
                grid.app(message, grid.context(3))
            problems.append(str(caught.value))
        return "error" if node == 3 and problems else None  # as Flower makes of it

    grid = LocalGrid(make_app(), N_CLIENTS, fault=fault)
    result = run(grid, 2, nodes_folder=folder)
    assert result.train_metrics_clientapp[2]["fediac-members"] == N_CLIENTS - 1
    (problem,) = problems
    assert "nodes_folder must be on a disk that they share, or 'memory'" in problem
