"""The demo: every algorithm trains the same model on the same data and network.

FediAC does so twice: with the paper's settings, and with those of the preset ``lean``.
"""

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec import to_builtins
from msgspec.structs import replace
from rich.console import Group
from rich.live import Live
from rich.text import Text

from fediac.api.several_runs import compare_runs, make_table
from fediac.compressors import CATALOG, FediAC
from fediac.console import open_console, write_json
from fediac.errors import ConfigError, RunError
from fediac.files import require_folder, write_whole
from fediac.number_words import about_percent, mib
from fediac.report.write import write_report
from fediac.runs.recording import write_summary
from fediac.runs.records import SUMMARY, Round, RunTotals, Summary, summarize
from fediac.runs.settings import (
    RunSettings,
    StopSettings,
    TrainSettings,
)
from fediac.runs.stored import read_run

TARGET = 0.9
LEAN = "fediac-lean"
REPORT = "report.html"
MARK = ".demo"


def demo_settings(n_rounds: int) -> RunSettings:
    """Return the demo's settings: the embedded digits, real traces, a fast switch."""
    return RunSettings(
        train=TrainSettings(device="cpu"),
        stop=StopSettings(rounds=n_rounds),
    )


def demo_runs(settings: RunSettings) -> dict[str, RunSettings]:
    """Return the runs of the demo by the names of their folders.

    The model has no batch norm, so the preset's statistics are nobody's advantage.
    """
    lean = settings
    for key, value in FediAC.PRESETS["lean"].settings.items():
        lean = lean.changed(f"fediac.{key}", value)
    runs = {name: settings.changed("algorithm", name) for name in CATALOG}
    return {"fediac": runs["fediac"], LEAN: lean, **runs}


class LiveTable:
    """A table of all runs in a terminal, updated while they go on."""

    def __init__(self, live: Live, runs: Mapping[str, RunSettings]) -> None:
        self._live = live
        self._runs = runs
        self._target = TARGET
        self._rounds: dict[str, list[Round]] = {}
        self._current = ""

    def start(
        self,
        settings: RunSettings,
        n_clients: int,  # noqa: ARG002 - as every observer is told
        before: Round | None,
    ) -> None:
        """Begin the next run's row."""
        names = (name for name, each in self._runs.items() if each == settings)
        self._current = next(names)
        self._rounds[self._current] = [] if before is None else [before]

    def doubt(self, why: str) -> None:
        """Do nothing: the demo's settings fit its model."""

    def client_done(self) -> None:
        """Do nothing: the demo's rounds are quick."""

    def round_done(self, record: Round) -> None:
        """Show the new numbers."""
        self._rounds[self._current].append(record)
        summaries = {
            name: summarize(rounds, self._target)
            for name, rounds in self._rounds.items()
        }
        note = Text(f"training with {self._current}: round {record.number}")
        self._live.update(Group(make_table(summaries), note))


def run_demo(folder: Path, *, n_rounds: int, as_json: bool) -> None:
    """Train with every algorithm, then write the report and summarize it.

    Args:
        folder: Made anew; a folder that holds something else is left alone.
        n_rounds: Rounds of each algorithm.
        as_json: Print the summary instead of a live table.
    """
    require_folder(folder)
    _make_anew(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / MARK, "A demo's folder: the next demo empties it.\n")
    console = open_console()
    is_live = sys.stdout.isatty() and not as_json
    runs = demo_runs(demo_settings(n_rounds))
    with Live(console=console, auto_refresh=is_live, transient=True) as live:
        observer = LiveTable(live, runs) if is_live else None
        compared = compare_runs(runs, folder, resumes=False, observer=observer)
    if compared.failures:
        raise RunError("; ".join(": ".join(each) for each in compared.failures.items()))
    summaries = {
        name: replace(_at_target(folder / name, summary), algorithm=name)
        for name, summary in compared.summaries.items()
    }
    document = {"target": TARGET, "algorithms": list(summaries.values())}
    write_summary(folder, document)
    write_report([folder], output=folder / REPORT, kind=None, target=str(TARGET))
    if as_json:
        write_json(to_builtins(document))
        return
    console.print(make_table(summaries))
    console.print(conclude(summaries))
    console.print(f"{folder / REPORT} shows it in charts")


def _make_anew(folder: Path) -> None:
    """Empty a folder that an earlier demo wrote; refuse any other.

    Only its mark tells a demo from a comparison, which has the same names.
    """
    if not folder.exists():
        return
    own = {MARK, REPORT, SUMMARY, LEAN, *CATALOG}
    names = {each.name for each in folder.iterdir()}
    if names and not (MARK in names and names <= own):
        raise ConfigError(
            f"{folder}: contains something that is not a demo's; give another --out"
        )
    for each in folder.iterdir():  # not the folder: it may be a link, or this one
        if each.is_dir():
            shutil.rmtree(each)
        else:
            each.unlink()


def _at_target(folder: Path, summary: Summary) -> Summary:
    """Return a run's summary with what it took to the demo's target."""
    run = read_run(folder)
    target = None if run is None else summarize(run.rounds, TARGET).target
    return replace(summary, target=target)


def conclude(summaries: Mapping[str, RunTotals]) -> str:
    """Return what the demo shows, in a paragraph."""
    reached = {
        name: summary.target.payload_mib
        for name, summary in summaries.items()
        if summary.target is not None and summary.target.payload_mib is not None
    }
    missed = [name for name in summaries if name not in reached]
    goal = f"{100 * TARGET:g} %"
    if not reached:
        return f"No algorithm reached {goal} in these rounds."
    ranked = sorted(reached, key=lambda name: reached[name])
    best = ranked[0]
    text = f"{best} needed the least traffic to {goal} accuracy: {mib(reached[best])}"
    others = [name for name in ranked if _family(name) != _family(best)]
    if others:
        second = others[0]
        saving = 1.0 - reached[best] / reached[second]
        text += f", {about_percent(saving)} less than {second} ({mib(reached[second])})"
    text += "."
    if missed:
        text += f" Not there after the last round: {', '.join(missed)}."
    return text


def _family(name: str) -> str:
    """Return the algorithm of a run: two settings of one are no rivals."""
    return name.partition("-")[0]
