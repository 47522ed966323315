"""What is to be done for a planned run: nothing, go on, start, or start again."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Literal

from fediac.console import count
from fediac.errors import RunError
from fediac.paper.entrants import FEDAVG, decisive
from fediac.paper.plan import PlannedRun, Until
from fediac.paper.stored import StoredRun, read_one, run_folder
from fediac.paper.targets import find_target
from fediac.runs.records import CHECKPOINT, stop_reason
from fediac.runs.settings import RunSettings, StopSettings, by_key

Device = Literal["auto", "cpu", "cuda"]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How runs are made.

    Attributes:
        results: The folder of results.
        device: Where to train; None: as the scenario says.
        keeps_models: Leave models and checkpoints of complete runs where they are.
        say: Is told what happens, a line each.
        allows_other_kernels: Go on with runs where the last bits will be others.
    """

    results: Path
    device: Device | None
    keeps_models: bool
    say: Callable[[str], None]
    allows_other_kernels: bool = False

    def on_device(self, settings: RunSettings) -> RunSettings:
        """Return settings with the device that was asked for."""
        if self.device is None:
            return settings
        return replace(settings, train=replace(settings.train, device=self.device))


class Step(StrEnum):
    """What a planned run needs; its value is how people are told."""

    REUSE = "is stored"
    RESUME = "goes on"
    START = "runs"
    AGAIN = "runs again"
    FAILED = "has failed"


@dataclass(frozen=True, slots=True)
class Task:
    """The way to one end of one run.

    Attributes:
        target: The scenario's, None while FedAvg has not fixed it.
        stored: What is there already.
    """

    run: PlannedRun
    until: Until
    step: Step
    target: float | None
    stored: StoredRun | None

    @property
    def settings(self) -> RunSettings:
        """What runs, to its stop."""
        return replace(self.run.settings, stop=self.until.stop(self.target))

    def check_target(self) -> None:
        """Refuse to run to a target that nobody knows; it would run to its last round.

        Raises:
            RunError: FedAvg has not fixed the target, perhaps because its run failed.
        """
        if self.until.is_to_target and self.target is None:
            paper = self.run.scenario.paper
            raise RunError(
                f"the target is not known before {FEDAVG.name} has had "
                f"{count(paper.fedavg_rounds or 0, 'round')}"
            )


def folder_of(run: PlannedRun, results: Path) -> Path:
    """Return where a planned run is kept."""
    return run_folder(results, *run.key)


def find_task(run: PlannedRun, until: Until, results: Path) -> Task:
    """Return what is to be done to get a run as far as ``until``.

    A stored run that goes far enough needs no checkpoint. One that is shorter goes on
    from its checkpoint; without one it must start again. One that failed would again.

    Raises:
        RunError: What is stored under this name had other settings.
    """
    folder = folder_of(run, results)
    stored = read_one(folder)
    if stored is not None:
        check_same(stored.settings, run, folder)
    target = _read_target(run, results)
    stop = until.stop(target)
    is_known = target is not None or not until.is_to_target
    if stored is not None and is_known and goes_far_enough(stored, stop):
        return Task(run, until, Step.REUSE, target, stored)
    if stored is not None and stored.failed:
        return Task(run, until, Step.FAILED, target, stored)
    if (folder / CHECKPOINT).exists():
        return Task(run, until, Step.RESUME, target, stored)
    step = Step.START if stored is None else Step.AGAIN
    return Task(run, until, step, target, stored)


def needs_running(run: PlannedRun, results: Path) -> bool:
    """Return whether anything of a planned run is to be trained.

    Raises:
        RunError: What is stored under this name had other settings.
    """
    tasks = (find_task(run, until, results) for until in run.untils)
    return any(task.step not in (Step.REUSE, Step.FAILED) for task in tasks)


def goes_far_enough(stored: StoredRun, stop: StopSettings) -> bool:
    """Return whether some round of a stored run is where ``stop`` would end it."""
    return any(stop_reason(stop, record) for record in stored.records)


def _read_target(run: PlannedRun, results: Path) -> float | None:
    folder = run_folder(results, run.scenario.name, FEDAVG.name, run.seed)
    fedavg = read_one(folder)
    return find_target(run.scenario, run.seed, [] if fedavg is None else [fedavg])


def check_same(stored: RunSettings, run: PlannedRun, place: Path) -> None:
    """Refuse to mix a scenario's runs with those of another version of it.

    Raises:
        RunError: What is stored had other settings.
    """
    before, now = (
        by_key(decisive(stored)),
        by_key(decisive(run.settings)),
    )
    for key in now:
        if before.get(key) != now[key]:
            raise RunError(
                f"{place}: {key} of the stored run is {before.get(key)!r}, that of "
                f"scenario {run.scenario.name} is {now[key]!r}; move it away, or give "
                "another --out"
            )
