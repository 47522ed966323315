"""Examples run as their docstrings say."""

import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fediac
from fediac.plugins import make_own

EXAMPLES = Path(__file__).parents[2] / "examples"


def run_example(name: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py"],
        capture_output=True,
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
