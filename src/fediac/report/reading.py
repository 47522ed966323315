"""Folders -> runs: what ``fediac report`` reads, checked before anything is drawn."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fediac.archives import SUFFIX, Place, find_below, open_place
from fediac.compressors import CATALOG
from fediac.errors import RunError
from fediac.names import short_name
from fediac.runs.records import ROUNDS
from fediac.runs.stored import Run, read_run

MAX_LEVEL = 2
"""Folders down to a run: ``fediac paper`` writes SCENARIO/ENTRANT/seedN."""


def read_runs(paths: Sequence[Path]) -> tuple[list[Run], list[str]]:
    """Return the runs in the given folders, and notes on those that were left out.

    Args:
        paths: Folders of runs, or folders or archives that hold them, directly or one
            folder further down. Runs in one folder are ordered as the catalog orders
            their algorithms.

    Raises:
        RunError: A file is missing or damaged, or no run has a finished round.
    """
    runs: list[Run] = []
    notes = []
    seen = set()
    for path in paths:
        found = []
        for place in _find_places(path):
            folder = Path(str(place))
            if folder.resolve() in seen:
                continue
            seen.add(folder.resolve())
            run = read_run(place)
            if run is None:
                name = folder.name if folder == path else folder.relative_to(path)
                notes.append(f"{name}: no round is finished; left out.")
            else:
                found.append(run)
        runs += sorted(found, key=lambda run: _catalog_place(run.algorithm))
    if not runs:
        raise RunError(f"{paths[0]}: no round is finished yet")
    return tell_apart(runs), notes


def tell_apart(runs: Sequence[Run]) -> list[Run]:
    """Give runs that are shown together a label each."""
    labels = choose_labels(runs)
    return [replace(run, label=label) for run, label in zip(runs, labels, strict=True)]


def _find_places(path: Path) -> list[Place]:
    """Return the folders of runs in a folder or archive, none deeper than another."""
    place = open_place(path)
    if not place.is_dir():
        raise RunError(f"{path}: no such folder")
    for level in range(MAX_LEVEL + 1):
        found = find_below(place, "*/" * level + ROUNDS)
        if found:
            return [place.joinpath(*each.parent.parts) for each in found]
    message = (
        f"{path}: no rounds.jsonl here or up to {MAX_LEVEL} folders down; give the "
        "folder that a run wrote"
    )
    # Results of many scenarios are no comparison; one scenario of them is.
    for above in ("", "*/"):
        patterns = (f"*{SUFFIX}", f"*/*/*/{ROUNDS}")
        scenarios = [
            each for name in patterns for each in find_below(place, above + name)
        ]
        if scenarios:
            first = scenarios[0].parts[: above.count("/") + 1]
            raise RunError(
                f"{message}, or one that holds runs, such as {path.joinpath(*first)}"
            )
    raise RunError(message)


def _catalog_place(algorithm: str) -> int:
    names = list(CATALOG)
    return names.index(algorithm) if algorithm in names else len(names)


def choose_labels(runs: Sequence[Run]) -> list[str]:
    """Return the shortest kind of name that tells all runs apart."""
    choices = (
        [short_name(run.algorithm) for run in runs],
        [run.algorithm for run in runs],
        [run.folder.resolve().name for run in runs],
        [run.folder.resolve().parent.name for run in runs],
        ["/".join(run.folder.resolve().parts[-2:]) for run in runs],
        [f"{run.algorithm} {number}" for number, run in enumerate(runs, start=1)],
    )
    return next(each for each in choices if len(set(each)) == len(each))
