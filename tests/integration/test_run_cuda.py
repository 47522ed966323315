"""Runs on a GPU repeat themselves, and go on after a kill to the same bits.

Skipped by name on machines without CUDA; CI has none.
"""

from pathlib import Path
from typing import Any

import pytest
import torch

from fediac.runs.loop import run_experiment
from tests.integration.test_run import (
    CASES,
    KillAt,
    KilledError,
    outcome,
    settings_of,
)

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no CUDA device on this machine"
)

ALGORITHMS = ("fediac", "fediac, recalibrated", "libra", "fedavg")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_killed_run_goes_on_to_the_same_bits(tmp_path: Path, name: str) -> None:
    train = CASES[name].get("train", {}) | {"device": "cuda", "n_at_once": 2}
    settings = settings_of(tmp_path, name, train=train)
    run_experiment(settings, tmp_path / "whole", resumes=False)
    expected = outcome(tmp_path / "whole")
    # Three clients and the round itself make four events a round.
    for n_events in (2, 4, 7):
        folder = tmp_path / f"killed after {n_events}"
        with pytest.raises(KilledError):
            run_experiment(settings, folder, resumes=False, observer=KillAt(n_events))
        run_experiment(settings, folder, resumes=True)
        assert outcome(folder) == expected


@pytest.mark.parametrize("n_at_once", [1, 3])
def test_bits_do_not_depend_on_the_number_of_streams(
    tmp_path: Path, n_at_once: int
) -> None:
    alone = settings_of(tmp_path, train={"device": "cuda", "n_at_once": 2})
    together = settings_of(tmp_path, train={"device": "cuda", "n_at_once": n_at_once})
    for settings, name in ((alone, "alone"), (together, "together")):
        run_experiment(settings, tmp_path / name, resumes=False)
    first, second = outcome(tmp_path / "alone"), outcome(tmp_path / "together")
    assert first["model"] == second["model"]
    assert first["lines"] == second["lines"]


def test_linear_layers_of_replicas_do_not_disturb_each_other(tmp_path: Path) -> None:
    """Their sums are split over a workspace, which each replica must have alone."""
    tables: dict[str, Any] = {
        "data": {"name": "digits"},
        "model": {"name": "femnist-cnn"},  # its first linear layer sums 3,136 products
        "clients": {"n_clients": 8},
    }
    runs: list[dict[str, Any]] = []
    for n_at_once in (8, 8, 1):
        train = {"steps": 20, "batch_size": 50, "n_at_once": n_at_once}
        tables["train"] = {"device": "cuda", **train}
        settings = settings_of(tmp_path, "fedavg", **tables)
        folder = tmp_path / f"run {len(runs)}"
        run_experiment(settings, folder, resumes=False)
        runs.append(outcome(folder))
    assert runs[0]["lines"] == runs[1]["lines"] == runs[2]["lines"]
    assert runs[0]["model"] == runs[1]["model"] == runs[2]["model"]
