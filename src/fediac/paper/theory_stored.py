"""Theory against measurement as it is kept: plain numbers, in one JSON file."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from fediac.core.powerlaw import PowerLaw
from fediac.errors import RunError, say_reason
from fediac.files import write_whole
from fediac.runs.rounds import Fields, is_number, parse_object
from fediac.runs.settings import RunSettings, as_document, parse_run

Part = TypeVar("Part")


@dataclass(frozen=True, slots=True)
class Compared:
    """One number of a round: promised three times, and measured.

    Attributes:
        law: By the paper's formulas, from the fitted power law.
        alike: From real magnitudes, as if all clients ranked their entries alike.
        own: From every entry's real magnitudes.
        measured: What the round had.
    """

    law: float
    alike: float
    own: float
    measured: float


@dataclass(frozen=True, slots=True)
class RankBin:
    """Neighbouring ranks, each client's own; shares and magnitudes are means over them.

    Attributes:
        first: The lowest rank; 1 is the largest magnitude.
        last: The highest.
        magnitude: Mean over clients.
        lowest: Magnitudes of the client whose are smallest here.
        highest: Magnitudes of the client whose are largest here.
        fitted: By the power law.
        voted_law: Share of entries that a client votes for, by the law: q.
        voted_actual: The same from the real magnitudes.
        voted: The same, measured.
        chosen: Share of entries that the clients agree on: r, promised and measured.
    """

    first: int
    last: int
    magnitude: float
    lowest: float
    highest: float
    fitted: float
    voted_law: float
    voted_actual: float
    voted: float
    chosen: Compared


@dataclass(frozen=True, slots=True)
class RoundCheck:
    """Theory and measurement of one round.

    Attributes:
        n_clients: Who took part.
        bits: Width of a level.
        peak: The largest magnitude of all clients.
        accuracy: The model's accuracy after the round, on the test set.
        fits: The power law of every client.
        law: The one that predictions are made from: medians, and the largest peak.
        chosen: Entries agreed on.
        gamma: Relative squared error of the compression.
    """

    round_number: int
    n_clients: int
    bits: int
    peak: float
    accuracy: float
    fits: tuple[PowerLaw, ...]
    law: PowerLaw
    chosen: Compared
    gamma: Compared
    bins: tuple[RankBin, ...]


@dataclass(frozen=True, slots=True)
class Measurement:
    """Rounds of one run.

    Attributes:
        settings: The run's settings.
        dim: Entries in an update.
        n_votes: Votes of one client.
        threshold: Votes an entry needs.
        versions: What measured it, as in a run's ``config.toml``.
    """

    settings: RunSettings
    dim: int
    n_votes: int
    threshold: int
    rounds: tuple[RoundCheck, ...]
    versions: dict[str, str] = field(default_factory=dict)

    def as_document(self) -> dict[str, Any]:
        """Return all of it as JSON has it, the settings as a file has them."""
        return asdict(self) | {"settings": as_document(self.settings)}


def save_measurement(measurement: Measurement, path: Path) -> None:
    """Write a measurement as JSON, all or nothing."""
    document = _without_none(measurement.as_document())
    write_whole(path, json.dumps(document, indent=1, allow_nan=False) + "\n")


def load_measurement(path: Path) -> Measurement:
    """Return the measurement in a file.

    Raises:
        RunError: The file is missing, damaged, or holds something else.
        ConfigError: The settings in it are none.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise RunError(f"{path}: no such file") from None
    except OSError as error:
        raise RunError(f"{path}: {say_reason(error)}") from None
    return _read_measurement(Fields(parse_object(content, str(path)), str(path)))


def _without_none(table: dict[str, Any]) -> dict[str, Any]:
    """Return a table without what is not set: settings are read as TOML has them."""
    return {
        key: _without_none(value) if isinstance(value, dict) else value
        for key, value in table.items()
        if value is not None
    }


def _read_measurement(fields: Fields) -> Measurement:
    settings = fields.table("settings").values
    rounds = _take_parts(fields, "rounds", RoundCheck)
    numbers = [each.round_number for each in rounds]
    if numbers != sorted(set(numbers)):  # each has a row of panels under its name
        raise fields.wrong("rounds", "of one round after the other", numbers)
    return Measurement(
        settings=parse_run(settings, source=fields.where),
        dim=_take_whole(fields, "dim"),
        n_votes=_take_whole(fields, "n_votes"),
        threshold=_take_whole(fields, "threshold"),
        rounds=rounds,
        versions=_read_versions(fields) if "versions" in fields.values else {},
    )


def _read_versions(fields: Fields) -> dict[str, str]:
    versions = fields.table("versions")
    for name, value in versions.values.items():
        if not isinstance(value, str):
            raise versions.wrong(name, "a string", value)
    return dict(versions.values)


def _read_part(kind: type[Part], fields: Fields) -> Part:
    """Return an object as a dataclass, every value of the type that its field has."""
    hints = get_type_hints(kind)
    values = {name: _take(fields, name, wanted) for name, wanted in hints.items()}
    try:
        return kind(**values)
    except ValueError as error:  # a power law has rules of its own
        raise RunError(f"{fields.where}: {fields.path}{error}") from None


def _take(fields: Fields, key: str, wanted: Any) -> object:  # noqa: ANN401 - any type
    if get_origin(wanted) is tuple:
        return _take_parts(fields, key, get_args(wanted)[0])
    if wanted is int:
        return _take_whole(fields, key)
    if wanted is float:
        return _take_number(fields, key)
    return _read_part(wanted, fields.table(key))


def _take_parts(fields: Fields, key: str, kind: type[Part]) -> tuple[Part, ...]:
    """Return a list of objects, of which there must be one for anything to be drawn."""
    values = fields.take(key)
    if not isinstance(values, list) or not values:
        raise fields.wrong(key, "a list with at least one object", values)
    around = {f"{key}[{index}]": value for index, value in enumerate(values)}
    each = Fields(around, fields.where, fields.path)
    return tuple(_read_part(kind, part) for _, part in each.tables())


def _take_whole(fields: Fields, key: str) -> int:
    value = fields.take(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise fields.wrong(key, "an integer of at least 1", value)
    return value


def _take_number(fields: Fields, key: str) -> float:
    value = fields.take(key)
    if not is_number(value):
        raise fields.wrong(key, "a number", value)
    return float(value)
