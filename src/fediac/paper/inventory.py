"""What is stored: every run, what it cost, and the commit and machine it came from."""

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from fediac.console import count
from fediac.number_words import exact_percent, whole
from fediac.report.markdown import write_table
from fediac.runs.provenance import Writer
from fediac.runs.stored import Run

FILE = "runs.md"

_CLOCKS = ("train_s", "compress_s", "simulate_s", "evaluate_s")

_COLUMNS = (
    *("scenario", "entrant", "seed", "rounds", "accuracy", "best", "payload MiB"),
    *("real s", "train s", "compress s", "machine", "commit"),
)

_COVERED = ("scenario", "machine", "entrants", "seeds", "runs", "rounds", "real s")


def list_stored(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return a row for each stored run, in their order."""
    return [_row(run) for run in runs]


def _row(run: Run) -> dict[str, Any]:
    return {
        "scenario": run.scenario,
        "entrant": run.entrant,
        "seed": run.seed,
        "rounds": run.last.number,
        "accuracy": run.last.accuracy,
        "best": run.best.accuracy,
        "payload MiB": run.last.payload_mib,
        "real s": sum(getattr(each, name) for each in run.rounds for name in _CLOCKS),
        "train s": median(each.train_s for each in run.rounds),
        "compress s": median(each.compress_s for each in run.rounds),
        "machine": _all(map(_name_machine, run.writers)),
        "commit": _all(each.get("commit", "") for each in run.writers),
    }


def _name_machine(writer: Writer) -> str:
    """Return a machine's name; its times are others where kernels were missing."""
    name = writer.get("machine", "")
    return f"{name} without kernels" if writer.get("kernels") == "none" else name


def _all(names: Iterable[str]) -> str:
    """Return who wrote a run, in the order in which they did."""
    return ", ".join(dict.fromkeys(names))


def render_inventory(rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows as Markdown, with what all of them cost."""
    total = sum(row["real s"] for row in rows)
    n_rounds = sum(row["rounds"] for row in rows)
    lines = [
        "# Stored runs",
        "",
        f"{count(len(rows), 'run')}, {count(n_rounds, 'round')}, {whole(total)} s of "
        "training, "
        "compression, simulated clock and tests. Train and compress: of all clients in "
        "a round, the median. The settings (config.toml) and rounds (rounds.jsonl) of "
        "a run are in runs/SCENARIO.zip, under ENTRANT/seedK.",
        "",
        "## By scenario and machine",
        "",
        write_table(_COVERED, _list_covered(rows)),
        "",
        "## Every run",
        "",
        write_table(_COLUMNS, [_cells(row) for row in rows]),
    ]
    return "\n".join(lines) + "\n"


def _list_covered(rows: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Return how much was run of every scenario, and where."""
    places = dict.fromkeys((row["scenario"], row["machine"]) for row in rows)
    return [
        _add_up(
            [row for row in rows if (row["scenario"], row["machine"]) == place], *place
        )
        for place in places
    ]


def _add_up(rows: Sequence[dict[str, Any]], *place: str) -> list[str]:
    entrants = {row["entrant"] for row in rows}
    seeds = sorted({row["seed"] for row in rows})
    n_rounds, spent = (sum(row[name] for row in rows) for name in ("rounds", "real s"))
    return [
        *place,
        str(len(entrants)),
        ", ".join(map(str, seeds)),
        str(len(rows)),
        f"{n_rounds:,}",
        whole(spent),
    ]


def _cells(row: dict[str, Any]) -> list[str]:
    shown = row | {
        "accuracy": exact_percent(row["accuracy"]),
        "best": exact_percent(row["best"]),
        "payload MiB": f"{row['payload MiB']:,.1f}",
        "real s": whole(row["real s"]),
        "train s": f"{row['train s']:.2f}",
        "compress s": f"{row['compress s']:.3f}",
        "commit": _short(row["commit"]),
    }
    return [str(shown[name]) for name in _COLUMNS]


def _short(commit: str) -> str:
    """Return the first digits of commits, and whether they were changed."""
    parts = [each.partition("-") for each in commit.split(", ")]
    return ", ".join(digits[:10] + dash + change for digits, dash, change in parts)
