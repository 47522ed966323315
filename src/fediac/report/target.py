"""Who reached the target accuracy, with how much traffic, and who saved how much."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fediac.number_words import join, percent
from fediac.report.differences import are_repeats
from fediac.report.reading import Run
from fediac.runs.rounds import Round

_PERCENT = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?%")
_NUMBER = re.compile(r"[0-9]*\.?[0-9]+")


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


def parse_accuracy(text: str, *, name: str = "target") -> float:
    """Return an accuracy written like 0.63 or 63%.

    Args:
        text: What was written.
        name: What to call it in an error.
    """
    written = text.strip()
    share = _PERCENT.fullmatch(written)
    value = math.nan
    if share is not None:
        value = float(share[1]) / 100.0
    elif _NUMBER.fullmatch(written):
        value = float(written)
    if not 0.0 < value <= 1.0:
        raise ValueError(
            f"{name} must be an accuracy above 0 and up to 1, such as 0.63 or 63%, "
            f"got {text!r}"
        )
    return value


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
    shared = min(map(best_accuracy, runs))
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
    for place in ((run.summary or {}).get("target"), run.settings.get("stop")):
        if not isinstance(place, Mapping):
            continue
        value = place.get("accuracy", place.get("target"))
        if isinstance(value, str):
            return parse_accuracy(value)
        if isinstance(value, int | float) and 0.0 < value <= 1.0:
            return float(value)
    return None


def reach(run: Run, accuracy: float) -> Round | None:
    """Return the first round with at least this accuracy."""
    for each in run.rounds:
        if each.accuracy is not None and each.accuracy >= accuracy:
            return each
    return None


def rank(runs: Sequence[Run], target: Target, view: str) -> list[Standing]:
    """Return the runs by traffic to the target; last are those that never got there."""
    standings = [Standing(run, reach(run, target.accuracy)) for run in runs]
    return sorted(
        standings, key=lambda each: (each.mib(view), -best_accuracy(each.run))
    )


def best_accuracy(run: Run) -> float:
    """Return the highest accuracy that a run had, 0 if it measured none."""
    return run.best.accuracy or 0.0 if run.best else 0.0


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
