"""Who reached the target accuracy, with how much traffic, and who saved how much."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fediac.number_words import join, percent
from fediac.report.differences import are_repeats
from fediac.runs.records import Round
from fediac.runs.stored import Run


@dataclass(frozen=True, slots=True)
class Target:
    """An accuracy to reach, and a sentence on where it comes from."""

    accuracy: float
    origin: str


@dataclass(frozen=True, slots=True)
class Standing:
    """A run, and the first round in which it had the target accuracy, if any."""

    run: Run
    reached: Round | None

    def mib(self, view: str) -> float:
        """Return what it had sent and received by then; infinite if never."""
        return math.inf if self.reached is None else self.reached.mib[view]


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


def rank(runs: Sequence[Run], target: Target, view: str) -> list[Standing]:
    """Return the runs by traffic to the target; last are those that never got there."""
    standings = [Standing(run, run.reach(target.accuracy)) for run in runs]
    return sorted(standings, key=lambda each: (each.mib(view), -each.run.best.accuracy))


def second_best(standings: Sequence[Standing]) -> Standing | None:
    """Return whom the first is compared with: the best that also got there.

    It is one of another algorithm, where there is any: settings of the same algorithm
    do not compete with each other. Repeats with other seeds never do.
    """
    alike = repeats(standings)
    others = [
        each for each in standings if each.reached is not None and each not in alike
    ]
    own = standings[0].run.algorithm
    rivals = [each for each in others if each.run.algorithm != own]
    return next(iter(rivals or others), None)


def repeats(standings: Sequence[Standing]) -> list[Standing]:
    """Return the first, and those that differ from it in nothing but the seed."""
    first, *others = standings
    return [first, *(each for each in others if are_repeats([first.run, each.run]))]


def saving(standings: Sequence[Standing], view: str) -> float | None:
    """Return by which share the first sent less than the second best, if known."""
    second = second_best(standings)
    if second is None or second.mib(view) == 0.0:
        return None
    return 1.0 - standings[0].mib(view) / second.mib(view)
