"""A small experiment of a user's own, which tests change in one thing each."""

from collections.abc import Collection
from typing import Any

import numpy as np
import torch
from torch import nn

import fediac
from fediac.api.experiment import Experiment

LOCAL: dict[str, Any] = {"steps": 3, "batch_size": 8, "lr": 0.1, "lr_decay": 0.0}


def make_data(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, 6)).astype(np.float32)
    return torch.from_numpy(x), torch.from_numpy((x[:, 0] > 0).astype(np.int64))


def make_experiment(*, without: Collection[str] = (), **changes: Any) -> Experiment:
    x, y = make_data(120)
    settings: dict[str, Any] = {
        "model": lambda: nn.Linear(6, 2),
        "train": (x[:80], y[:80]),
        "test": (x[80:], y[80:]),
        "compressor": lambda dim: fediac.FediAC(4, n_votes=dim, threshold=1, bits=16),
        "device": "cpu",
        **LOCAL,
    }
    given = settings | changes
    return Experiment(**{name: given[name] for name in given if name not in without})


def make_normed() -> nn.Module:
    """A model with batch norm and dropout."""
    return nn.Sequential(
        nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 2)
    )
