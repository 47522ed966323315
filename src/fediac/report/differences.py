"""In what the settings of runs differ, and which runs repeat each other."""

from collections.abc import Mapping, Sequence
from typing import Any

from fediac.number_words import NOTHING
from fediac.report.reading import Run
from fediac.runs.settings import RunSettings, as_document

EXPECTED = (
    "algorithm",
    "versions.",
    "save.",
    "stop.",
    "train.device",
    "train.n_at_once",
)
"""Settings that may differ between runs that are compared."""

DRAWN = ("seed", "partition.")
"""Settings that differ between repeats of a run: the seed, and what it draws."""


def differing(runs: Sequence[Run]) -> list[str]:
    """Return the settings whose difference makes a comparison doubtful."""
    flat = [flat_settings(run) for run in runs]
    own = tuple(f"{run.algorithm}." for run in runs)
    names = dict.fromkeys(name for each in flat for name in each)
    return [
        name
        for name in names
        if not name.startswith((*EXPECTED, *own))
        if not is_shared(name, _that_know(name, flat))
    ]


def _that_know(
    name: str, flat: Sequence[Mapping[str, str]]
) -> Sequence[Mapping[str, str]]:
    """Return those whose value of a setting is known.

    How the data were split is in a run's summary, which is written at its end.
    """
    if not name.startswith("partition."):
        return flat
    return [each for each in flat if name in each]


def are_repeats(runs: Sequence[Run]) -> bool:
    """Return whether these are several runs that differ in their seed and nothing else.

    A setting that a run does not have is newer than the run: it had the default.
    """
    defaults = dict(_flatten(as_document(RunSettings())))
    flat = [{**defaults, **flat_settings(run)} for run in runs]
    names = dict.fromkeys(name for each in flat for name in each)
    seeds = {each["seed"] for each in flat}
    return len(seeds) == len(runs) > 1 and all(
        is_shared(name, flat)
        for name in names
        if name == "algorithm" or not name.startswith((*EXPECTED, *DRAWN))
    )


def is_shared(name: str, flat: Sequence[Mapping[str, str]]) -> bool:
    """Return whether all have the same value of a setting, or none has one."""
    return len({each.get(name) for each in flat}) == 1


def flat_settings(run: Run) -> dict[str, str]:
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
