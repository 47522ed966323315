"""Examples run as their docstrings say."""

import ast
import copy
import os
import re
import runpy
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import fediac
from fediac.plugins import make_own
from tests.switches import running_switch

EXAMPLES = Path(__file__).parents[2] / "examples"


def run_example(name: str, folder: Path | None = None) -> list[str]:
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py"],
        capture_output=True,
        cwd=folder,
        env=os.environ | {"PYTHONUTF8": "1"},
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_own_compressor_runs_and_voting_beats_chance() -> None:
    voted, blind = run_example("own_compressor")
    assert voted.startswith("fediac")
    assert blind.startswith("random-k")
    assert float(voted.split()[-1]) < 0.8 * float(blind.split()[-1])


def test_own_compressor_keeps_states_in_rounds_that_send_nothing() -> None:
    random_k = runpy.run_path(str(EXAMPLES / "own_compressor.py"))["RandomK"]
    zeros = [np.zeros(64, dtype=np.float32)] * 2
    settings = {"compressor": random_k(2, 0.5), "seed": 1}
    first = fediac.aggregate(zeros, round_number=1, **settings)
    again = fediac.aggregate(zeros, round_number=2, states=first.states, **settings)
    assert not again.mean.any()
    for state in again.states:
        assert np.array_equal(np.asarray(state.residual), zeros[0])


def test_commands_take_own_compressor_by_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(EXAMPLES.parent)
    made = make_own("examples.own_compressor:RandomK", n_clients=2, dim=64)
    assert made.n_clients == 2


def test_own_momentum_adds_a_share_of_earlier_updates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(EXAMPLES.parent)
    made = make_own("examples.own_momentum:momentum", n_clients=3, dim=64)
    updates = [np.linspace(-1, i, 64, dtype=np.float32) for i in (1, 2, 3)]
    first = fediac.aggregate(updates, made, seed=1, round_number=1)
    second = fediac.aggregate(
        updates, made, seed=1, round_number=2, states=first.states
    )
    for update, before, after in zip(updates, first.states, second.states, strict=True):
        assert np.array_equal(before.extras["velocity"], update)
        assert np.array_equal(after.extras["velocity"], np.float32(1.5) * update)
        assert after.bits == before.bits


@pytest.mark.parametrize(("name", "reached"), [("own_model", 0.9), ("plain_loop", 0.8)])
def test_model_learns_in_ten_rounds(name: str, reached: float) -> None:
    lines = run_example(name)
    accuracies = [float(line.split("accuracy ")[1].split(",")[0]) for line in lines]
    assert len(accuracies) == 10
    assert accuracies[-1] > reached


def count_lines(code: str) -> int:
    """Lines of code: neither empty nor of a docstring or comment."""
    texts = [
        node
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    ]
    quiet = {
        i for each in texts for i in range(each.lineno, (each.end_lineno or 0) + 1)
    }
    lines = enumerate(code.splitlines(), start=1)
    return sum(
        bool(line.strip()) and not line.lstrip().startswith("#") and number not in quiet
        for number, line in lines
    )


def test_own_model_on_unequal_clients_is_compared_in_twenty_lines(
    tmp_path: Path,
) -> None:
    assert count_lines((EXAMPLES / "compare_own.py").read_text()) <= 20
    lines = run_example("compare_own", tmp_path)
    accuracy, mib = {}, {}
    for name in ("fediac", "fedavg"):
        cells = next(line for line in lines if name in line).split("\u2502")
        accuracy[name] = float(cells[3].strip(" %"))
        mib[name] = float(cells[4])
    assert min(accuracy.values()) > 85.0
    assert mib["fediac"] < mib["fedavg"] / 3
    assert "2 algorithms: own data, Sequential" in (tmp_path / "report.html").read_text(
        encoding="utf-8"
    )


def test_state_dicts_are_aggregated_in_five_lines_of_the_readme() -> None:
    readme = (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    (code,) = [each for each in blocks if "base=model.state_dict()" in each]
    assert count_lines(code) <= 5
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    clients = [copy.deepcopy(model) for _ in range(2)]
    with torch.no_grad():
        for each in clients:
            each.get_parameter("0.weight").sub_(1.0)
            each[1](torch.ones(2, 4))
    before = copy.deepcopy(model.state_dict())
    compressor = fediac.FediAC(2, n_votes="100%", threshold=1, bits=20, law="topk")
    names = {"model": model, "clients": clients, "compressor": compressor}
    exec(code, {"fediac": fediac, "states": None, **names})
    # A level is 2**-18 of the largest change, which is 1.
    change = before["0.weight"] - model.state_dict()["0.weight"]
    assert torch.allclose(change, torch.ones(4, 3), atol=1e-4)
    assert torch.allclose(model.state_dict()["1.running_mean"], torch.full((4,), 0.1))


def test_the_command_reports_on_the_folder_of_an_experiment(tmp_path: Path) -> None:
    x = torch.linspace(-1.0, 1.0, 60).reshape(20, 3)
    data = (x, (x[:, 0] > 0).long())
    experiment = fediac.Experiment(
        lambda: nn.Linear(3, 2),
        train=data,
        test=data,
        compressor=fediac.FedAvg(2),
        out=tmp_path / "run",
    )
    list(experiment.run(2))
    page = tmp_path / "page.html"
    subprocess.run(
        [sys.executable, "-m", "fediac", "report", tmp_path / "run", "-o", page],
        check=True,
        capture_output=True,
    )
    assert "fedavg: own data, Linear" in page.read_text(encoding="utf-8")


def test_processes_that_meet_at_a_switch_end_with_the_same_model(
    tmp_path: Path,
) -> None:
    example = [sys.executable, str(EXAMPLES / "switch_clients.py")]
    with socket.create_server(("127.0.0.1", 0)) as server:
        where = f"127.0.0.1:{server.getsockname()[1]}"
    with running_switch() as switch:
        more = [where, str(switch.endpoint), str(tmp_path)]
        started = [
            subprocess.Popen([*example, role, *more], stdout=subprocess.PIPE, text=True)
            for role in ("conductor", "0", "1")
        ]
        try:
            said = [each.communicate(timeout=60)[0].splitlines() for each in started]
        finally:
            for each in started:
                each.kill()
    assert said[0] == [f"round {number}: (0, 1)" for number in range(1, 11)]
    ends = [line.removeprefix(f"client {i}: ") for i, (line,) in enumerate(said[1:])]
    assert ends[0] == ends[1]
    assert ends[0].startswith("10 rounds, [")
