"""The settings of the runs: what they share once, what differs side by side."""

from collections.abc import Mapping, Sequence
from typing import Any

from fediac.experiments.report.reading import Run
from fediac.experiments.report.tables import Row, Table
from fediac.experiments.report.wording import NOTHING

EXPECTED = (
    "algorithm",
    "versions.",
    "save.",
    "stop.",
    "train.device",
    "train.at_once",
)
"""Settings that may differ between runs that are compared."""


def settings_tables(runs: Sequence[Run]) -> list[Table]:
    """Return the settings as one or two tables: shared ones, and differing ones."""
    flat = [_settings(run) for run in runs]
    names = list(dict.fromkeys(name for each in flat for name in each))
    if len(runs) > 1 and all(run.label == run.algorithm for run in runs):
        names.remove("algorithm")
    shared = [name for name in names if _is_shared(name, flat)]
    tables = []
    if shared:
        caption = "Settings" if len(runs) == 1 else "Settings all runs share"
        rows = tuple(Row((name, flat[0][name])) for name in shared)
        tables.append(Table(caption, ("setting", "value"), rows, words=(0, 1)))
    if len(shared) < len(names):
        rows = tuple(
            Row((name, *(each.get(name, NOTHING) for each in flat)))
            for name in names
            if name not in shared
        )
        columns = ("setting", *(run.label for run in runs))
        words = tuple(range(len(columns)))
        tables.append(Table("Settings that differ", columns, rows, words))
    return tables


def differing(runs: Sequence[Run]) -> list[str]:
    """Return the settings whose difference makes a comparison doubtful."""
    flat = [_settings(run) for run in runs]
    own = tuple(f"{run.algorithm}." for run in runs)
    names = dict.fromkeys(name for each in flat for name in each)
    return [
        name
        for name in names
        if not name.startswith((*EXPECTED, *own)) and not _is_shared(name, flat)
    ]


def _is_shared(name: str, flat: Sequence[Mapping[str, str]]) -> bool:
    return len({each.get(name) for each in flat}) == 1


def _settings(run: Run) -> dict[str, str]:
    """Return a run's settings by dotted name, without other algorithms' tables."""
    known = ("data", "model", "clients", "train", "network", "stop", "save", "versions")
    kept = {
        key: value
        for key, value in run.settings.items()
        if not isinstance(value, Mapping) or key in (*known, run.algorithm)
    }
    partition = (run.summary or {}).get("partition")
    if isinstance(partition, Mapping):
        kept["partition"] = partition
    return dict(_flatten(kept))


def _flatten(table: Mapping[str, Any], path: str = "") -> list[tuple[str, str]]:
    pairs = []
    for key, value in table.items():
        if isinstance(value, Mapping):
            pairs += _flatten(value, f"{path}{key}.")
        elif not _is_detail(value):
            pairs.append((f"{path}{key}", _as_text(value)))
    return pairs


def _is_detail(value: object) -> bool:
    """Return whether this is a list of objects: too much for a table."""
    return isinstance(value, list) and any(isinstance(each, Mapping) for each in value)


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ", ".join(_as_text(each) for each in value)
    return NOTHING if value is None else str(value)
