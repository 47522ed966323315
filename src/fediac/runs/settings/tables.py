"""The settings of a run: one TOML file, read into frozen dataclasses.

Counts are integers, shares are strings like "5%" (rounded up), resolved when the model
and the clients are known. Unknown keys are errors that name the nearest one. Every
algorithm's table may be present; a run reads its own. What is in it the algorithm says
itself, see `algorithm_tables`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_type_hints

from fediac.core.shares import Share
from fediac.defaults import COMPUTE_S, REGISTER_BYTES
from fediac.errors import ArgumentError, ConfigError, hint_name
from fediac.runs.settings.algorithm_tables import default_tables, table_types
from fediac.runs.settings.presets import fill_document, make_room
from fediac.runs.settings.toml_tables import apply_overrides, read_table
from fediac.runs.settings.types import Portion, Seed, convert
from fediac.training.local_settings import LocalSettings

Settings = TypeVar("Settings")

DEFAULT_ROUNDS = 20

EXPERIMENT = "experiment"
"""The table of a resolved file that says what `fediac.Experiment` was given."""

PartitionKind = Literal["writer", "iid", "dirichlet", "pathological", "client", "own"]
Tuning = Literal["local", "server", "none"]
Weights = Literal["equal", "examples"]


@dataclass(frozen=True, slots=True)
class DataSettings:
    """Which examples, and who has them.

    Attributes:
        name: Data set: ``digits`` (inside the package), ``cifar10``, ``cifar100``,
            ``femnist``; or your own: the path of an .npz file with arrays x and y, and
            maybe client and split, or of a folder with a folder of images for each
            class; or the name of such a file in the data folder.
        folder: Where data sets are; by default FEDIAC_DATA or a cache folder.
        partition: How examples are split over clients; ``client``, by the array of that
            name in your own file, one client for each number in it; ``own``, as they
            were given to `Experiment`, is for Python alone.
        beta: Evenness of the Dirichlet partition; smaller is less even.
        classes_per_client: Classes of each client, in the pathological partition.
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
    classes_per_client: int = 2
    min_size: int | None = None
    max_size: int | None = None
    download: bool = False


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """What is trained.

    Attributes:
        name: Model: ``small-cnn``, ``femnist-cnn``, ``resnet18``; ``mlp`` for inputs
            that are no images; or your own function as ``package.module:function``,
            called with a shape and a number of classes.
    """

    name: str = "small-cnn"


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How many clients there are.

    Attributes:
        n_clients: Number of clients, each with examples of its own.
        n_participants: How many take part in a round: a count, or a share like "50%";
            1 is one client, "100%" are all.
        weights: How much they count in a mean: ``equal``, all the same, as in the
            paper, or by their number of ``examples``, which takes one more packet a
            client and round, each way.
    """

    n_clients: int = 20
    n_participants: Share = "100%"
    weights: Weights = "equal"


@dataclass(frozen=True, slots=True)
class TrainSettings(LocalSettings):
    """How clients train, and on what.

    Attributes:
        device: Where to train; ``auto``: on the GPU when there is one.
        n_at_once: Clients trained side by side; 0: as many as the device can.
        statistics: Batch norm's running statistics: ``average`` them every round; keep
            each client's own ``local``, tests then use their mean; or ``recalibrate``:
            average what clients see when they run the new global model on up to 250 of
            their examples, which takes time and the same traffic. Models without batch
            norm have none.
    """

    device: Literal["auto", "cpu", "cuda"] = "auto"
    n_at_once: int = 0
    statistics: Literal["average", "local", "recalibrate"] = "average"


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """What is between clients and switch; a run times every switch it lists.

    Attributes:
        switches: Switches to time: ``fast``, ``slow`` (the paper's), or packets per
            second: ``1e6``.
        rates: How many packets per second clients send: ``paper`` (traces clipped to
            200-2800), ``nyumets`` (the same traces, not clipped), ``uniform``, ``700``,
            ``200-2800``, or trace files.
        compute_s: Simulated seconds that each client trains in a round.
        memory: ``unbounded``: the switch holds every packet that waits, as the paper
            assumes; ``bounded``: its registers give slots and a window.
        register_bytes: Memory of the switch, in bytes.
    """

    switches: tuple[str, ...] = ("fast",)
    rates: tuple[str, ...] = ("paper",)
    compute_s: float = COMPUTE_S
    memory: Literal["unbounded", "bounded"] = "unbounded"
    register_bytes: int = REGISTER_BYTES


@dataclass(frozen=True, slots=True)
class StopSettings:
    """A run ends with the first of these that is reached.

    Attributes:
        rounds: Rounds after which the run ends; 20 if nothing else ends it.
        simulated_s: Simulated seconds after which it ends, on all of its switches.
        real_s: Real seconds after which it ends.
        target: Test accuracy at which it ends.
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
        checkpoint_every: Rounds between checkpoints, from which a killed run can be
            continued; by default, saving takes about a tenth of the time.
        tensorboard: Also write TensorBoard logs.
        updates: First rounds whose updates are kept for ``fediac tune``, one file a
            round with all clients' (4 bytes a parameter and client).
    """

    checkpoint_every: int | None = None
    tensorboard: bool = False
    updates: int = 0


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Everything that decides a run.

    Attributes:
        algorithm: An algorithm that ``fediac list`` shows, or your own class or
            function as ``package.module:name``, called with what it takes of
            ``n_clients`` (in a round) and ``dim`` (entries of an update).
        seed: Seed for everything random.
        tuning: Who chooses FediAC's threshold and bits: ``local`` clients (bits only),
            a ``server`` that sees the first round, or ``none``: they are given.
        tables: The settings of every algorithm in the catalog, by its name.
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
    tables: tuple[tuple[str, Any], ...] = field(default_factory=default_tables)

    def of(self, algorithm: str) -> Any:  # noqa: ANN401 - has its fields
        """Return the settings of an algorithm in the catalog."""
        return dict(self.tables)[algorithm]

    def changed(self, key: str, value: Any) -> "RunSettings":  # noqa: ANN401 - of its type
        """Return these settings with one that is different.

        Args:
            key: As a person writes it: ``seed``, ``train.lr``, ``fediac.bits``.
            value: Its own; this is not checked.
        """
        table, _, name = key.rpartition(".")
        if not table:
            return replace(self, **{name: value})
        if table not in dict(self.tables):
            changed = replace(getattr(self, table), **{name: value})
            return replace(self, **{table: changed})
        changed = replace(self.of(table), **{name: value})
        tables = {**dict(self.tables), table: changed}
        return replace(self, tables=tuple(tables.items()))


def as_document(settings: RunSettings) -> dict[str, Any]:
    """Return settings as a file has them: values, and tables of values."""
    document = asdict(settings)
    del document["tables"]
    return document | {name: asdict(table) for name, table in settings.tables}


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
    given = apply_overrides({}, overrides)
    parse_run(given, source="--set")  # the file is not to blame
    ground = make_room(table, given)
    return parse_file(apply_overrides(ground, overrides), source=str(path))


def parse_file(document: Mapping[str, Any], *, source: str) -> RunSettings:
    """Return the settings of a run from all that a file of them may hold.

    Raises:
        ConfigError: A key is unknown or a value has the wrong type.
    """
    # A resolved file also says what wrote it and what that was given in Python, a
    # scenario what it stands beside.
    notes = ("versions", "paper", EXPERIMENT)
    kept = {key: document[key] for key in document if key not in notes}
    return parse_run(kept, source=source)


def parse_run(document: Mapping[str, Any], *, source: str) -> RunSettings:
    """Return the settings of a run from values and tables of values.

    Raises:
        ConfigError: A key is unknown or a value has the wrong type.
    """
    algorithms = table_types()
    kinds = _kinds_of(RunSettings) | algorithms
    del kinds["tables"]
    values = _parse(kinds, fill_document(document, source=source), source=source)
    tables = {name: values.pop(name, kind()) for name, kind in algorithms.items()}
    return RunSettings(**values, tables=tuple(tables.items()))


def parse_settings(
    kind: type[Settings], table: Mapping[str, Any], *, source: str, name: str = ""
) -> Settings:
    """Return a table as a settings dataclass.

    Raises:
        ConfigError: A key is unknown, or a value has the wrong type or is out of range.
    """
    values = _parse(_kinds_of(kind), table, source=source, name=name)
    try:
        return kind(**values)
    except ArgumentError as error:
        raise ConfigError(str(error.called(f"{name}.{error.argument}"))) from error


def _kinds_of(kind: type[Any]) -> dict[str, Any]:
    """Return the keys of a settings dataclass, and what each may be."""
    hints = get_type_hints(kind, include_extras=True)
    return {each.name: hints[each.name] for each in fields(kind)}


def _parse(
    kinds: Mapping[str, Any], table: Mapping[str, Any], *, source: str, name: str = ""
) -> dict[str, Any]:
    place = f"[{name}]" if name else "the top level"
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in kinds:
            hint = hint_name(key, kinds)
            raise ConfigError(f"{source}: unknown key {key!r} in {place}{hint}")
        wanted = kinds[key]
        path = f"{source}: {name}.{key}" if name else f"{source}: {key}"
        if is_dataclass(wanted):
            if not isinstance(value, Mapping):
                raise ConfigError(f"{path} must be a table, got {value!r}")
            kind: type[Any] = wanted  # type: ignore[assignment] # a class
            values[key] = parse_settings(kind, value, source=source, name=key)
        else:
            values[key] = convert(value, wanted, path)
    return values


def by_key(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by what a person writes, such as train.lr.

    Args:
        document: Values and tables of values by their names.
    """
    values: dict[str, Any] = {}
    for name, value in document.items():
        if isinstance(value, Mapping):
            inside = by_key(value).items()
            values |= {f"{name}.{key}": each for key, each in inside}
        else:
            values[name] = value
    return values


def list_differing(
    documents: Sequence[Mapping[str, Any]], *, but: tuple[str, ...] = ()
) -> list[str]:
    """Return the keys of all settings that are not the same in all documents.

    A setting that one has and another does not have differs.

    Args:
        documents: Values and tables of values by their names.
        but: How keys begin that may differ.
    """
    flat = [by_key(each) for each in documents]
    names = dict.fromkeys(name for each in flat for name in each)
    return [
        name
        for name in names
        if not name.startswith(but)
        if any(each.get(name) != flat[0].get(name) for each in flat)
    ]
