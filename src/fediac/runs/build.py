"""Settings -> everything a run needs, built once."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from fediac.compressors import (
    Compressor,
    FedAvg,
    FediAC,
    Libra,
    OmniReduce,
    SwitchML,
    TopK,
    choose_hot,
)
from fediac.core.bitpack import unpack_bits
from fediac.core.magnitudes import largest
from fediac.core.shares import parse_share
from fediac.errors import ConfigError
from fediac.names import is_own
from fediac.plan.algorithms import make_compressor
from fediac.plan.networks import bounded_memory
from fediac.plugins import make_own, require_algorithm
from fediac.runs.settings import RunSettings, StopSettings, TrainSettings
from fediac.switch import Switch
from fediac.switch.registers import Layout
from fediac.training.cpu import CpuEngine
from fediac.training.cuda import CudaEngine
from fediac.training.datasets import Dataset, load_dataset
from fediac.training.engines import make_engine
from fediac.training.federation import Federation, Progress
from fediac.training.local import LocalSettings
from fediac.training.models import build_model
from fediac.training.partition import MAX_WRITER_SIZE, Partition, make_partition
from fediac.training.splits import require_beta
from fediac.transports.capacity import known_widths, require_capacity
from fediac.wire.header import MAX_CLIENTS

_HOT_ROUNDS_FROM = 1 << 31
"""Round numbers of the training that finds libra's hot entries: no real round's."""

_STREAMED: Mapping[type, tuple[str, ...]] = {
    FediAC: ("tally", "sum"),
    SwitchML: ("sum",),
    OmniReduce: ("blocksum",),
}
"""Which exchanges of an algorithm need slots for a window of packets."""


@dataclass(slots=True)
class Choices:
    """What is settled while a run goes on, and kept in its checkpoints.

    Attributes:
        numbers: FediAC's threshold and bits, when the server sets them.
        hot: libra's hot entries.
    """

    numbers: dict[str, int] = field(default_factory=dict)
    hot: Tensor | None = None


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run, ready to start."""

    settings: RunSettings
    dataset: Dataset
    partition: Partition
    engine: CpuEngine | CudaEngine
    federation: Federation
    choices: Choices


def prepare_run(settings: RunSettings) -> PreparedRun:
    """Return the run that ``settings`` describe.

    Raises:
        FediacError, ValueError: A setting does not fit the data, the model or the
            machine.
    """
    _check(settings)
    folder = None if settings.data.folder is None else Path(settings.data.folder)
    dataset = load_dataset(settings.data.name, folder, download=settings.data.download)
    partition = _make_partition(settings, dataset)
    n_clients = settings.clients.number
    n_participants = _count(
        settings.clients.participation, "clients", of=n_clients, name="participation"
    )
    local = _local_settings(settings.train)
    engine = _make_engine(settings, dataset, partition)
    choices = Choices()
    switch = Switch(settings.network.register_bytes)
    choose = make_chooser(settings, engine.model.dim, n_participants, switch, choices)
    federation = Federation(
        engine=engine,
        model=engine.model,
        compressor=choose,
        n_clients=n_clients,
        n_participants=n_participants,
        rate=local.rate,
        seed=settings.seed,
        switch=switch,
        statistics=settings.train.statistics,
    )
    return PreparedRun(settings, dataset, partition, engine, federation, choices)


def _make_partition(settings: RunSettings, dataset: Dataset) -> Partition:
    data = settings.data
    least = data.min_size
    if least is None and data.partition == "dirichlet":
        least = settings.train.batch_size
    return make_partition(
        dataset,
        kind=data.partition,
        n_clients=settings.clients.number,
        beta=data.beta,
        classes=data.classes,
        min_size=least,
        max_size=MAX_WRITER_SIZE if data.max_size is None else data.max_size,
        seed=settings.seed,
    )


def _check(settings: RunSettings) -> None:
    """Refuse numbers that no run can have."""
    require_algorithm(settings.algorithm)
    least: tuple[tuple[str, float | None, float], ...] = (
        ("clients.number", settings.clients.number, 1),
        ("data.classes", settings.data.classes, 1),
        ("data.min_size", settings.data.min_size, 1),
        ("data.max_size", settings.data.max_size, 1),
        ("train.at_once", settings.train.at_once, 0),
        ("stop.rounds", settings.stop.rounds, 1),
        ("save.checkpoint_every", settings.save.checkpoint_every, 1),
        ("libra.hot_rounds", settings.libra.hot_rounds, 1),
    )
    for name, value, smallest in least:
        if value is not None and not value >= smallest:
            raise ConfigError(f"{name} must be at least {smallest}, got {value}")
    require_beta(settings.data.beta, name="data.beta")
    _check_ends(settings.stop)
    if settings.clients.number > MAX_CLIENTS:
        raise ConfigError(
            f"clients.number must be at most {MAX_CLIENTS} (bits of a slot's bitmap), "
            f"got {settings.clients.number}"
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


def _count(text: str | int, what: str, *, of: int, name: str) -> int:
    """Return a count or a share of ``of``, which are ``what``, as a possible count."""
    count = parse_share(text, of=of, name=name)
    if not 1 <= count <= of:
        raise ConfigError(f"{name} must be in 1..{of} ({what}), got {count}")
    return count


def _local_settings(train: TrainSettings) -> LocalSettings:
    return LocalSettings(
        epochs=train.local_epochs,
        steps=train.local_steps,
        batch_size=train.batch_size,
        lr=train.lr,
        lr_decay=train.lr_decay,
    )


def choose_device(name: str) -> str:
    """Return ``cpu`` or ``cuda``.

    Raises:
        ConfigError: CUDA is asked for and not there.
    """
    has_cuda = torch.cuda.is_available()
    if name == "cuda" and not has_cuda:
        raise ConfigError("device must be cpu on this machine (no CUDA), got cuda")
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
        _local_settings(settings.train),
        seed=seed,
        on_cuda=choose_device(settings.train.device) == "cuda",
        n_at_once=settings.train.at_once,
    )


def make_chooser(
    settings: RunSettings, dim: int, n: int, switch: Switch, choices: Choices
) -> Callable[[int], Compressor]:
    """Return the function that gives the algorithm of a round.

    Args:
        settings: All settings; the algorithm's own table is used.
        dim: Entries in an update.
        n: Clients in a round.
        switch: Adds up.
        choices: Are looked at in every round.

    Raises:
        FediacError, ValueError: The algorithm cannot have its settings; this is found
            now, not after a round of training.
    """

    def choose(round_number: int) -> Compressor:
        if settings.algorithm == "fediac" and settings.tuning == "server":
            if round_number == 1:
                _make_fediac(settings, dim, n, 1, "bound")  # refuses what cannot be
                return FedAvg(n)
            given = choices.numbers
            return _make_fediac(settings, dim, n, given["threshold"], given["bits"])
        if is_own(settings.algorithm):
            return make_own(settings.algorithm, n_clients=n, dim=dim)
        return _make_algorithm(settings, dim, n, choices.hot)

    first = choose(1)
    n_clients, register_bytes = settings.clients.number, switch.register_bytes
    layout = Layout(n_clients, switch.payload_bytes, register_bytes)
    require_capacity(first, layout)
    if settings.network.memory == "bounded":
        threshold = getattr(first, "threshold", 1)
        memory = bounded_memory(register_bytes, n_clients, threshold)
        for kind in _STREAMED.get(type(first), ()):
            memory.window_of(kind, known_widths(first) if kind == "sum" else None)
    return choose


def _make_algorithm(
    settings: RunSettings, dim: int, n: int, hot: Tensor | None
) -> Compressor:
    """Return one of this package's algorithms, its shares resolved."""
    match settings.algorithm:
        case "fediac":
            bits = settings.fediac.bits
            if settings.tuning == "none" and not isinstance(bits, int):
                raise ConfigError(
                    "fediac.bits must be a number when tuning is 'none', "
                    f"got {bits!r}; give one, or let tuning be 'local'"
                )
            given = settings.fediac.threshold
            threshold = _count(
                given, "clients in a round", of=n, name="fediac.threshold"
            )
            return _make_fediac(settings, dim, n, threshold, bits)
        case "switchml":
            switchml = settings.switchml
            return SwitchML(
                n, switchml.bits, switchml.residual, switchml.fade, switchml.lanes
            )
        case "omnireduce":
            omnireduce = settings.omnireduce
            n_sent = _count(omnireduce.sent, "entries", of=dim, name="omnireduce.sent")
            return OmniReduce(
                n, n_sent, omnireduce.block, omnireduce.residual, omnireduce.fade
            )
        case "libra":
            libra = settings.libra
            n_sent = _count(libra.sent, "entries", of=dim, name="libra.sent")
            return Libra(
                n,
                n_sent,
                np.zeros(0, dtype=np.int64) if hot is None else hot,
                residual=libra.residual,
                fade=libra.fade,
                bits=libra.bits,
                narrow=libra.narrow,
            )
        case "fedavg":
            return FedAvg(n)
        case "topk":
            topk = settings.topk
            n_sent = _count(topk.sent, "entries", of=dim, name="topk.sent")
            return TopK(n, n_sent, topk.residual, topk.fade)
        case other:
            # One without a table of settings has its best ones in `algorithms`.
            return make_compressor(other, dim=dim, n_clients=n)


def _make_fediac(
    settings: RunSettings, dim: int, n: int, threshold: int, bits: int | str
) -> FediAC:
    return FediAC(
        n,
        n_votes=_count(settings.fediac.votes, "entries", of=dim, name="fediac.votes"),
        threshold=threshold,
        bits=bits,  # type: ignore[arg-type] # checked when it was read
        law=settings.fediac.law,
        residual=settings.fediac.residual,
        entries_per_vote=settings.fediac.entries_per_vote,
        fade=settings.fediac.fade,
        clip=settings.fediac.clip,
        lanes=settings.fediac.lanes,
    )


def find_hot(prepared: PreparedRun, progress: Progress) -> Tensor:
    """Return libra's hot entries: those most often among clients' k largest.

    Counted over a few rounds of plain averaging on a copy of the model that is thrown
    away. Like in the paper, nobody is billed for them.
    """
    settings, federation = prepared.settings, prepared.federation
    dim = federation.model.dim
    n_sent = _count(settings.libra.sent, "entries", of=dim, name="libra.sent")
    parameters, statistics = progress.parameters, progress.statistics
    counts = torch.zeros(dim, dtype=torch.int32, device=parameters.device)
    everyone = list(range(federation.n_clients))
    for number in range(1, settings.libra.hot_rounds + 1):
        federation.model.parameters.copy_(parameters)
        federation.model.statistics.copy_(statistics)
        trained = federation.engine.train(
            everyone,
            round_number=_HOT_ROUNDS_FROM + number,
            rate=federation.rate(number),
        )
        for each in trained:
            counts += unpack_bits(largest(each.update, n_sent), dim)
        parameters = parameters - _mean([each.update for each in trained])
        statistics = statistics - _mean([each.statistics for each in trained])
    n_hot = min(federation.switch.indexed_capacity(federation.n_clients), dim)
    hot: Tensor = choose_hot(counts, n_hot)
    return hot


def _mean(tensors: list[Tensor]) -> Tensor:
    total = torch.zeros_like(tensors[0])
    for each in tensors:
        total += each
    return total / len(tensors)
