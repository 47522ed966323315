"""What is to be done for a planned run: nothing, go on, start, or start again."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Literal

from fediac.console import count
from fediac.errors import RunError
from fediac.paper.entrants import FEDAVG, decisive
from fediac.paper.plan import PlannedRun, Until
from fediac.paper.stored import Key, run_folder
from fediac.paper.targets import find_target
from fediac.runs.recording import stop_reason
from fediac.runs.records import CHECKPOINT
from fediac.runs.settings import RunSettings, StopSettings, by_key, list_differing
from fediac.runs.stored import Run

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
    stored: Run | None

    @property
    def settings(self) -> RunSettings:
        """What runs, to its stop."""
        return replace(self.run.settings, stop=self.until.stop(self.target))

    def check_target(self) -> None:
        """Refuse to run to a target that is not known: it would run to the last round.

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
    """Return where a planned run is kept while it is not complete."""
    return run_folder(results, *run.key)


def needed_keys(run: PlannedRun) -> tuple[Key, Key]:
    """Return which stored runs say what is to be done for a planned one."""
    return run.key, (run.scenario.name, FEDAVG.name, run.seed)


def find_task(
    run: PlannedRun, until: Until, stored: Mapping[Key, Run], results: Path
) -> Task:
    """Return what is to be done to get a run as far as ``until``.

    A stored run that goes far enough needs no checkpoint. One that is shorter goes on
    from its checkpoint; without one it must start again. One that failed would again.

    Args:
        run: The run.
        until: How far it goes.
        stored: Runs by their keys; `needed_keys` names those that matter.
        results: The folder of results.

    Raises:
        RunError: What is stored under this name had other settings.
    """
    own, fedavg = map(stored.get, needed_keys(run))
    if own is not None:
        check_same(own.settings, run, own.folder)
    target = find_target(run.scenario, run.seed, [] if fedavg is None else [fedavg])
    is_known = target is not None or not until.is_to_target
    if own is not None and is_known and goes_far_enough(own, until.stop(target)):
        return Task(run, until, Step.REUSE, target, own)
    if own is not None and own.failed:
        return Task(run, until, Step.FAILED, target, own)
    if (folder_of(run, results) / CHECKPOINT).exists():
        return Task(run, until, Step.RESUME, target, own)
    step = Step.START if own is None else Step.AGAIN
    return Task(run, until, step, target, own)


def needs_running(run: PlannedRun, stored: Mapping[Key, Run], results: Path) -> bool:
    """Return whether anything of a planned run is to be trained.

    Raises:
        RunError: What is stored under this name had other settings.
    """
    tasks = (find_task(run, until, stored, results) for until in run.untils)
    return any(task.step not in (Step.REUSE, Step.FAILED) for task in tasks)


def goes_far_enough(stored: Run, stop: StopSettings) -> bool:
    """Return whether some round of a stored run is where ``stop`` would end it."""
    return any(stop_reason(stop, each) for each in stored.rounds)


def check_same(stored: RunSettings, run: PlannedRun, place: Path) -> None:
    """Refuse to mix a scenario's runs with those of another version of it.

    Raises:
        RunError: What is stored had other settings.
    """
    now, before = decisive(run.settings), decisive(stored)
    differing = list_differing([now, before])
    if differing:
        key = differing[0]
        raise RunError(
            f"{place}: {key} of the stored run is {by_key(before).get(key)!r}, that of "
            f"scenario {run.scenario.name} is {by_key(now).get(key)!r}; move it away, "
            "or give another --out"
        )
