"""Do what is missing: reuse stored runs, go on with shorter ones, start new ones."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from fediac.console import count
from fediac.errors import FediacError, RunError, UpdateError, named, say_reason
from fediac.files import lock_folder, write_whole
from fediac.paper.plan import PlannedRun
from fediac.paper.scenarios import Scenario
from fediac.paper.stored import FAILED, read_one
from fediac.paper.theory_check import measure
from fediac.paper.theory_product import (
    measurement_file,
    plan_measurement,
    stored_rounds,
)
from fediac.paper.theory_stored import save_measurement
from fediac.paper.to_do import (
    RunOptions,
    Step,
    Task,
    check_same,
    find_task,
    folder_of,
)
from fediac.runs.error_names import setting_names
from fediac.runs.folder import MODEL, drop_model
from fediac.runs.loop import Observer, run_experiment
from fediac.runs.records import CHECKPOINT, CONFIG, ROUNDS, SUMMARY, Record
from fediac.runs.settings import RunSettings

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
    for run in plan:
        find_task(run, run.untils[0], run_options.results)
    failures = []
    for number, run in enumerate(plan, start=1):
        place = f"[{number}/{len(plan)}] {run.label}"
        try:
            _complete(run, place, run_options, observer)
        except _FAILURES as error:
            if isinstance(error, UpdateError):
                _give_up(folder_of(run, run_options.results), _reason(error))
            failures.append(f"{run.label}: {_reason(error)}")
            run_options.say(f"{place} failed: {_reason(error)}")
    return failures


def _give_up(folder: Path, reason: str) -> None:
    """Note that a run cannot go on: training repeats to the bit, and so does this."""
    if folder.is_dir():
        write_whole(folder / FAILED, f"{reason}\n")
        drop_model(folder)


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
    """Get one run to all of its ends; keep its checkpoint only in between."""
    folder = folder_of(run, run_options.results)
    _finish_replacing(run, folder)
    has_run = False
    for until in run.untils:
        task = find_task(run, until, run_options.results)
        task.check_target()
        if task.stored is not None and task.step is Step.FAILED:
            raise RunError(
                f"{task.stored.failed} (as before; delete {folder} to try again)"
            )
        run_options.say(f"{place} {task.step} to {until.describe(task.target)}")
        if task.step is Step.REUSE:
            continue
        has_run = True
        keeps = run_options.keeps_models or until is not run.untils[-1]
        summary = _execute(task, run_options, observer, keeps=keeps)
        run_options.say(f"{place} {_describe(summary)}")
    if has_run and not run_options.keeps_models:
        drop_model(folder)


def _execute(
    task: Task, run_options: RunOptions, observer: Observer | None, *, keeps: bool
) -> Record:
    """Run a task where nothing is lost if it does not get to its end."""
    folder = folder_of(task.run, run_options.results)
    settings = run_options.on_device(task.settings)
    if task.step is not Step.AGAIN:
        return _run_in(folder, settings, run_options, observer, keeps=keeps)
    with lock_folder(folder):
        beside = _beside(folder, "again")
        summary = _run_in(beside, settings, run_options, observer, keeps=keeps)
        _replace(folder, beside)
    return summary


def _run_in(
    place: Path,
    settings: RunSettings,
    run_options: RunOptions,
    observer: Observer | None,
    *,
    keeps: bool,
) -> Record:
    resumes = (place / CHECKPOINT).exists()
    if not resumes:
        with lock_folder(place):
            _clear(place)
    with named(setting_names()):
        return run_experiment(
            settings,
            place,
            resumes=resumes,
            observer=observer,
            keeps_model=keeps,
            allows_other_kernels=run_options.allows_other_kernels,
        )


def _clear(place: Path) -> None:
    """Delete what a run left that was killed before its first checkpoint.

    Raises:
        RunError: Another process has completed the run since it was looked at.
    """
    if (place / SUMMARY).exists() and read_one(place) is not None:
        raise RunError(
            f"{place}: another process has just completed this run; give the same "
            "command again"
        )
    for name in (CONFIG, ROUNDS, SUMMARY, MODEL, FAILED):
        (place / name).unlink(missing_ok=True)


def _beside(folder: Path, ending: str) -> Path:
    return folder.with_name(f"{folder.name}.{ending}")


def _replace(folder: Path, beside: Path) -> None:
    """Put a complete run in the place of a shorter one."""
    old = _beside(folder, "old")
    folder.rename(old)
    beside.rename(folder)
    shutil.rmtree(old)


def _finish_replacing(run: PlannedRun, folder: Path) -> None:
    """Go on where somebody was killed between having a run and replacing the old one.

    A run beside that is complete has a summary, and no checkpoint to go on from. One
    that is not longer than what is stored replaces nothing.

    Raises:
        RunError: The run beside had other settings.
    """
    old, beside = _beside(folder, "old"), _beside(folder, "again")
    if old.exists():
        with lock_folder(old):
            if not folder.exists():
                (beside if beside.exists() else old).rename(folder)
            shutil.rmtree(old, ignore_errors=True)
    if (beside / SUMMARY).exists() and not (beside / CHECKPOINT).exists():
        with lock_folder(folder):
            new, stored = read_one(beside), read_one(folder)
            if new is not None:
                check_same(new.settings, run, beside)
            if new is None or (stored and len(stored.records) >= len(new.records)):
                shutil.rmtree(beside)
            else:
                _replace(folder, beside)


def _describe(summary: Record) -> str:
    return (
        f"is done: {count(summary['rounds'], 'round')}, accuracy "
        f"{100 * summary['accuracy']:.2f} %, {summary['payload_mib']:,.1f} MiB, "
        f"{summary['real_s']:.0f} s"
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
