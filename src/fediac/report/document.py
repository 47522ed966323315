"""The report's numbers as one JSON document: ``fediac report --json``."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from fediac.report.contenders import Contender
from fediac.report.target import (
    Cost,
    Standing,
    Target,
    duration,
    find_reached,
    find_saving,
    traffic,
)
from fediac.report.verdict import Verdict, judge
from fediac.runs.records import VIEWS, Round

Document = dict[str, Any]


def as_document(contenders: Sequence[Contender], target: Target | None) -> Document:
    """Return the target, the verdicts, and everybody's numbers at it and at the end.

    Numbers are the mean, the least and the largest over seeds; None where there are
    none. Nothing is rounded.
    """
    verdicts = [] if target is None else judge(contenders, target)
    return {
        "target": None
        if target is None
        else {
            "accuracy": target.accuracy,
            "origin": target.origin,
            "by_seed": {str(seed): each for seed, each in target.by_seed.items()},
        },
        "verdicts": [_verdict(each) for each in verdicts],
        "runs": [_contender(each, target) for each in contenders],
    }


def _verdict(verdict: Verdict) -> Document:
    beside = [
        {
            "label": each.contender.label,
            "algorithm": each.contender.algorithm,
            "saving": find_saving(verdict.winner, each, verdict.cost),
        }
        for each in verdict.rivals
    ]
    winner = verdict.winner.contender
    return {
        "title": verdict.title,
        "label": winner.label,
        "algorithm": winner.algorithm,
        "than": beside,
    }


def _contender(contender: Contender, target: Target | None) -> Document:
    return {
        "label": contender.label,
        "algorithm": contender.algorithm,
        "seeds": [run.seed for run in contender.runs],
        "at_target": None
        if target is None
        else _at_target(find_reached(contender, target)),
        "best_accuracy": _spread([run.best.accuracy for run in contender.runs]),
        "end": _costs(contender, [run.last for run in contender.runs])
        | {"accuracy": _spread([run.last.accuracy for run in contender.runs])},
        "folders": [run.folder.as_posix() for run in contender.runs],
    }


def _at_target(standing: Standing) -> Document:
    """Return who got there, and what it took where every seed did."""
    seeds = [run.seed for run in standing.contender.runs]
    found = zip(seeds, standing.rounds, strict=True)
    return {
        "reached": bool(standing.reached),
        "seeds_reached": [seed for seed, each in found if each is not None],
    } | _costs(standing.contender, standing.reached)


def _costs(contender: Contender, rounds: Sequence[Round]) -> Document:
    """Return what had been spent by the end of one round of each run."""

    def spent(cost: Cost) -> Document | None:
        return _spread([cost(each) for each in rounds])

    return {
        "rounds": spent(lambda each: each.number),
        **{f"{view}_mib": spent(traffic(view)) for view in VIEWS},
        "time_s": {name: spent(duration(name)) for name in contender.switches},
    }


def _spread(values: Sequence[float]) -> Document | None:
    if not values:
        return None
    return {"mean": fmean(values), "low": min(values), "high": max(values)}
