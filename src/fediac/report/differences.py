"""In what the settings of runs differ, and which runs repeat each other."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from fediac.runs.settings import as_document, by_key, list_differing
from fediac.runs.stored import Run

EXPECTED = (
    "algorithm",
    "versions.",
    "save.",
    "stop.",
    "train.device",
    "train.n_at_once",
)
"""Settings that may differ between runs that are compared."""


def differing(runs: Sequence[Run]) -> list[str]:
    """Return the settings whose difference makes a comparison doubtful.

    A setting that a run does not have is newer than the run: it had the default.
    """
    own = tuple(f"{run.algorithm}." for run in runs)
    documents = [_own_document(as_document(run.settings), run) for run in runs]
    # How the data were split is in a run's summary, which is written at its end.
    partitions = [_partition(run) for run in runs if run.summary is not None]
    return [
        *list_differing(documents, but=(*EXPECTED, *own)),
        *(list_differing(partitions) if partitions else []),
    ]


def are_repeats(runs: Sequence[Run]) -> bool:
    """Return whether these are several runs that differ in their seed and nothing else.

    Here, too, a run had the default of what is newer.
    """
    documents = [_own_document(as_document(run.settings), run) for run in runs]
    but = tuple(name for name in EXPECTED if name != "algorithm")
    is_alike = not list_differing(documents, but=(*but, "seed"))
    return is_alike and len({run.seed for run in runs}) == len(runs) > 1


def flat_settings(run: Run) -> dict[str, str]:
    """Return a run's settings by dotted name, without other algorithms' tables."""
    document = {**_own_document(run.document, run), **_partition(run)}
    return {name: _as_text(value) for name, value in by_key(document).items()}


def _own_document(document: Mapping[str, Any], run: Run) -> dict[str, Any]:
    """Return settings without the tables of algorithms that the run is not of."""
    known = ("data", "model", "clients", "train", "network", "stop", "save", "versions")
    return {
        key: value
        for key, value in document.items()
        if not isinstance(value, Mapping) or key in (*known, run.algorithm)
    }


def _partition(run: Run) -> dict[str, Any]:
    """Return how the data were split, but for each client's share of them."""
    if run.summary is None:
        return {}
    facts = asdict(run.summary.partition)
    del facts["clients"]
    return {"partition": facts}


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ", ".join(_as_text(each) for each in value)
    return str(value)
