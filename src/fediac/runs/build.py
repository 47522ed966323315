"""Settings -> everything a run needs, built once."""

import copy
import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from fediac.compressors import Compressor
from fediac.core.shares import parse_share
from fediac.errors import ArgumentError, ConfigError
from fediac.partition import require_beta
from fediac.plugins import require_algorithm
from fediac.runs.algorithm import (
    check_algorithm,
    make_compressor,
    require_no_server,
)
from fediac.runs.given import Given
from fediac.runs.settings import RunSettings, StopSettings
from fediac.runs.settled import NOTHING, Settled
from fediac.switch import Switch
from fediac.training.cpu import CpuEngine
from fediac.training.cuda import CudaEngine
from fediac.training.datasets import Dataset, load_dataset
from fediac.training.engines import make_engine
from fediac.training.federation import Federation
from fediac.training.models import build_model
from fediac.training.partition import MAX_WRITER_SIZE, Partition, make_partition
from fediac.transports.protocol import SwitchElsewhere
from fediac.wire.header import MAX_CLIENTS


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run, ready to start.

    Attributes:
        given: What came in Python, not in the settings; None for a run of a file.
    """

    settings: RunSettings
    dataset: Dataset
    partition: Partition
    engine: CpuEngine | CudaEngine
    federation: Federation
    given: Given | None = None

    def make_compressor(self, settled: Settled = NOTHING) -> Compressor:
        """Return the algorithm of the next round.

        Args:
            settled: What earlier rounds have settled.
        """
        if self.given is not None:
            return self.given.make_compressor(settled)
        return make_compressor(
            self.settings,
            n_clients=self.federation.n_participants,
            dim=self.federation.model.dim,
            settled=settled,
        )


def prepare_run(
    settings: RunSettings, elsewhere: SwitchElsewhere | None = None
) -> PreparedRun:
    """Return the run that ``settings`` describe.

    Args:
        settings: All of them.
        elsewhere: Where sums are made; None: in this process.

    Raises:
        FediacError, ValueError: A setting does not fit the data, the model or the
            machine.
    """
    _check(settings)
    folder = None if settings.data.folder is None else Path(settings.data.folder)
    dataset = load_dataset(settings.data.name, folder, download=settings.data.download)
    partition = _make_partition(settings, dataset)
    n_clients = settings.clients.n_clients
    n_participants = count_clients(
        settings.clients.n_participants, of=n_clients, name="clients.n_participants"
    )
    engine = _make_engine(settings, dataset, partition)
    switch = Switch(settings.network.register_bytes)
    dim = engine.model.dim
    if elsewhere is not None:
        require_no_server(settings, n_clients=n_participants, dim=dim)
    check_algorithm(settings, n_clients=n_participants, dim=dim, switch=switch)
    federation = federate(
        settings, engine, n_participants, elsewhere or switch, partition
    )
    return PreparedRun(settings, dataset, partition, engine, federation)


def prepare_given(
    settings: RunSettings,
    given: Given,
    *,
    module: nn.Module,
    dataset: Dataset,
    partition: Partition,
) -> PreparedRun:
    """Return a run whose parts came as Python objects.

    Args:
        settings: What settings can say of it.
        given: What they cannot.
        module: The model, with its initial weights; it is copied.
        dataset: What it learns.
        partition: Who has which examples.
    """
    engine = make_engine(
        lambda: copy.deepcopy(module),
        dataset,
        partition.clients,
        settings.train,
        seed=settings.seed,
        on_cuda=choose_device(settings.train.device) == "cuda",
        task=given.task,
    )
    clients = settings.clients
    n_participants = count_clients(
        clients.n_participants, of=clients.n_clients, name="clients.n_participants"
    )
    switch = Switch(settings.network.register_bytes)
    federation = federate(settings, engine, n_participants, switch, partition)
    return PreparedRun(settings, dataset, partition, engine, federation, given)


def federate(
    settings: RunSettings,
    engine: CpuEngine | CudaEngine,
    n_participants: int,
    switch: Switch | SwitchElsewhere,
    partition: Partition,
) -> Federation:
    """Return the clients and the switch of a run.

    Args:
        settings: The run's.
        engine: Trains the clients.
        n_participants: Clients in a round.
        switch: Where sums are made.
        partition: Who has which examples.
    """
    weights = None
    if settings.clients.weights == "examples":
        weights = tuple(len(rows) for rows in partition.clients)
    return Federation(
        engine=engine,
        model=engine.model,
        n_clients=settings.clients.n_clients,
        n_participants=n_participants,
        rate=settings.train.rate,
        seed=settings.seed,
        switch=switch,
        statistics=settings.train.statistics,
        weights=weights,
    )


def _make_partition(settings: RunSettings, dataset: Dataset) -> Partition:
    data = settings.data
    least = data.min_size
    if least is None and data.partition == "dirichlet":
        least = settings.train.batch_size
    return make_partition(
        dataset,
        partition=data.partition,
        n_clients=settings.clients.n_clients,
        beta=data.beta,
        classes_per_client=data.classes_per_client,
        min_size=least,
        max_size=MAX_WRITER_SIZE if data.max_size is None else data.max_size,
        seed=settings.seed,
    )


def _check(settings: RunSettings) -> None:
    """Refuse numbers that no run can have, and what only Python can say."""
    if settings.data.partition == "own":
        raise ConfigError(
            "data.partition must not be own in a file: fediac.Experiment was given who "
            "has what, in Python"
        )
    require_algorithm(settings.algorithm)
    least: tuple[tuple[str, float | None, float], ...] = (
        ("clients.n_clients", settings.clients.n_clients, 1),
        ("data.classes_per_client", settings.data.classes_per_client, 1),
        ("data.min_size", settings.data.min_size, 1),
        ("data.max_size", settings.data.max_size, 1),
        ("train.n_at_once", settings.train.n_at_once, 0),
        ("stop.rounds", settings.stop.rounds, 1),
        ("save.checkpoint_every", settings.save.checkpoint_every, 1),
        ("save.updates", settings.save.updates, 0),
    )
    for name, value, smallest in least:
        if value is not None and not value >= smallest:
            raise ConfigError(f"{name} must be at least {smallest}, got {value}")
    require_beta(settings.data.beta)
    _check_ends(settings.stop)
    if settings.clients.n_clients > MAX_CLIENTS:
        raise ConfigError(
            f"clients.n_clients must be at most {MAX_CLIENTS} (bits of a slot's "
            f"bitmap), got {settings.clients.n_clients}"
        )
    if not settings.network.switches:
        raise ConfigError("network.switches must name at least one switch, got none")


def _check_ends(stop: StopSettings) -> None:
    """Refuse ends that are there already, or that no run gets to."""
    for name, seconds in (("simulated_s", stop.simulated_s), ("real_s", stop.real_s)):
        if seconds is not None and not 0.0 < seconds < math.inf:
            raise ConfigError(f"stop.{name} must be finite and above 0, got {seconds}")
    target = stop.target
    if target is not None and not 0.0 < target <= 1.0:
        raise ConfigError(
            f"stop.target must be above 0 and at most 1 (all right), got {target:g}"
        )


def count_clients(text: str | int, *, of: int, name: str) -> int:
    """Return a count or a share of ``of`` clients as a possible count.

    Args:
        text: As it was written.
        of: All clients there are.
        name: What it is called.
    """
    count = parse_share(text, of=of, name=name)
    if not 1 <= count <= of:
        raise ConfigError(f"{name} must be in 1..{of} (clients), got {count}")
    return count


def choose_device(name: str) -> str:
    """Return ``cpu`` or ``cuda``.

    Raises:
        ArgumentError: CUDA is asked for and not there.
    """
    has_cuda = torch.cuda.is_available()
    if name == "cuda" and not has_cuda:
        rule = "must be cpu on this machine (no CUDA), got cuda"
        raise ArgumentError("device", rule)
    return "cuda" if name in ("auto", "cuda") and has_cuda else "cpu"


def _make_engine(
    settings: RunSettings, dataset: Dataset, partition: Partition
) -> CpuEngine | CudaEngine:
    shape = dataset.train.images.shape[1:]
    seed = settings.seed

    def build() -> nn.Module:
        return build_model(settings.model.name, shape, dataset.n_classes, seed=seed)

    return make_engine(
        build,
        dataset,
        partition.clients,
        settings.train,
        seed=seed,
        on_cuda=choose_device(settings.train.device) == "cuda",
        n_at_once=settings.train.n_at_once,
    )
