"""Checks of the arguments of `Experiment`; errors name the argument."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fediac.compressors import Compressor
from fediac.compressors.forecast import check_dim
from fediac.compressors.protocol import can_run_rounds
from fediac.core.integers import as_whole
from fediac.core.shares import Share
from fediac.errors import ArgumentError
from fediac.partition import iid
from fediac.runs.settings import NetworkSettings, Weights
from fediac.sim import Network
from fediac.training.datasets import Dataset
from fediac.training.federation import StatisticsRule
from fediac.training.own_data import OwnData
from fediac.training.task import Loss, MakeOptimizer, Metric, Task, r_squared
from fediac.transports.argument_checks import is_list


def check_settings(
    network: object,
    *,
    statistics: object,
    weights: object,
    seed: object,
    device: object,
    out: object,
) -> None:
    """Refuse settings of the wrong type, and devices that this machine lacks."""
    if network is not None and not isinstance(network, Network):
        raise TypeError(f"network must be a Network, got {type(network).__name__}")
    if out is not None and not isinstance(out, str | Path):
        raise TypeError(f"out must be the path of a folder, got {type(out).__name__}")
    if statistics not in get_args(StatisticsRule):
        raise ArgumentError(
            "statistics", f"must be average, local or recalibrate, got {statistics!r}"
        )
    if weights not in get_args(Weights):
        rule = f"must be equal or examples, got {weights!r}"
        raise ArgumentError("weights", rule)
    as_whole("seed", seed, at_least=0)
    if device not in ("auto", "cpu", "cuda"):
        raise ArgumentError("device", f"must be auto, cpu or cuda, got {device!r}")
    if device == "cuda" and not torch.cuda.is_available():
        raise ArgumentError(
            "device", "must be cpu on this machine (no CUDA), got 'cuda'"
        )


def make_task(
    loss: Loss | None, optimizer: MakeOptimizer | None, metric: Metric | None
) -> Task:
    """Return what is done with the model's outputs."""
    for name, given in (("loss", loss), ("optimizer", optimizer), ("metric", metric)):
        if given is not None and not callable(given):
            raise TypeError(f"{name} must be a function, got {type(given).__name__}")
    return Task(loss, optimizer, metric)


def finish_task(task: Task, dataset: Dataset) -> Task:
    """Return a task with a metric that fits its targets.

    Raises:
        ArgumentError: There is none that everybody would take.
    """
    if task.metric is not None or dataset.n_classes:
        return task
    labels = dataset.train.labels
    if labels.dtype.kind == "f":
        return replace(task, metric=r_squared)
    raise ArgumentError(
        "metric",
        f"must be given for targets of {labels.dtype} and shape {labels.shape[1:]}",
    )


def choose_task_device(device: str, task: Task) -> Literal["auto", "cpu", "cuda"]:
    """Return where to train: own functions need a CPU."""
    if task.is_plain:
        return cast("Literal['auto', 'cpu', 'cuda']", device)
    if device == "cuda":
        raise ArgumentError(
            "device",
            "must be cpu with a loss, optimizer or metric of your own, got 'cuda'",
        )
    return "cpu"


def name_network(network: Network | None) -> NetworkSettings:
    """Return what settings can say of a network that was given."""
    if network is None:
        return NetworkSettings()
    compute_s = float(np.max(network.compute_s))
    return NetworkSettings(switches=("own",), rates=("own",), compute_s=compute_s)


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


def choose_clients(
    clients: Any,  # noqa: ANN401 - what a user gives
    data: OwnData,
    compressor: Compressor,
    n_participants: Share,
    seed: int,
) -> tuple[list[NDArray[np.int64]], Literal["iid", "own"]]:
    """Return each client's examples, and how they were shared out.

    Args:
        clients: What was given.
        data: May have each client's already.
        compressor: Says how many there are, if nothing else does.
        n_participants: How many take part in a round.
        seed: Seed of an equal split.
    """
    labels = data.dataset.train.labels
    if data.clients is not None:
        if clients is not None:
            raise ArgumentError(
                "clients", "must be left out where train is a list with one a client"
            )
        return data.clients, "own"
    if clients is None:
        if n_participants != "100%":
            raise ArgumentError(
                "clients",
                "must say how many there are where some take part, "
                f"n_participants={n_participants!r}; the compressor is for those of a "
                f"round, {compressor.n_clients}",
            )
        clients = compressor.n_clients
    if isinstance(clients, int | np.integer):
        return iid(labels, as_whole("clients", clients, at_least=1), seed=seed), "iid"
    return _check_clients(clients, n_examples=len(labels)), "own"


def require_participants(
    compressor: Compressor, n_participants: int, n_clients: int
) -> None:
    """Refuse an algorithm for another number of clients than a round has."""
    n_meant = compressor.n_clients
    if n_meant == n_participants:
        return
    if n_participants == n_clients:
        raise ArgumentError(
            "clients",
            f"must be {n_meant} (the compressor's n_clients), got {n_clients}",
        )
    raise ArgumentError(
        "compressor",
        f"must be for {n_participants} clients (those of {n_clients} that take part), "
        f"got {n_meant}",
    )


def _check_clients(
    clients: Any,  # noqa: ANN401 - what a user gives
    *,
    n_examples: int,
) -> list[NDArray[np.int64]]:
    """Return the numbers of every client's examples, checked.

    Args:
        clients: What was given.
        n_examples: In the training set.
    """
    if not is_list(clients):
        raise TypeError(
            "clients must be a number, or a list with the example numbers of each "
            f"client, got {type(clients).__name__}"
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
