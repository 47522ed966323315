"""Do what is missing: reuse stored runs, go on with shorter ones, start new ones."""

import shutil
from collections.abc import Sequence
from dataclasses import replace

from fediac.errors import FediacError
from fediac.experiments.paper.entrants import MAIN
from fediac.experiments.paper.plan import PlannedRun
from fediac.experiments.paper.scenarios import Scenario
from fediac.experiments.paper.steps import Manner, Step, Task, find_task, folder_of
from fediac.experiments.paper.theory_check import measure
from fediac.experiments.paper.theory_product import measurement_file
from fediac.experiments.paper.theory_stored import save_measurement
from fediac.experiments.records import CHECKPOINT, Record
from fediac.experiments.run import Watcher, drop_model, run_experiment


def run_plan(
    plan: Sequence[PlannedRun], manner: Manner, watcher: Watcher | None = None
) -> list[str]:
    """Run what is missing of a plan; return a line on each run that failed.

    A run that fails, such as one whose model diverges, does not keep others from
    running. Whatever is stored already is looked at before anything runs.

    Raises:
        RunError: A stored run had other settings; nothing has been run then.
        KeyboardInterrupt: Stopped by the user; the same plan goes on from there.
    """
    for run in plan:
        find_task(run, run.untils[0], manner.results)
    failures = []
    for number, run in enumerate(plan, start=1):
        place = f"[{number}/{len(plan)}] {run.label}"
        try:
            _complete(run, place, manner, watcher)
        except FediacError as error:
            failures.append(f"{run.label}: {error}")
            manner.say(f"{place} failed: {error}")
    return failures


def _complete(
    run: PlannedRun, place: str, manner: Manner, watcher: Watcher | None
) -> None:
    """Get one run to all of its ends; keep its checkpoint only in between."""
    folder = folder_of(run, manner.results)
    for until in run.untils:
        task = find_task(run, until, manner.results)
        goal = until.describe(task.target)
        manner.say(f"{place} {task.step} to {goal}")
        if task.step is Step.REUSE:
            continue
        is_last = until is run.untils[-1]
        summary = _execute(task, manner, watcher, keeps=not is_last)
        manner.say(f"{place} {_describe(summary)}")
    if not manner.keeps_models:
        drop_model(folder)


def _execute(
    task: Task, manner: Manner, watcher: Watcher | None, *, keeps: bool
) -> Record:
    """Run a task where nothing is lost if it does not get to its end."""
    folder = folder_of(task.run, manner.results)
    beside = folder.with_name(f"{folder.name}.again")
    place = beside if task.step is Step.AGAIN else folder
    resumes = (place / CHECKPOINT).exists()
    if not resumes and place.exists():
        shutil.rmtree(place)  # a run that was killed before its first checkpoint
    summary = run_experiment(
        manner.on_device(task.settings),
        place,
        resumes=resumes,
        watcher=watcher,
        keeps_model=keeps or manner.keeps_models,
    )
    if place is beside:
        old = folder.with_name(f"{folder.name}.old")
        folder.rename(old)
        beside.rename(folder)
        shutil.rmtree(old)
    return summary


def _describe(summary: Record) -> str:
    return (
        f"is done: {summary['stopped']}, {summary['rounds']} rounds, accuracy "
        f"{100 * summary['accuracy']:.2f} %, {summary['payload_mib']:,.1f} MiB, "
        f"{summary['real_s']:.0f} s"
    )


def measure_theory(
    scenario: Scenario,
    seed: int,
    rounds: Sequence[int],
    manner: Manner,
    watcher: Watcher | None = None,
) -> None:
    """Train FediAC, looking at some of its rounds, and store what they were like."""
    label = f"{scenario.name} theory seed {seed}"
    manner.say(f"{label} runs to round {rounds[-1]}")
    settings = replace(MAIN[0].apply(scenario.settings), seed=seed)
    measurement = measure(manner.on_device(settings), rounds, watcher)
    path = measurement_file(manner.results, scenario.name, seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_measurement(measurement, path)
    manner.say(f"{label} is done")
