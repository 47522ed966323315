"""What many simulated nodes keep is in files: memory does not grow by them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.flower.simulated_memory import DIM, N_ROUNDS, N_SAMPLED

FROM_ROUND = 4
"""Until then Flower, Ray and the first messages take what they need."""

RESIDUALS = 4 * DIM * N_SAMPLED * (N_ROUNDS - FROM_ROUND)
"""Bytes of the residuals of all nodes that are new between the two looks."""


def growth(nodes_folder: str, folder: Path) -> int:
    """Return by how many bytes a simulation grows in its later rounds."""
    quiet = {
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "PYTHONWARNINGS": "ignore",
        "OMP_NUM_THREADS": "1",
        "TMPDIR": str(folder),
    }
    command = [sys.executable, "-m", "tests.flower.simulated_memory", nodes_folder]
    done = subprocess.run(
        command, env=os.environ | quiet, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    (line,) = (each for each in done.stdout.splitlines() if each.startswith("said "))
    said = json.loads(line.removeprefix("said "))
    assert said["members"] == [N_SAMPLED] * N_ROUNDS
    n_bytes: int = said["bytes"][-1] - said["bytes"][FROM_ROUND]
    return n_bytes


@pytest.mark.parametrize(
    ("nodes_folder", "is_flat"), [("auto", True), ("memory", False)]
)
def test_memory_does_not_grow_by_nodes_that_are_new(
    tmp_path_factory: pytest.TempPathFactory, nodes_folder: str, is_flat: object
) -> None:
    folder = tmp_path_factory.mktemp("t")  # Ray's sockets want a short path
    grown = growth(nodes_folder, folder)
    assert (grown < RESIDUALS / 4) == is_flat
    assert (grown > RESIDUALS) != is_flat
    assert not list(folder.glob("fediac-nodes-*"))  # nothing is left
