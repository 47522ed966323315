"""The settings of a run: one TOML file, read into frozen dataclasses.

Counts are integers, shares are strings like "5%" (rounded up), resolved when the model
and the clients are known. Unknown keys are errors that name the nearest one. Every
algorithm's table may be present; a run reads its own.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from fediac.errors import ConfigError

Settings = TypeVar("Settings")

DEFAULT_ROUNDS = 20

PartitionKind = Literal["writer", "iid", "dirichlet", "pathological"]
Tuning = Literal["local", "server", "none"]


@dataclass(frozen=True, slots=True)
class DataSettings:
    """Which examples, and who has them.

    Attributes:
        name: ``digits`` (inside the package), ``cifar10``, ``cifar100``, ``femnist``,
            or a by-writer file in the folder.
        folder: Where data sets are; by default FEDIAC_DATA or a cache folder.
        partition: How examples are split over clients.
        beta: Of the Dirichlet partition; smaller is less even.
        classes: Of each client, in the pathological partition.
        download: Fetch what is missing.
    """

    name: str = "digits"
    folder: str | None = None
    partition: PartitionKind = "writer"
    beta: float = 0.5
    classes: int = 2
    download: bool = False


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """``small-cnn``, ``femnist-cnn``, ``resnet18`` or ``"package.module:function"``."""

    name: str = "small-cnn"


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How many clients, and how many of them take part in a round."""

    number: int = 20
    participation: int | str = "100%"


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """How clients train.

    Attributes:
        local_epochs: Passes over a client's examples in a round.
        local_steps: Mini-batches instead.
        lr: Learning rate at round t is ``lr / (1 + sqrt(t) / lr_decay)``.
        device: ``cpu``, ``cuda``, or ``auto``: the GPU when there is one.
        at_once: Clients trained side by side; 0: as many as the device can.
        statistics: Batch norm's running statistics: ``average`` them every round, or
            keep each client's own ``local``; tests then use their mean.
    """

    local_epochs: int = 1
    local_steps: int | None = None
    batch_size: int = 32
    lr: float = 0.1
    lr_decay: float = 20.0
    device: Literal["auto", "cpu", "cuda"] = "auto"
    at_once: int = 0
    statistics: Literal["average", "local"] = "average"


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """What is between clients and switch; a run times every switch it lists.

    Attributes:
        switches: ``fast``, ``slow``, or packets a second as a number in a string.
        rates: ``paper`` (traces clipped to 200-2,800 packets/s), ``nyumets``,
            ``uniform``, packets a second as ``700`` or ``200-2800``, or trace files.
        compute_s: Simulated time of a client's training in a round.
        memory: ``unbounded``: the switch holds every packet that waits, as the paper
            assumes; ``bounded``: its registers give slots and a window.
        register_bytes: The switch's memory.
    """

    switches: tuple[str, ...] = ("fast",)
    rates: tuple[str, ...] = ("paper",)
    compute_s: float = 0.1
    memory: Literal["unbounded", "bounded"] = "unbounded"
    register_bytes: int = 1 << 20


@dataclass(frozen=True, slots=True)
class StopSettings:
    """A run ends with the first of these that is reached.

    Attributes:
        rounds: So many rounds; 20 when nothing else is given either.
        simulated_s: The clock of the first switch.
        real_s: The clock on the wall.
        target: Test accuracy.
    """

    rounds: int | None = None
    simulated_s: float | None = None
    real_s: float | None = None
    target: float | None = None

    @property
    def n_rounds(self) -> int | None:
        """The limit on rounds, None when only other things end the run."""
        others = (self.simulated_s, self.real_s, self.target)
        if self.rounds is None and all(each is None for each in others):
            return DEFAULT_ROUNDS
        return self.rounds


@dataclass(frozen=True, slots=True)
class SaveSettings:
    """What is kept beside the log.

    Attributes:
        checkpoint_every: Rounds between checkpoints; a killed run goes on from one.
        tensorboard: Also write TensorBoard logs.
    """

    checkpoint_every: int = 1
    tensorboard: bool = False


@dataclass(frozen=True, slots=True)
class FediacSettings:
    """FediAC: votes (k), threshold (a), bits (b) and voting law."""

    votes: int | str = "5%"
    threshold: int | str = 3
    bits: int | Literal["tuned", "bound"] = "tuned"
    law: Literal["bernoulli", "draws", "topk"] = "bernoulli"
    residual: bool = True


@dataclass(frozen=True, slots=True)
class SwitchmlSettings:
    """SwitchML: width of a lane."""

    bits: int = 12
    residual: bool = True


@dataclass(frozen=True, slots=True)
class OmnireduceSettings:
    """OmniReduce: entries a client keeps, entries of a block."""

    sent: int | str = "5%"
    block: int = 360
    residual: bool = True


@dataclass(frozen=True, slots=True)
class LibraSettings:
    """libra: entries a client sends, rounds of the training that finds hot ones."""

    sent: int | str = "1%"
    hot_rounds: int = 3
    residual: bool = True


@dataclass(frozen=True, slots=True)
class FedavgSettings:
    """Federated averaging has no settings."""


@dataclass(frozen=True, slots=True)
class TopkSettings:
    """Top-k: entries a client sends."""

    sent: int | str = "1%"
    residual: bool = True


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Everything that decides a run.

    Attributes:
        tuning: Who chooses FediAC's threshold and bits: ``local`` clients (bits only),
            a ``server`` that sees the first round, or ``none``: they are given.
    """

    algorithm: str = "fediac"
    seed: int = 1
    tuning: Tuning = "local"
    data: DataSettings = field(default_factory=DataSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    clients: ClientSettings = field(default_factory=ClientSettings)
    train: TrainSettings = field(default_factory=TrainSettings)
    network: NetworkSettings = field(default_factory=NetworkSettings)
    stop: StopSettings = field(default_factory=StopSettings)
    save: SaveSettings = field(default_factory=SaveSettings)
    fediac: FediacSettings = field(default_factory=FediacSettings)
    switchml: SwitchmlSettings = field(default_factory=SwitchmlSettings)
    omnireduce: OmnireduceSettings = field(default_factory=OmnireduceSettings)
    libra: LibraSettings = field(default_factory=LibraSettings)
    fedavg: FedavgSettings = field(default_factory=FedavgSettings)
    topk: TopkSettings = field(default_factory=TopkSettings)


def read_settings(path: Path, overrides: Sequence[str] = ()) -> RunSettings:
    """Return the settings in a TOML file, some of them overridden.

    Args:
        path: The file.
        overrides: ``key=value`` each, the key as in ``train.lr``, the value as TOML; a
            value that is not TOML is taken as a string.

    Raises:
        ConfigError: The file cannot be read, or a key or value is wrong.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    table.pop("versions", None)  # a resolved file also says what wrote it
    for override in overrides:
        _override(table, override)
    return parse_settings(RunSettings, table, source=str(path))


def _override(table: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise ConfigError(f"--set must be key=value, got {override!r}")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    *path, last = key.strip().split(".")
    for name in path:
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise ConfigError(f"--set {override}: {name!r} is not a table")
    table[last] = value


def parse_settings(
    kind: type[Settings], table: Mapping[str, Any], *, source: str, name: str = ""
) -> Settings:
    """Return a table as a settings dataclass.

    Raises:
        ConfigError: A key is unknown or a value has the wrong type.
    """
    place = f"[{name}]" if name else "the top level"
    hints = get_type_hints(kind)
    known = [each.name for each in fields(kind)]  # type: ignore[arg-type] # dataclass
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in known:
            near = get_close_matches(key, known, n=1, cutoff=0.0)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigError(f"{source}: unknown key {key!r} in {place}{hint}")
        wanted = hints[key]
        if is_dataclass(wanted):
            if not isinstance(value, Mapping):
                raise ConfigError(f"{source}: {key!r} must be a table, got {value!r}")
            kind_of_table: type[Any] = wanted  # type: ignore[assignment] # a class
            values[key] = parse_settings(kind_of_table, value, source=source, name=key)
        else:
            values[key] = _convert(value, wanted, f"{source}: {key!r} in {place}")
    return kind(**values)


def _convert(value: object, wanted: Any, place: str) -> Any:  # noqa: ANN401 - any type
    """Return ``value`` if the annotation ``wanted`` allows it."""
    origin = get_origin(wanted)
    options = get_args(wanted) if origin in (Union, UnionType) else (wanted,)
    for option in options:
        if get_origin(option) is Literal and value in get_args(option):
            return value
        if get_origin(option) is tuple and isinstance(value, list | tuple):
            return tuple(_convert(each, get_args(option)[0], place) for each in value)
        if option is float and type(value) in (int, float):
            return float(value)  # type: ignore[arg-type] # a number by the test above
        if isinstance(option, type) and type(value) is option:
            return value
    raise ConfigError(f"{place} must be {_describe(options)}, got {value!r}")


def _describe(options: Sequence[Any]) -> str:
    names = {int: "a whole number", float: "a number", bool: "true or false"}
    names |= {str: "a string"}
    words = []
    for option in options:
        if get_origin(option) is Literal:
            words += [repr(each) for each in get_args(option)]
        elif get_origin(option) is tuple:
            words.append("a list of strings")
        elif option is not NoneType:
            words.append(names[option])
    return " or ".join(words)
