"""Theory against measurement as it is kept: plain numbers, in one JSON file."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fediac.core.powerlaw import PowerLaw
from fediac.errors import ConfigError, RunError
from fediac.experiments.files import write_whole
from fediac.experiments.settings import RunSettings, parse_settings


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
        lowest: Of the client whose magnitudes are smallest here.
        highest: Of the client whose magnitudes are largest here.
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
        accuracy: Of the model after the round, on the test set.
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
        settings: Of the run.
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


def save_measurement(measurement: Measurement, path: Path) -> None:
    """Write a measurement as JSON, all or nothing."""
    document = _without_none(asdict(measurement))
    write_whole(path, json.dumps(document, indent=1, allow_nan=False) + "\n")


def load_measurement(path: Path) -> Measurement:
    """Return the measurement in a file.

    Raises:
        RunError: The file is missing, damaged, or holds something else.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return _measurement(document, path)
    except FileNotFoundError:
        raise RunError(f"{path}: no such file") from None
    except (OSError, ValueError, TypeError, KeyError, ConfigError) as error:
        raise RunError(f"{path}: holds no measurement of the theory") from error


def _without_none(table: dict[str, Any]) -> dict[str, Any]:
    """Return a table without what is not set: settings are read as TOML has them."""
    return {
        key: _without_none(value) if isinstance(value, dict) else value
        for key, value in table.items()
        if value is not None
    }


def _measurement(document: dict[str, Any], path: Path) -> Measurement:
    settings = parse_settings(RunSettings, document["settings"], source=str(path))
    rounds = tuple(_round(each) for each in document["rounds"])
    return Measurement(**{**document, "settings": settings, "rounds": rounds})


def _round(document: dict[str, Any]) -> RoundCheck:
    changes = {
        "fits": tuple(PowerLaw(**each) for each in document["fits"]),
        "law": PowerLaw(**document["law"]),
        "chosen": Compared(**document["chosen"]),
        "gamma": Compared(**document["gamma"]),
        "bins": tuple(
            RankBin(**{**each, "chosen": Compared(**each["chosen"])})
            for each in document["bins"]
        ),
    }
    return RoundCheck(**{**document, **changes})
