"""What the paper's runs left behind, read without PyTorch and without any model.

A folder of results holds ``runs/<scenario>/<entrant>/seed<k>/``, each with the files
that ``fediac run`` writes.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from fediac.errors import RunError
from fediac.runs.provenance import Writer, read_writers
from fediac.runs.records import (
    CONFIG,
    ROUNDS,
    SUMMARY,
    Record,
    find_reached,
    parse_records,
)
from fediac.runs.rounds import Fields, parse_object
from fediac.runs.settings import RunSettings, read_settings

RUNS = "runs"

FAILED = "failed.txt"
"""Why a run cannot go on; it would fail again in the same round."""

_SEED = re.compile(r"seed(0|[1-9][0-9]*)")


@dataclass(frozen=True, slots=True)
class StoredRun:
    """One run of one algorithm as it is compared, with at least one round.

    Attributes:
        scenario: Data, model and clients, such as ``cifar10-iid``.
        entrant: The algorithm as it is compared, such as ``fediac-bound``.
        records: The lines of ``rounds.jsonl``.
        writers: Software, commit and machine of all who wrote it, in their order.
        failed: Why it cannot go on; empty where it can.
    """

    scenario: str
    entrant: str
    seed: int
    settings: RunSettings
    records: tuple[Record, ...]
    writers: tuple[Writer, ...] = ()
    failed: str = ""

    @property
    def last(self) -> Record:
        """The line of the last round."""
        return self.records[-1]

    def reach(self, target: float) -> Record | None:
        """Return the first round with at least this accuracy."""
        return find_reached(self.records, target)


def run_folder(results: Path, scenario: str, entrant: str, seed: int) -> Path:
    """Return where a folder of results keeps one run."""
    return results / RUNS / scenario / entrant / f"seed{seed}"


def read_stored(results: Path) -> list[StoredRun]:
    """Return all runs in a folder of results, by scenario, entrant and seed.

    A run without a whole round is left out; a folder without runs has none.

    Raises:
        ConfigError, RunError: A file is missing or damaged.
    """
    runs = []
    for rounds in (results / RUNS).glob(f"*/*/seed*/{ROUNDS}"):
        found = _SEED.fullmatch(rounds.parent.name)
        run = read_one(rounds.parent) if found else None
        if found and run is not None:
            if run.seed != int(found[1]):
                raise RunError(f"{rounds.parent}: holds a run with seed {run.seed}")
            runs.append(run)
    return sorted(runs, key=lambda run: (run.scenario, run.entrant, run.seed))


def read_one(folder: Path) -> StoredRun | None:
    """Return the run in ``.../<scenario>/<entrant>/seed<k>``, None without a round.

    Raises:
        ConfigError, RunError: A file is missing or damaged.
    """
    if not (folder / ROUNDS).exists():
        return None
    # A run that goes on may be writing a line after the whole ones.
    lines = (folder / ROUNDS).read_bytes().split(b"\n")[:-1]
    records = parse_records(lines, folder / ROUNDS)
    if not records:
        return None
    _check_costs(records[0], f"{folder / ROUNDS}:1")
    _check_summary(folder / SUMMARY)
    settings = read_settings(folder / CONFIG)
    return StoredRun(
        scenario=folder.parent.parent.name,
        entrant=folder.parent.name,
        seed=settings.seed,
        settings=settings,
        records=tuple(records),
        writers=read_writers(folder / CONFIG),
        failed=_read_failure(folder / FAILED),
    )


def _read_failure(path: Path) -> str:
    return path.read_text(encoding="utf-8").strip() if path.is_file() else ""


def _check_costs(first: Record, where: str) -> None:
    """Refuse a run that costs nothing: tables say who saves which share of it.

    This is no rule for all runs: updates of zeros need no bytes.
    """
    costs = {"payload_mib": first["payload_mib"]}
    costs |= {f"time_s.{switch}": each for switch, each in first["time_s"].items()}
    for name, cost in costs.items():
        if cost == 0:
            raise Fields(first, where).wrong(name, "a number above 0", cost)


def _check_summary(path: Path) -> None:
    """Refuse a summary that a page could not be made of; a run may have none yet."""
    if path.is_file():
        parse_object(path.read_bytes(), str(path))
