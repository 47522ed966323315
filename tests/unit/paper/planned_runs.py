"""Tiny planned runs: getting them somewhere, and stopping them on the way."""

from pathlib import Path

from fediac.paper.plan import PlannedRun, Until
from fediac.paper.running import run_plan
from fediac.paper.stored import index_runs, read_stored, run_archive
from fediac.paper.tasks import Step, Task, find_task, folder_of
from fediac.runs.observers import NoObserver
from fediac.runs.records import Round
from fediac.runs.stored import read_run
from tests.unit.paper.tiny_scenario import make_run_options

TWO, FOUR = Until(rounds=2), Until(rounds=4)


def files(run: PlannedRun, results: Path) -> set[str]:
    """Names of what is in the folder of a run; of nothing where there is none."""
    folder = folder_of(run, results)
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def archived(run: PlannedRun, results: Path) -> Path:
    """Where the archive has a run."""
    scenario, entrant, seed = run.key
    return run_archive(results, scenario) / entrant / f"seed{seed}"


def count_rounds(place: Path) -> int:
    run = read_run(place)
    return 0 if run is None else len(run.rounds)


def next_task(run: PlannedRun, until: Until, results: Path) -> Task:
    return find_task(run, until, index_runs(read_stored(results)), results)


def run_to(results: Path, run: PlannedRun, *, keeps_models: bool = False) -> list[str]:
    """Run, and return the steps that were said to be taken."""
    run_options, lines = make_run_options(results, keeps_models=keeps_models)
    assert run_plan([run], run_options) == []
    taken = [step.value for line in lines for step in Step if f"1 {step} to" in line]
    assert len(taken) == len(run.untils)
    return taken


class StopAfter(NoObserver):
    """A user who presses Ctrl-C in the round after this one, or what else ends it."""

    def __init__(self, n_rounds: int, error: BaseException | None = None) -> None:
        self._left = n_rounds
        self._error = error or KeyboardInterrupt()

    def round_done(self, record: Round) -> None:  # noqa: ARG002 - of observers
        self._left -= 1

    def client_done(self) -> None:
        if not self._left:
            raise self._error
