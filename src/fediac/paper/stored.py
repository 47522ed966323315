"""What the paper's runs left behind, read without PyTorch and without any model.

A folder of results holds ``runs/SCENARIO.zip``, an archive of all complete runs: in
``ENTRANT/seedK`` the files that ``fediac run`` writes. A run that is not complete, or
whose model was kept, has a folder ``runs/SCENARIO/ENTRANT/seedK``.
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TypeAlias

from fediac.archives import (
    SUFFIX,
    Place,
    find_below,
    open_place,
    read_bytes,
    replace_folder,
)
from fediac.errors import RunError
from fediac.files import lock_folder
from fediac.runs.records import CONFIG, ROUNDS, SUMMARY
from fediac.runs.stored import FAILED, Run, read_run

RUNS = "runs"

Key: TypeAlias = tuple[str, str, int]
"""Scenario, entrant and seed."""

_KEPT = (CONFIG, ROUNDS, SUMMARY, FAILED)
_SEED = re.compile(r"seed(0|[1-9][0-9]*)")


def run_folder(results: Path, scenario: str, entrant: str, seed: int) -> Path:
    """Return where a folder of results keeps one run that is not complete."""
    return results / RUNS / scenario / entrant / f"seed{seed}"


def run_archive(results: Path, scenario: str) -> Path:
    """Return where a folder of results keeps the complete runs of a scenario."""
    return results / RUNS / f"{scenario}{SUFFIX}"


def read_stored(results: Path) -> list[Run]:
    """Return all runs in a folder of results, by scenario, entrant and seed.

    A run without a whole round is left out; a folder without runs has none.

    Raises:
        ConfigError, RunError: A file is missing or damaged.
    """
    found: list[Run] = []
    for archive in sorted((results / RUNS).glob(f"*{SUFFIX}")):
        found += _read_below(open_place(archive), f"*/*/{ROUNDS}")
    found += _read_below(results / RUNS, f"*/*/*/{ROUNDS}")
    return sorted(index_runs(found).values(), key=lambda run: run.key)


def index_runs(runs: Iterable[Run]) -> dict[Key, Run]:
    """Return runs by their keys: of several the longest, the first of equals."""
    kept: dict[Key, Run] = {}
    for run in runs:
        other = kept.get(run.key)
        if other is None or len(run.rounds) > len(other.rounds):
            kept[run.key] = run
    return kept


def read_some(results: Path, keys: Iterable[Key]) -> dict[Key, Run]:
    """Return those of some runs that are stored.

    Raises:
        ConfigError, RunError: A file is missing or damaged.
    """
    found = []
    for scenario, entrant, seed in keys:
        archive = run_archive(results, scenario)
        inside = archive / entrant / f"seed{seed}"
        for place in (inside, run_folder(results, scenario, entrant, seed)):
            run = _read(open_place(place))
            found += [] if run is None else [run]
    return index_runs(found)


def _read_below(place: Place, pattern: str) -> list[Run]:
    found = (_read(_join(place, each.parent)) for each in find_below(place, pattern))
    return [run for run in found if run is not None]


def _join(place: Place, below: PurePosixPath) -> Place:
    return place.joinpath(*below.parts)


def _read(place: Place) -> Run | None:
    """Return a run that tables can be made of, None where there is none."""
    seed = _SEED.fullmatch(place.name)
    run = read_run(place) if seed else None
    if run is None or seed is None:
        return None
    if run.seed != int(seed[1]):
        raise RunError(f"{run.folder}: holds a run with seed {run.seed}")
    # Tables say who saves which share; elsewhere updates of zeros need no bytes.
    first = run.rounds[0]
    costs = {"payload_mib": first.payload_mib}
    costs |= {f"time_s.{switch}": each for switch, each in first.time_s.items()}
    for name, cost in costs.items():
        if cost == 0:
            raise RunError(f"{run.folder / ROUNDS}:1: {name} must be above 0, got 0.0")
    return run


def put_away(results: Path, key: Key, *, keeps_folder: bool = False) -> None:
    """Put a run that has ended into the archive of its scenario.

    What is there of it already gives way; but of a longer run that one which failed was
    to replace, only the reason is noted.

    Args:
        results: The folder of results.
        key: The run.
        keeps_folder: Leave its folder as well, with the model in it.

    Raises:
        RunError: Another process is writing to its folder.
    """
    scenario, entrant, seed = key
    folder, archive = run_folder(results, *key), run_archive(results, scenario)
    with lock_folder(folder):
        files = _read_kept(folder)
        before = open_place(archive / entrant / f"seed{seed}")
        if FAILED in files and _count_rounds(before) > _count_rounds(folder):
            files = _read_kept(before) | {FAILED: files[FAILED]}
        replace_folder(archive, f"{entrant}/seed{seed}", files)
        if keeps_folder:
            return
        for name in _KEPT:
            (folder / name).unlink(missing_ok=True)
    with suppress(OSError):  # something else is there, such as other runs
        for each in (folder, folder.parent, folder.parent.parent):
            each.rmdir()


def _read_kept(place: Place) -> dict[str, bytes]:
    return {
        name: read_bytes(place / name) for name in _KEPT if (place / name).is_file()
    }


def _count_rounds(place: Place) -> int:
    run = read_run(place)
    return 0 if run is None else len(run.rounds)
