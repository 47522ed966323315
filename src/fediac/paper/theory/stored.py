"""Theory against measurement as it is kept: plain numbers, in one JSON file."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct

from fediac.core.powerlaw import PowerLaw
from fediac.errors import RunError, say_reason
from fediac.files import write_whole
from fediac.runs.records import decode
from fediac.runs.settings import RunSettings, as_document, parse_run

Positive: TypeAlias = Annotated[int, Meta(ge=1)]


@dataclass(frozen=True, slots=True)
class Compared:
    """One number of a round: predicted three times, and measured.

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
        chosen: Share of entries that the clients agree on: r, predicted and measured.
    """

    first: Positive
    last: Positive
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

    round_number: Positive
    n_clients: Positive
    bits: Positive
    peak: float
    accuracy: float
    fits: Annotated[tuple[PowerLaw, ...], Meta(min_length=1)]
    law: PowerLaw
    chosen: Compared
    gamma: Compared
    bins: Annotated[tuple[RankBin, ...], Meta(min_length=1)]


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
    except OSError as error:
        raise RunError(f"{path}: {say_reason(error)}") from None
    stored = decode(content, _Stored, str(path))
    numbers = [each.round_number for each in stored.rounds]
    if numbers != sorted(set(numbers)):  # each has a row of panels under its name
        raise RunError(
            f"{path}: rounds must be of one round after the other, got {numbers}"
        )
    return Measurement(
        settings=parse_run(stored.settings, source=str(path)),
        dim=stored.dim,
        n_votes=stored.n_votes,
        threshold=stored.threshold,
        rounds=stored.rounds,
        versions=stored.versions,
    )


class _Stored(Struct, frozen=True):
    """A measurement with its settings as a file has them."""

    settings: dict[str, Any]
    dim: Positive
    n_votes: Positive
    threshold: Positive
    rounds: Annotated[tuple[RoundCheck, ...], Meta(min_length=1)]
    versions: dict[str, str] = {}


def _without_none(table: dict[str, Any]) -> dict[str, Any]:
    """Return a table without what is not set: settings are read as TOML has them."""
    return {
        key: _without_none(value) if isinstance(value, dict) else value
        for key, value in table.items()
        if value is not None
    }
