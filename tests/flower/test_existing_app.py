"""The ordinary app of the examples, and the diff that adds FediAC to it."""

import importlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, RecordDict

from tests.flower.local_grid import LocalGrid

FOLDER = Path(__file__).parents[2] / "examples" / "flower_existing"
DIFF = FOLDER / "fediac.diff"
N_NODES = 4


def test_the_diff_is_at_most_ten_lines() -> None:
    lines = DIFF.read_text().splitlines()
    changed = [each for each in lines if each[:1] in "+-" and each[:3] not in _HEADS]
    assert 0 < len(changed) <= 10


_HEADS = ("+++", "---")


def run_app(
    folder: Path, monkeypatch: pytest.MonkeyPatch, **config: Any
) -> tuple[LocalGrid, Any]:
    """Run the app that lies in a folder; return the grid and what it started."""
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    for name in [each for each in sys.modules if each.startswith("pytorchexample")]:
        monkeypatch.delitem(sys.modules, name)
    client = importlib.import_module("pytorchexample.client_app").app
    server = importlib.import_module("pytorchexample.server_app")
    grid = LocalGrid(client, N_NODES)
    run_config = {
        "num-server-rounds": 2,
        "fraction-evaluate": 1.0,
        "local-epochs": 1,
        "learning-rate": 0.05,
        "batch-size": 32,
        **config,
    }
    grid.run_config = run_config
    for node in range(1, N_NODES + 1):
        grid.node_config[node] = {"num-partitions": str(2 * N_NODES)}
    results = []
    own = server.FedAvg.start

    def start(self: Any, *args: Any, **kwargs: Any) -> Any:
        results.append(own(self, *args, **kwargs))
        return results[-1]

    strategies = importlib.import_module("flwr.serverapp.strategy.strategy")
    monkeypatch.setattr(strategies.Strategy, "start", start)
    context = Context(
        run_id=1,
        node_id=0,
        node_config={},
        state=RecordDict(),
        run_config=run_config,
    )
    server.app(grid, context)
    assert Path("final_model.pt").exists()
    return grid, results[0]


def n_model_messages(grid: LocalGrid, number: int) -> int:
    """Return how many messages of a round had a model."""
    return sum(
        "arrays" in each.content.array_records
        for each in grid.sent
        if (each.content.config_records.get("config") or {}).get("server-round")
        == number
    )


def test_the_app_trains_with_and_without_the_diff(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accuracies = {}
    for name in ("before", "after"):
        folder = tmp_path / name
        shutil.copytree(FOLDER, folder)
        if name == "after":
            command = ["git", "apply", "-p1", str(DIFF)]
            subprocess.run(command, cwd=folder, check=True, timeout=60)
        with monkeypatch.context() as patch:
            grid, result = run_app(folder, patch)
        accuracies[name] = result.evaluate_metrics_clientapp[2]["eval_acc"]
        n_models = n_model_messages(grid, 2)
        assert n_models == (0 if name == "after" else 2 * N_NODES)
    metrics = result.train_metrics_clientapp[2]
    assert metrics["fediac-members"] == N_NODES
    assert metrics["fediac-bytes-statistics-up"] > 0
    assert accuracies["before"] > 0.6
    assert accuracies["after"] > 0.4
