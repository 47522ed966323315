"""The settings of a run: one TOML file, read into frozen dataclasses.

Counts are integers, shares are strings like "5%" (rounded up), resolved when the model
and the clients are known. Unknown keys are errors that name the nearest one. Every
algorithm's table may be present; a run reads its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, get_type_hints

from fediac.errors import ConfigError, hint_name
from fediac.runs.setting_types import Portion, Seed, Share, convert
from fediac.runs.toml_tables import apply_overrides, read_table

Settings = TypeVar("Settings")

DEFAULT_ROUNDS = 20

PartitionKind = Literal["writer", "iid", "dirichlet", "pathological"]
Tuning = Literal["local", "server", "none"]


@dataclass(frozen=True, slots=True)
class DataSettings:
    """Which examples, and who has them.

    Attributes:
        name: Data set: ``digits`` (inside the package), ``cifar10``, ``cifar100``,
            ``femnist``, or a by-writer file in the folder.
        folder: Where data sets are; by default FEDIAC_DATA or a cache folder.
        partition: How examples are split over clients.
        beta: Evenness of the Dirichlet partition; smaller is less even.
        classes: Classes of each client, in the pathological partition.
        min_size: Examples that each client has at least; by default a mini-batch
            (dirichlet), 300 (writer) or 1.
        max_size: Examples that each client has at most, in the writer partition; by
            default 400.
        download: Fetch data sets that are missing.
    """

    name: str = "digits"
    folder: str | None = None
    partition: PartitionKind = "writer"
    beta: float = 0.5
    classes: int = 2
    min_size: int | None = None
    max_size: int | None = None
    download: bool = False


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """What is trained.

    Attributes:
        name: Model: ``small-cnn``, ``femnist-cnn``, ``resnet18``, or your own function
            as ``package.module:function``, called with a shape and a number of classes.
    """

    name: str = "small-cnn"


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How many clients there are.

    Attributes:
        number: All clients, each with examples of its own.
        participation: How many take part in a round: a count, or a share like "50%";
            1 is one client, "100%" are all.
    """

    number: int = 20
    participation: Share = "100%"


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """How clients train.

    Attributes:
        local_epochs: Passes over a client's examples in a round.
        local_steps: Mini-batches of a round instead of epochs.
        batch_size: Examples of a mini-batch.
        lr: Learning rate; at round t it is ``lr / (1 + sqrt(t) / lr_decay)``.
        lr_decay: How slowly the learning rate falls, a smaller one makes it fall
            faster; 0: it stays at ``lr``.
        device: Where to train; ``auto``: on the GPU when there is one.
        at_once: Clients trained side by side; 0: as many as the device can.
        statistics: Batch norm's running statistics: ``average`` them every round; keep
            each client's own ``local``, tests then use their mean; or ``recalibrate``:
            average what clients see when they run the new global model on up to 250 of
            their examples, which takes time and the same traffic. Models without batch
            norm have none.
    """

    local_epochs: int = 1
    local_steps: int | None = None
    batch_size: int = 32
    lr: float = 0.1
    lr_decay: float = 20.0
    device: Literal["auto", "cpu", "cuda"] = "auto"
    at_once: int = 0
    statistics: Literal["average", "local", "recalibrate"] = "average"


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """What is between clients and switch; a run times every switch it lists.

    Attributes:
        switches: Switches to time: ``fast``, ``slow``, or packets a second as ``1e6``.
        rates: What clients send: ``paper`` (traces clipped to 200-2,800 packets/s),
            ``nyumets`` (as they are), ``uniform``, packets a second as ``700`` or
            ``200-2800``, or trace files.
        compute_s: Simulated seconds of a client's training in a round.
        memory: ``unbounded``: the switch holds every packet that waits, as the paper
            assumes; ``bounded``: its registers give slots and a window.
        register_bytes: Memory of the switch.
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
        rounds: End after so many rounds; 20 when nothing else is given either.
        simulated_s: End when the simulated clocks of all switches show so much.
        real_s: End after so many seconds on the wall.
        target: End at this test accuracy.
    """

    rounds: int | None = None
    simulated_s: float | None = None
    real_s: float | None = None
    target: Portion | None = None

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
        checkpoint_every: Rounds between checkpoints, from which a killed run goes on;
            by default as often as takes a tenth of the time.
        tensorboard: Also write TensorBoard logs.
    """

    checkpoint_every: int | None = None
    tensorboard: bool = False


@dataclass(frozen=True, slots=True)
class FediacSettings:
    """FediAC: vote on entries, add small integers of those agreed on.

    Attributes:
        votes: Entries a client votes for (k): a count, or a share of all entries.
        threshold: Votes an entry needs (a): a count, or a share of the clients.
        bits: Width of the switch's sums (b); ``bound``: the paper's, the smallest that
            works by the clients' first updates; ``tuned``: the one that promises the
            fewest bytes per progress, which is wider; ``adaptive``: the paper's, and a
            bit more after every round that left some client with as much as it had.
        law: How votes are drawn; ``topk`` votes for the k largest.
        entries_per_vote: Neighbouring entries that share a vote, and are sent together:
            1, or a power of two from 8 on. More make votes cheaper.
        residual: Keep what is not sent for the next round.
        fade: Share of what is kept that is forgotten every round, from 0 to below 1.
        clip: A client offers as its peak at most ``clip`` times the root mean square of
            its largest entries, as many as it votes for; levels beyond are clamped.
            Smaller widths then go further; the bound on the width does not know of it.
            By default nothing is clipped.
        lanes: How wide lanes are: ``same``, as many bits up as down; ``dense``, only as
            many up as a client's own levels need, for the same sums; ``words``, the
            same in widths of 4, 8, 16 or 32 bits, which leave levels more room.
    """

    votes: Share = "5%"
    threshold: Share = 3
    bits: int | Literal["tuned", "bound", "adaptive"] = "bound"
    law: Literal["bernoulli", "draws", "topk"] = "bernoulli"
    entries_per_vote: int = 1
    residual: bool = True
    fade: float = 0.0
    clip: float | None = None
    lanes: Literal["same", "dense", "words"] = "same"


@dataclass(frozen=True, slots=True)
class SwitchmlSettings:
    """SwitchML: add all entries as integers.

    Attributes:
        bits: Width of the switch's sums.
        residual: Keep the rounding error for the next round.
        fade: Share of what is kept that is forgotten every round, from 0 to below 1.
        lanes: How wide lanes are: ``same``, ``dense`` or ``words``, as FediAC's.
    """

    bits: int = 12
    residual: bool = True
    fade: float = 0.0
    lanes: Literal["same", "dense", "words"] = "same"


@dataclass(frozen=True, slots=True)
class OmnireduceSettings:
    """OmniReduce: add the blocks that hold one of a client's largest entries.

    Attributes:
        sent: Entries a client keeps: a count, or a share of all entries.
        block: Entries of a block.
        residual: Keep what is not sent for the next round.
        fade: Share of what is kept that is forgotten every round, from 0 to below 1.
    """

    sent: Share = "5%"
    block: int = 360
    residual: bool = True
    fade: float = 0.0


@dataclass(frozen=True, slots=True)
class LibraSettings:
    """libra: hot entries are added by the switch, the others by a server.

    Attributes:
        sent: Entries a client sends: a count, or a share of all entries.
        hot_rounds: Rounds of the training beforehand that finds hot entries.
        residual: Keep what is not sent for the next round.
        fade: Share of what is kept that is forgotten every round, from 0 to below 1.
        bits: Width of an entry's value. As published 32, and what goes to the server
            are floats then; below that all values are integers whose sum fits.
        narrow: Give an entry's index only as many bits as tell the switch's registers,
            or at the server all entries, apart; as published it has 32.
    """

    sent: Share = "1%"
    hot_rounds: int = 3
    residual: bool = True
    fade: float = 0.0
    bits: int = 32
    narrow: bool = False


@dataclass(frozen=True, slots=True)
class FedavgSettings:
    """Federated averaging has no settings."""


@dataclass(frozen=True, slots=True)
class TopkSettings:
    """Top-k: every client's largest entries, with indices, to a server.

    Attributes:
        sent: Entries a client sends: a count, or a share of all entries.
        residual: Keep what is not sent for the next round.
        fade: Share of what is kept that is forgotten every round, from 0 to below 1.
    """

    sent: Share = "1%"
    residual: bool = True
    fade: float = 0.0


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Everything that decides a run.

    Attributes:
        algorithm: An algorithm that ``fediac list`` shows, or your own class or
            function as ``package.module:name``, called with what it takes of
            ``n_clients`` (in a round) and ``dim`` (entries of an update).
        seed: Seed of everything random.
        tuning: Who chooses FediAC's threshold and bits: ``local`` clients (bits only),
            a ``server`` that sees the first round, or ``none``: they are given.
    """

    algorithm: str = "fediac"
    seed: Seed = 1
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
    table = read_table(path)
    table.pop("versions", None)  # a resolved file also says what wrote it
    table.pop("paper", None)  # and a scenario of the paper what it stands beside
    given = apply_overrides({}, overrides)
    parse_settings(RunSettings, given, source="--set")  # the file is not to blame
    everything = apply_overrides(table, overrides)
    return parse_settings(RunSettings, everything, source=str(path))


def parse_settings(
    kind: type[Settings], table: Mapping[str, Any], *, source: str, name: str = ""
) -> Settings:
    """Return a table as a settings dataclass.

    Raises:
        ConfigError: A key is unknown or a value has the wrong type.
    """
    place = f"[{name}]" if name else "the top level"
    hints = get_type_hints(kind, include_extras=True)
    known = [each.name for each in fields(kind)]  # type: ignore[arg-type] # dataclass
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in known:
            hint = hint_name(key, known)
            raise ConfigError(f"{source}: unknown key {key!r} in {place}{hint}")
        wanted = hints[key]
        path = f"{source}: {name}.{key}" if name else f"{source}: {key}"
        if is_dataclass(wanted):
            if not isinstance(value, Mapping):
                raise ConfigError(f"{path} must be a table, got {value!r}")
            kind_of_table: type[Any] = wanted  # type: ignore[assignment] # a class
            values[key] = parse_settings(kind_of_table, value, source=source, name=key)
        else:
            values[key] = convert(value, wanted, path)
    return kind(**values)


def by_key(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by what a person writes, such as train.lr.

    Args:
        document: Values and tables of values by their names.
    """
    values: dict[str, Any] = {}
    for name, value in document.items():
        if isinstance(value, Mapping):
            values |= {f"{name}.{key}": each for key, each in value.items()}
        else:
            values[name] = value
    return values
