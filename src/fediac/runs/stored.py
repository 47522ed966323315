"""A run as it was left behind, read and checked in one place, without PyTorch.

It lies in a folder, or in an archive of many (see `fediac.archives`). A run that is
still going, or was killed, has no summary and may end in half a line. That is no error:
what is there is read, with a note.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fediac.archives import SUFFIX, Place, open_place, read_bytes
from fediac.console import count
from fediac.errors import RunError
from fediac.names import metric_name
from fediac.runs.provenance import WENT_ON, Writer, parse_writers
from fediac.runs.records import (
    CONFIG,
    ROUNDS,
    SUMMARY,
    Round,
    Summary,
    decode,
    find_reached,
    read_rounds,
)
from fediac.runs.settings import EXPERIMENT, RunSettings, parse_file
from fediac.runs.settings.toml_tables import read_table

FAILED = "failed.txt"
"""Why a run of the paper cannot go on; it would fail again in the same round."""


@dataclass(frozen=True, slots=True)
class Run:
    """What one run left behind, with at least one round.

    Attributes:
        folder: Where it is, perhaps inside an archive.
        settings: Those of ``config.toml``.
        document: The same as it was written: values and tables of values.
        writers: Software, commit and machine of all who wrote it, in their order.
        summary: None where there is none yet.
        failed: Why it cannot go on; empty where it can.
        notes: What a reader must know about these files.
        label: Its name in a report, unlike that of any other run.
    """

    folder: Path
    settings: RunSettings
    rounds: tuple[Round, ...]
    document: Mapping[str, Any]
    writers: tuple[Writer, ...] = ()
    summary: Summary | None = None
    failed: str = ""
    notes: tuple[str, ...] = ()
    label: str = ""

    @property
    def scenario(self) -> str:
        """Data, model and clients in the results of the paper, such as cifar10-iid."""
        return self.folder.parent.parent.name.removesuffix(SUFFIX)

    @property
    def entrant(self) -> str:
        """The algorithm as it is compared there, such as ``fediac-bound``."""
        return self.folder.parent.name

    @property
    def seed(self) -> int:
        """The seed of everything random."""
        return self.settings.seed

    @property
    def key(self) -> tuple[str, str, int]:
        """What tells runs of the paper apart."""
        return self.scenario, self.entrant, self.seed

    @property
    def algorithm(self) -> str:
        """The algorithm's name in the settings."""
        return self.settings.algorithm

    @property
    def metric(self) -> str:
        """What its accuracy is called: that, or as a metric of the user's own."""
        given = self.document.get(EXPERIMENT)
        return metric_name(given.get("metric") if isinstance(given, Mapping) else None)

    @property
    def last(self) -> Round:
        """The last round that was finished."""
        return self.rounds[-1]

    @property
    def best(self) -> Round:
        """The round with the highest accuracy, the first of equals."""
        return max(self.rounds, key=lambda each: each.accuracy)

    @property
    def switches(self) -> tuple[str, ...]:
        """The switches that this run was timed with."""
        return tuple(self.last.time_s)

    def reach(self, target: float) -> Round | None:
        """Return the first round with at least this accuracy."""
        return find_reached(self.rounds, target)


def read_run(place: Place) -> Run | None:
    """Return the run in a folder, or None where no round is finished.

    Args:
        place: The folder, on disk or in an archive.

    Raises:
        ConfigError, RunError: A file is missing or damaged.
    """
    place = open_place(place) if isinstance(place, Path) else place
    if not (place / ROUNDS).is_file():
        return None
    rounds, notes = _read_log(place / ROUNDS)
    if not rounds:
        return None
    document = read_table(place / CONFIG)
    source = str(place / CONFIG)
    settings = parse_file(document, source=source)
    writers = parse_writers(document, source=source)
    summary = read_summary(place)
    notes += _note_summary(summary, len(rounds)) + _note_other_kernels(writers)
    failed = place / FAILED
    return Run(
        folder=Path(str(place)),
        settings=settings,
        rounds=tuple(rounds),
        document=document,
        writers=writers,
        summary=summary,
        failed=failed.read_text(encoding="utf-8").strip() if failed.is_file() else "",
        notes=tuple(notes),
    )


def read_summary(place: Place) -> Summary | None:
    """Return the summary of the run in a folder, None where there is none yet.

    Raises:
        RunError: It is damaged.
    """
    path = place / SUMMARY
    return decode(read_bytes(path), Summary, str(path)) if path.is_file() else None


def _read_log(path: Place) -> tuple[list[Round], list[str]]:
    """Return all whole rounds, and a note where there is more."""
    lines = read_bytes(path).split(b"\n")
    notes = []
    if not _is_whole(lines[-1]):
        unfinished = lines.pop()
        if unfinished:
            notes.append("the last line of rounds.jsonl is half-written; left out.")
    return read_rounds(lines, path), notes


def _is_whole(line: bytes) -> bool:
    """Return whether a line without its end was written to the end nevertheless."""
    try:
        decode(line, dict[str, object], "")
    except RunError:
        return False
    return True


def _note_summary(summary: Summary | None, n_rounds: int) -> list[str]:
    if summary is None:
        return [
            "no summary.json: it is still running or was interrupted; what it "
            f"finished is shown: {count(n_rounds, 'round')}."
        ]
    if summary.rounds == n_rounds:
        return []
    return [
        f"summary.json tells of another number of rounds ({summary.rounds}) than "
        f"rounds.jsonl holds ({n_rounds}); shown is rounds.jsonl."
    ]


def _note_other_kernels(writers: Sequence[Writer]) -> list[str]:
    """Return a line for each time that a run went on with other kernels."""
    return [
        f"it went on with other kernels or on another processor {each}; the last bits "
        "of what follows may be others."
        for each in dict.fromkeys(writer.get(WENT_ON) for writer in writers)
        if each
    ]
