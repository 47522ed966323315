"""Runs of a few milliseconds: twenty-pixel images, models of a few hundred weights."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
import torch
from torch import nn

from fediac.archives import open_place, read_bytes
from fediac.compressors import Compressor
from fediac.runs.settings import RunSettings, parse_run
from fediac.training.datasets import Dataset, Examples
from fediac.training.datasets.types import make_dataset
from fediac.training.federation import FederatedRound, Federation, Progress
from fediac.training.models import Shape

SHAPE = (1, 6, 6)
N_CLASSES = 3
N_TRAIN, N_TEST = 96, 30

CLOCK_FIELDS = ("train_s", "compress_s", "simulate_s", "evaluate_s", "real_s")
"""What two runs of the same settings may differ in: seconds on the wall."""


def plain_model(shape: Shape, n_classes: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(shape[0], 4, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(4 * shape[1] * shape[2], n_classes),
    )


def normed_model(shape: Shape, n_classes: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(shape[0], 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(4 * shape[1] * shape[2], n_classes),
    )


def make_examples(n: int, seed: int) -> Examples:
    """Images whose class shows: one of three rows is bright."""
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 128, (n, *SHAPE), dtype=np.uint8)
    labels = np.arange(n, dtype=np.int64) % N_CLASSES
    images[np.arange(n), :, 2 * labels] += 100
    return Examples(images, labels, (np.arange(n) // 8).astype(np.int32))


def tiny_dataset() -> Dataset:
    train, test = make_examples(N_TRAIN, 1), make_examples(N_TEST, 2)
    return make_dataset("tiny", train, test, n_classes=N_CLASSES)


def write_data(folder: Path) -> Path:
    """Write the data set where a run finds it by the name ``tiny``."""
    data = tiny_dataset()
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(
        folder / "tiny.npz",
        x_train=data.train.images,
        y_train=data.train.labels,
        w_train=np.arange(N_TRAIN),
        x_test=data.test.images,
        y_test=data.test.labels,
        w_test=np.arange(N_TEST),
    )
    return folder


def make_settings(folder: Path, **changes: Any) -> RunSettings:
    """Settings of a tiny run with its data in ``folder``.

    Args:
        folder: The data folder; the data are written there if they are missing.
        changes: Top-level settings; tables are merged into the defaults.
    """
    if not (folder / "tiny.npz").exists():
        write_data(folder)
    table: dict[str, Any] = {
        "data": {"name": "tiny", "folder": str(folder), "partition": "iid"},
        "model": {"name": "tests.tiny:plain_model"},
        "clients": {"n_clients": 3},
        "train": {"steps": 2, "batch_size": 8, "n_at_once": 2, "device": "cpu"},
        "network": {"rates": ["700"], "compute_s": 0.1},
        "stop": {"rounds": 3},
        "fediac": {"n_votes": "20%", "threshold": 2},
        "libra": {"n_sent": "5%", "hot_rounds": 1},
    }
    return parse_run(_merge(table, changes), source="test")


def write_config(folder: Path, **changes: Any) -> Path:
    """Write the settings of a run of one step, and its data; return their file.

    Args:
        folder: Gets ``tiny.toml`` and a folder ``data``.
        changes: Top-level settings; tables are merged into the defaults.
    """
    data = write_data(folder / "data")
    table: dict[str, Any] = {
        "data": {"name": "tiny", "folder": str(data), "partition": "iid"},
        "model": {"name": "tests.tiny:plain_model"},
        "clients": {"n_clients": 3},
        "train": {"steps": 1, "batch_size": 8, "device": "cpu"},
        "stop": {"rounds": 1},
    }
    path = folder / "tiny.toml"
    path.write_text(tomli_w.dumps(_merge(table, changes)))
    return path


def _merge(table: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    merged = dict(table)
    for name, value in changes.items():
        if isinstance(value, dict):
            merged[name] = merged.get(name, {}) | value
        else:
            merged[name] = value
    return merged


def read_lines(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run without the seconds that its machine took.

    Its folder may be in an archive.
    """
    text = read_bytes(open_place(folder / "rounds.jsonl")).decode()
    assert text.endswith("\n")
    records = [json.loads(line) for line in text.splitlines()]
    for record in records:
        for name in CLOCK_FIELDS:
            assert record.pop(name) >= 0.0
    return records


def seeded(build: Callable[[Shape, int], nn.Module], seed: int = 3) -> nn.Module:
    """A model whose weights depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return build(SHAPE, N_CLASSES)


class OneAlgorithm:
    """A federation whose rounds all run with the same algorithm."""

    def __init__(self, federation: Federation, compressor: Compressor) -> None:
        self.federation = federation
        self.compressor = compressor

    def __getattr__(self, name: str) -> Any:
        return getattr(self.federation, name)

    def run_round(self, progress: Progress, **settings: Any) -> FederatedRound:
        return self.federation.run_round(progress, self.compressor, **settings)
