"""Who reached the target accuracy, at what cost, and who saved how much."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from fediac.number_words import join, percent
from fediac.report.contenders import Contender
from fediac.runs.records import Round
from fediac.runs.stored import Run


@dataclass(frozen=True, slots=True)
class Target:
    """An accuracy to reach, and a sentence on where it comes from.

    Attributes:
        accuracy: The mean, where seeds have their own.
        by_seed: The accuracy of each seed, where they differ.
    """

    accuracy: float
    origin: str
    by_seed: Mapping[int, float] = field(default_factory=dict)

    def of(self, run: Run) -> float:
        """Return what a run has to reach."""
        return self.by_seed.get(run.seed, self.accuracy)


Cost = Callable[[Round], float]
"""The round that reached the target -> what had been spent by then."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A contender, and with which round each of its runs reached the target, if any."""

    contender: Contender
    rounds: tuple[Round | None, ...]

    @property
    def reached(self) -> tuple[Round, ...]:
        """The rounds, where every run got there; else none."""
        found = tuple(each for each in self.rounds if each is not None)
        return found if len(found) == len(self.rounds) else ()

    def cost(self, cost: Cost) -> float:
        """Return what it took, the mean over runs; infinite if not all got there."""
        return fmean(map(cost, self.reached)) if self.reached else math.inf

    def costs(self, cost: Cost) -> list[float]:
        """Return what it took with each seed; nothing if not all got there."""
        return [cost(each) for each in self.reached]


def traffic(view: str) -> Cost:
    """Return the cost in MiB of a view of traffic."""
    return lambda each: each.mib[view]


def duration(switch: str) -> Cost:
    """Return the cost in seconds with a switch; infinite if it was not timed."""
    return lambda each: each.time_s.get(switch, math.inf)


def choose_target(runs: Sequence[Run], asked: float | None) -> Target | None:
    """Return the accuracy to compare at, or None where there is none to be had.

    It is what was asked for; or what the runs were set to reach; or, to compare
    several runs, the highest whole percent that every one of them reached.
    """
    if asked is not None:
        return Target(asked, "The target was given to the report.")
    wanted = {_own_target(run) for run in runs}
    if len(wanted) == 1 and (accuracy := wanted.pop()) is not None:
        return Target(accuracy, "The target is set in the runs.")
    if len(runs) == 1:
        return None
    shared = min(run.best.accuracy for run in runs)
    accuracy = math.floor(round(100.0 * shared, 6)) / 100.0
    if accuracy <= 0.0:
        return None
    named = sorted(each for each in wanted if each is not None)
    reason = "The runs set no target"
    if named:
        reason = f"The runs do not share a target (set: {join([*map(percent, named)])})"
    return Target(
        accuracy, f"{reason}; this is the highest whole percent all of them reached."
    )


def _own_target(run: Run) -> float | None:
    """Return the accuracy a run was set to reach."""
    if run.summary is not None and run.summary.target is not None:
        return run.summary.target.accuracy
    return run.settings.stop.target


def find_reached(contender: Contender, target: Target) -> Standing:
    """Return with which rounds a contender reached the target."""
    rounds = tuple(run.reach(target.of(run)) for run in contender.runs)
    return Standing(contender, rounds)


def rank(contenders: Sequence[Contender], target: Target, cost: Cost) -> list[Standing]:
    """Return who spent least first; last are those that never got there."""
    standings = [find_reached(each, target) for each in contenders]
    return sorted(
        standings,
        key=lambda each: (each.cost(cost), -each.contender.best_run.best.accuracy),
    )


def list_rivals(standings: Sequence[Standing]) -> list[Standing]:
    """Return whom the first is compared with, the best first: those that got there.

    They are the best of every other algorithm: settings of one algorithm do not compete
    with each other. Only where there is no other algorithm they do.
    """
    first, *others = standings
    others = [each for each in others if each.reached]
    best: dict[str, Standing] = {}
    for each in others:
        best.setdefault(each.contender.algorithm, each)
    rivals = [each for name, each in best.items() if name != first.contender.algorithm]
    return rivals or others[:1]


def find_saving(first: Standing, other: Standing, cost: Cost) -> float | None:
    """Return by which share the first spent less, with the seeds that both have.

    Means of other seeds are compared where there are no such; None: nothing was spent.
    """
    ours, theirs = _by_seed(first, cost), _by_seed(other, cost)
    shared = [seed for seed in ours if seed in theirs]
    spent = fmean(theirs[seed] for seed in shared or theirs)
    if spent == 0.0 or not math.isfinite(spent):
        return None
    return 1.0 - fmean(ours[seed] for seed in shared or ours) / spent


def _by_seed(standing: Standing, cost: Cost) -> dict[int, float]:
    seeds = [run.seed for run in standing.contender.runs]
    return dict(zip(seeds, standing.costs(cost), strict=True))
