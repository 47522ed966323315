"""Examples run as their docstrings say."""

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_own_compressor_runs_and_voting_beats_chance() -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "own_compressor.py"],
        capture_output=True,
        text=True,
        check=True,
    )
    voted, blind = done.stdout.splitlines()
    assert voted.startswith("fediac")
    assert blind.startswith("random-k")
    assert float(voted.split()[-1]) < 0.8 * float(blind.split()[-1])


def test_own_model_learns_in_ten_rounds() -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "own_model.py"],
        capture_output=True,
        text=True,
        check=True,
    )
    accuracies = [
        float(line.split("accuracy ")[1].split(",")[0])
        for line in done.stdout.splitlines()
    ]
    assert len(accuracies) == 10
    assert accuracies[-1] > 0.9
