"""Do what is missing: reuse stored runs, go on with shorter ones, start new ones."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from fediac.console import count
from fediac.errors import FediacError, RunError, UpdateError, named, say_reason
from fediac.files import lock_folder, write_whole
from fediac.paper.plan import PlannedRun
from fediac.paper.scenarios import Scenario
from fediac.paper.stored import (
    index_runs,
    put_away,
    read_some,
    read_stored,
    run_archive,
)
from fediac.paper.tasks import (
    RunOptions,
    Step,
    Task,
    check_same,
    find_task,
    folder_of,
    needed_keys,
)
from fediac.paper.theory.check import measure
from fediac.paper.theory.product import (
    measurement_file,
    plan_measurement,
    stored_rounds,
)
from fediac.paper.theory.stored import save_measurement
from fediac.runs.folder import MODEL, drop_model
from fediac.runs.loop import run_experiment
from fediac.runs.observers import Observer
from fediac.runs.records import CHECKPOINT, CONFIG, ROUNDS, SUMMARY, Summary
from fediac.runs.settings.error_names import setting_names
from fediac.runs.stored import FAILED, read_run

_FAILURES = (FediacError, ValueError, OSError, MemoryError, RuntimeError)
"""What may end one run and leave others alone; PyTorch's errors are the last kind."""


def run_plan(
    plan: Sequence[PlannedRun],
    run_options: RunOptions,
    observer: Observer | None = None,
) -> list[str]:
    """Run what is missing of a plan; return a line on each run that failed.

    A run that fails, such as one whose model diverges or does not fit into memory, does
    not keep others from running. Whatever is stored already is looked at before
    anything runs.

    Raises:
        RunError: A stored run had other settings; nothing has been run then.
        KeyboardInterrupt: Stopped by the user; the same plan goes on from there.
    """
    results = run_options.results
    stored = index_runs(read_stored(results))
    for run in plan:
        find_task(run, run.untils[0], stored, results)
    failures = []
    for number, run in enumerate(plan, start=1):
        place = f"[{number}/{len(plan)}] {run.label}"
        try:
            _complete(run, place, run_options, observer)
        except _FAILURES as error:
            if isinstance(error, UpdateError):
                _give_up(run, results, _reason(error))
            failures.append(f"{run.label}: {_reason(error)}")
            run_options.say(f"{place} failed: {_reason(error)}")
    return failures


def _give_up(run: PlannedRun, results: Path, reason: str) -> None:
    """Note that a run cannot go on: training repeats to the bit, and so does this."""
    folder = folder_of(run, results)
    if folder.is_dir():
        drop_model(folder)
        write_whole(folder / FAILED, f"{reason}\n")
        put_away(results, run.key)


def _reason(error: Exception) -> str:
    """Return why a run failed, in one line."""
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{say_reason(error)}"
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0]


def _complete(
    run: PlannedRun, place: str, run_options: RunOptions, observer: Observer | None
) -> None:
    """Get one run to all of its ends; keep its folder only in between."""
    results = run_options.results
    _put_away_ended(run, results)
    has_run = False
    for until in run.untils:
        stored = read_some(results, needed_keys(run))
        task = find_task(run, until, stored, results)
        task.check_target()
        if task.stored is not None and task.step is Step.FAILED:
            raise RunError(
                f"{task.stored.failed} (as before; {_say_again(run, results)})"
            )
        run_options.say(f"{place} {task.step} to {until.describe(task.target)}")
        if task.step is Step.REUSE:
            continue
        has_run = True
        keeps = run_options.keeps_models or until is not run.untils[-1]
        summary = _execute(task, run_options, observer, keeps=keeps)
        run_options.say(f"{place} {_describe(summary)}")
    if has_run:
        if not run_options.keeps_models:
            drop_model(folder_of(run, results))
        put_away(results, run.key, keeps_folder=run_options.keeps_models)


def _put_away_ended(run: PlannedRun, results: Path) -> None:
    """Archive a run that had ended when an earlier command was killed.

    Raises:
        RunError: It had other settings.
    """
    folder = folder_of(run, results)
    has_ended = any((folder / name).exists() for name in (SUMMARY, FAILED))
    if has_ended and not (folder / CHECKPOINT).exists():
        ended = read_run(folder)
        if ended is not None:
            check_same(ended.settings, run, folder)
        put_away(results, run.key)


def _say_again(run: PlannedRun, results: Path) -> str:
    """Return how to get rid of a run that failed."""
    scenario, entrant, seed = run.key
    archive = shlex.quote(str(run_archive(results, scenario)))
    return f"to try again: zip -d {archive} '{entrant}/seed{seed}/*'"


def _execute(
    task: Task, run_options: RunOptions, observer: Observer | None, *, keeps: bool
) -> Summary:
    """Run a task in its folder; what is in the archive stays until it is done."""
    folder = folder_of(task.run, run_options.results)
    resumes = (folder / CHECKPOINT).exists()
    if not resumes:
        with lock_folder(folder):
            _clear(task, run_options.results)
    with named(setting_names()):
        return run_experiment(
            run_options.on_device(task.settings),
            folder,
            resumes=resumes,
            observer=observer,
            keeps_model=keeps,
            allows_other_kernels=run_options.allows_other_kernels,
        )


def _clear(task: Task, results: Path) -> None:
    """Delete what a run left that was killed before its first checkpoint.

    Raises:
        RunError: Another process has completed the run since it was looked at.
    """
    folder = folder_of(task.run, results)
    now = read_some(results, [task.run.key]).get(task.run.key)
    n_before = 0 if task.stored is None else len(task.stored.rounds)
    if now is not None and now.summary is not None and len(now.rounds) > n_before:
        raise RunError(
            f"{folder}: another process has just completed this run; give the same "
            "command again"
        )
    for name in (CONFIG, ROUNDS, SUMMARY, MODEL, FAILED):
        (folder / name).unlink(missing_ok=True)


def _describe(summary: Summary) -> str:
    return (
        f"is done: {count(summary.rounds, 'round')}, accuracy "
        f"{100 * summary.accuracy:.2f} %, {summary.payload_mib:,.1f} MiB, "
        f"{summary.real_s:.0f} s"
    )


def measure_theory(
    wanted: Sequence[tuple[Scenario, int]],
    rounds: Sequence[int],
    run_options: RunOptions,
    observer: Observer | None = None,
) -> list[str]:
    """Measure some rounds of scenarios and seeds; return a line on each that failed.

    Raises:
        KeyboardInterrupt: Stopped by the user; what was being measured is lost.
    """
    failures = []
    for scenario, seed in wanted:
        label = f"{scenario.name} theory seed {seed}"
        try:
            # What was measured before is looked at again, so that none of it is lost.
            own = sorted({*rounds, *stored_rounds(scenario, seed, run_options.results)})
            run_options.say(f"{label} runs to round {own[-1]}")
            _measure(scenario, seed, own, run_options, observer)
        except _FAILURES as error:
            failures.append(f"{label}: {_reason(error)}")
            run_options.say(f"{label} failed: {_reason(error)}")
        else:
            run_options.say(f"{label} is done")
    return failures


def _measure(
    scenario: Scenario,
    seed: int,
    rounds: Sequence[int],
    run_options: RunOptions,
    observer: Observer | None,
) -> None:
    """Train FediAC, looking at some of its rounds, and store what they were like."""
    settings = plan_measurement(scenario, seed).settings
    measurement = measure(run_options.on_device(settings), rounds, observer)
    path = measurement_file(run_options.results, scenario.name, seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_measurement(measurement, path)
