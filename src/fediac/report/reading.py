"""Folders -> runs: what ``fediac report`` reads, checked before anything is drawn.

A run that is still going, or was killed, has no summary and may end in half a line.
That is no error: the report shows the rounds that are there and says so.
"""

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fediac.compressors import CATALOG
from fediac.console import count
from fediac.errors import RunError
from fediac.names import short_name
from fediac.runs.provenance import WENT_ON, read_writers
from fediac.runs.rounds import (
    Round,
    check_next,
    parse_object,
    parse_round,
)

MAX_LEVEL = 2
"""Folders down to a run: ``fediac paper`` writes SCENARIO/ENTRANT/seedN."""

N_LOOKS = 8
"""Colours with a dash and a marker each; more runs than that share colours."""


@dataclass(frozen=True, slots=True)
class Run:
    """What one run left behind, with at least one round.

    Attributes:
        label: Its name in the report, unlike that of any other run.
        look: Which colour, dash and marker it is drawn with.
        settings: ``config.toml``.
        summary: ``summary.json``, or None where there is none.
        notes: What a reader must know about these files.
    """

    folder: Path
    algorithm: str
    rounds: tuple[Round, ...]
    settings: Mapping[str, Any]
    summary: Mapping[str, Any] | None
    notes: tuple[str, ...] = field(default=())
    label: str = ""
    look: int = 0

    @property
    def last(self) -> Round:
        """The last round that was finished."""
        return self.rounds[-1]

    @property
    def switches(self) -> tuple[str, ...]:
        """The switches that this run was timed with."""
        return tuple(self.last.time_s)

    @property
    def best(self) -> Round | None:
        """The round with the highest accuracy, the first of equals."""
        measured = [each for each in self.rounds if each.accuracy is not None]
        return max(measured, key=lambda each: each.accuracy or 0.0, default=None)


def read_runs(paths: Sequence[Path]) -> tuple[list[Run], list[str]]:
    """Return the runs in the given folders, and notes on those that were left out.

    Args:
        paths: Folders of runs, or folders that hold them, directly or one folder
            further down. Runs in one folder are ordered as the catalog orders their
            algorithms.

    Raises:
        RunError: A file is missing or damaged, or no run has a finished round.
    """
    runs: list[Run] = []
    notes = []
    seen = set()
    for path in paths:
        found = []
        for folder in _find_folders(path):
            if folder.resolve() in seen:
                continue
            seen.add(folder.resolve())
            run = read_run(folder)
            if run is None:
                name = folder.name if folder == path else folder.relative_to(path)
                notes.append(f"{name}: no round is finished; left out.")
            else:
                found.append(run)
        runs += sorted(found, key=lambda run: _catalog_place(run.algorithm))
    if not runs:
        raise RunError(f"{paths[0]}: no round is finished yet")
    return _with_looks(_with_labels(runs)), notes


def _find_folders(path: Path) -> list[Path]:
    if not path.is_dir():
        raise RunError(f"{path}: no such folder")
    for level in range(MAX_LEVEL + 1):
        folders = _find_at(path, level)
        if folders:
            return folders
    message = (
        f"{path}: no rounds.jsonl here or up to {MAX_LEVEL} folders down; give the "
        "folder that a run wrote"
    )
    # Results of many scenarios are no comparison; one scenario of them is.
    for level in (MAX_LEVEL + 1, MAX_LEVEL + 2):
        deeper = _find_at(path, level)
        if deeper:
            scenario = deeper[0].parents[MAX_LEVEL - 1]
            raise RunError(f"{message}, or one that holds runs, such as {scenario}")
    raise RunError(message)


def _find_at(path: Path, level: int) -> list[Path]:
    """Return the folders of runs that lie this many folders below ``path``."""
    pattern = "/".join(["*"] * level + ["rounds.jsonl"])
    return sorted(each.parent for each in path.glob(pattern))


def read_run(folder: Path) -> Run | None:
    """Return the run in ``folder``, or None where no round is finished."""
    settings = _read_settings(folder / "config.toml")
    algorithm = settings.get("algorithm")
    if not isinstance(algorithm, str):
        raise RunError(f"{folder / 'config.toml'}: algorithm must be a string")
    rounds, notes = _read_rounds(folder / "rounds.jsonl")
    if not rounds:
        return None
    summary = _read_summary(folder / "summary.json")
    if summary is None:
        notes.append(
            "no summary.json: it is still running or was interrupted; what it "
            f"finished is shown: {count(len(rounds), 'round')}."
        )
    elif summary.get("rounds", len(rounds)) != len(rounds):
        notes.append(
            f"summary.json tells of another number of rounds ({summary['rounds']}) "
            f"than rounds.jsonl holds ({len(rounds)}); shown is rounds.jsonl."
        )
    notes += _note_other_kernels(folder)
    return Run(folder, algorithm, rounds, settings, summary, tuple(notes))


def _note_other_kernels(folder: Path) -> list[str]:
    """Return a line for each time that a run went on with other kernels."""
    found = [each.get(WENT_ON) for each in read_writers(folder / "config.toml")]
    return [
        f"it went on with other kernels or on another processor {each}; the last bits "
        "of what follows may be others."
        for each in dict.fromkeys(found)
        if each
    ]


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise RunError(f"{path}: no such file") from None
    except OSError as error:
        raise RunError(f"{path}: {error.strerror}") from None


def _read_settings(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(_read_bytes(path).decode())
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path}: not TOML ({error})") from None


def _read_summary(path: Path) -> dict[str, Any] | None:
    return parse_object(_read_bytes(path), str(path)) if path.is_file() else None


def _read_rounds(path: Path) -> tuple[tuple[Round, ...], list[str]]:
    lines = _read_bytes(path).split(b"\n")
    notes = []
    if not _is_object(lines[-1]):
        unfinished = lines.pop()
        if unfinished:
            notes.append("the last line of rounds.jsonl is half-written; left out.")
    rounds: list[Round] = []
    for number, line in enumerate(lines, start=1):
        where = f"{path}:{number}"
        rounds.append(_checked(parse_round(line, where), rounds, where))
    return tuple(rounds), notes


def _is_object(line: bytes) -> bool:
    """Return whether a line without its end was written to the end nevertheless."""
    try:
        parse_object(line, "")
    except RunError:
        return False
    return True


def _checked(now: Round, before: Sequence[Round], where: str) -> Round:
    """Return ``now`` if it can follow the rounds before it."""
    if not before:
        return now
    last = before[-1]
    if now.number != last.number + 1:
        raise RunError(
            f"{where}: round must be {last.number + 1}, the one after round "
            f"{last.number}, got {now.number}"
        )
    check_next(now, last, where)
    return now


def _catalog_place(algorithm: str) -> int:
    names = list(CATALOG)
    return names.index(algorithm) if algorithm in names else len(names)


def _with_labels(runs: Sequence[Run]) -> list[Run]:
    """Give every run the shortest kind of name that tells all of them apart."""
    choices = (
        [short_name(run.algorithm) for run in runs],
        [run.algorithm for run in runs],
        [run.folder.resolve().name for run in runs],
        [run.folder.resolve().parent.name for run in runs],
        ["/".join(run.folder.resolve().parts[-2:]) for run in runs],
        [f"{run.algorithm} {number}" for number, run in enumerate(runs, start=1)],
    )
    labels = next(each for each in choices if len(set(each)) == len(each))
    return [replace(run, label=label) for run, label in zip(runs, labels, strict=True)]


def _with_looks(runs: Sequence[Run]) -> list[Run]:
    """Give an algorithm of the catalog its own look, so that it never changes."""
    counts = Counter(run.algorithm for run in runs)
    own = {
        run.label: _catalog_place(run.algorithm)
        for run in runs
        if counts[run.algorithm] == 1 and run.algorithm in CATALOG
    }
    taken = set(own.values())
    free = [look for look in range(max(N_LOOKS, len(runs)) * 2) if look not in taken]
    return [
        replace(run, look=own[run.label] if run.label in own else free.pop(0))
        for run in runs
    ]
