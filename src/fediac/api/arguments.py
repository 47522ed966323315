"""Checks of the arguments of `Experiment`; errors name the argument."""

from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fediac.compressors import Compressor
from fediac.compressors.forecast import check_dim
from fediac.compressors.protocol import can_run_rounds
from fediac.core.integers import as_whole
from fediac.errors import ArgumentError
from fediac.sim import Network
from fediac.training.federation import Statistics
from fediac.training.local_settings import LocalSettings
from fediac.transports.argument_checks import is_list


def check_settings(
    local: object,
    network: object,
    *,
    statistics: object,
    seed: object,
    device: object,
) -> None:
    """Refuse settings of the wrong type, and devices that this machine lacks."""
    for name, given, kind in (
        ("local", local, LocalSettings),
        ("network", network, Network),
    ):
        if given is not None and not isinstance(given, kind):
            raise TypeError(
                f"{name} must be a {kind.__name__}, got {type(given).__name__}"
            )
    if statistics not in get_args(Statistics):
        raise ArgumentError(
            "statistics", f"must be average, local or recalibrate, got {statistics!r}"
        )
    as_whole("seed", seed, at_least=0)
    if device not in ("auto", "cpu", "cuda"):
        raise ArgumentError("device", f"must be auto, cpu or cuda, got {device!r}")
    if device == "cuda" and not torch.cuda.is_available():
        raise ArgumentError(
            "device", "must be cpu on this machine (no CUDA), got 'cuda'"
        )


def make_module(model: Any) -> nn.Module:  # noqa: ANN401 - what a user gives
    """Return the model that calling ``model`` makes."""
    if isinstance(model, nn.Module) or not callable(model):
        raise TypeError(
            "model must be a function that makes one, such as lambda: nn.Linear(20, 3),"
            f" got {type(model).__name__}"
        )
    module = model()
    if not isinstance(module, nn.Module):
        raise TypeError(f"model must return an nn.Module, got {type(module).__name__}")
    return module


def make_algorithm(compressor: Any, dim: int) -> Compressor:  # noqa: ANN401 - as above
    """Return ``compressor``, or what it makes of ``dim`` if it is a function."""
    algorithm = compressor
    if not can_run_rounds(compressor):
        if not callable(compressor):
            raise TypeError(
                "compressor must be one like FediAC(...), with run_round, or a "
                "function that makes one for a number of parameters, "
                f"got {type(compressor).__name__}"
            )
        algorithm = compressor(dim)
        if not can_run_rounds(algorithm):
            raise TypeError(
                "compressor must return one like FediAC(...), with run_round, "
                f"got {type(algorithm).__name__}"
            )
    check_dim(algorithm, dim)
    made: Compressor = algorithm
    return made


def check_clients(
    clients: Any,  # noqa: ANN401 - what a user gives
    *,
    n_clients: int,
    n_examples: int,
) -> list[NDArray[np.int64]]:
    """Return the numbers of every client's examples, checked.

    Args:
        clients: What was given.
        n_clients: How many the compressor is for.
        n_examples: In the training set.
    """
    if not is_list(clients):
        raise TypeError(
            "clients must be a list with the example numbers of each client, "
            f"got {type(clients).__name__}"
        )
    if len(clients) != n_clients:
        raise ArgumentError(
            "clients",
            f"must be {n_clients} (the compressor's n_clients), got {len(clients)}",
        )
    arrays = [np.asarray(each) for each in clients]
    for client, rows in enumerate(arrays):
        if rows.ndim != 1 or rows.dtype.kind not in "iu" or not len(rows):
            raise ValueError(
                f"clients: client {client} must have a vector of whole numbers, at "
                f"least one, got {rows.dtype} of shape {rows.shape}"
            )
        if not 0 <= rows.min() <= rows.max() < n_examples:
            raise ValueError(
                f"clients: example numbers of client {client} must be in "
                f"0..{n_examples - 1}, got {rows.min()} to {rows.max()}"
            )
    return [rows.astype(np.int64) for rows in arrays]
