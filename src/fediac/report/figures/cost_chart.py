"""The first figure: time against traffic to the target, a point for each contender."""

from collections.abc import Sequence
from math import isfinite

from fediac.number_words import (
    join,
    mean_and_range,
    mean_count,
    mib,
    percent,
    seconds,
)
from fediac.report.clocks import list_clocks
from fediac.report.contenders import Contender
from fediac.report.figures.charts import Axis, Point, PointChart
from fediac.report.figures.figure import Figure, Variant
from fediac.report.figures.scales import Scale, fit_log
from fediac.report.tables import target_table
from fediac.report.target import (
    Cost,
    Standing,
    Target,
    duration,
    find_reached,
    rank,
    traffic,
)
from fediac.report.verdict import judge

_MARGIN = 1.25
"""By which factor the axes go beyond the points."""

PAYLOAD = traffic("payload")


def choose_shown(contenders: Sequence[Contender], target: Target | None) -> set[int]:
    """Return who is in colour: the best of each algorithm, and who wins a verdict.

    The best has the least traffic to the target; of those that never got there, the
    highest accuracy. Settings of a single algorithm are all in colour.
    """
    if len({each.algorithm for each in contenders}) == 1:
        return set(range(len(contenders)))
    ranked = _by_accuracy(contenders)
    winners: list[Contender] = []
    if target is not None:
        ranked = [each.contender for each in rank(contenders, target, PAYLOAD)]
        winners = [each.winner.contender for each in judge(contenders, target)]
    best: dict[str, Contender] = {}
    for each in ranked:
        best.setdefault(each.algorithm, each)
    shown = {each.label for each in (*best.values(), *winners)}
    return {place for place, each in enumerate(contenders) if each.label in shown}


def _by_accuracy(contenders: Sequence[Contender]) -> list[Contender]:
    return sorted(contenders, key=lambda each: -each.best_run.best.accuracy)


def cost_figure(contenders: Sequence[Contender], target: Target) -> Figure | None:
    """Return time against traffic to the target, one drawing a clock.

    None where nobody got there.
    """
    standings = [find_reached(each, target) for each in contenders]
    table = target_table(contenders, target)
    variants = []
    for clock in list_clocks(contenders):
        time = duration(clock.switch)
        points = [
            _point(place, each, time)
            for place, each in enumerate(standings)
            if each.reached and isfinite(each.cost(time))
        ]
        # A logarithmic axis has no place for what cost nothing.
        points = [each for each in points if min(each.low) > 0.0]
        if points:
            what = f"{table.caption}, {clock.title}."
            chart = _chart(points, what, percent(target.accuracy))
            variants.append(Variant(chart, "cost", "switch", clock.name, clock.title))
    if not variants:
        return None
    caption = (
        "Further left is faster, further down is less traffic; both axes are "
        "logarithmic. On the stairs are those that nobody beats in both."
    )
    if any(len(each.runs) > 1 for each in contenders):
        caption += " Several seeds: their mean, and lines over their range."
    return Figure("cost", table.caption, caption, tuple(variants), table)


def _point(place: int, standing: Standing, time: Cost) -> Point:
    contender = standing.contender
    times, traffics = standing.costs(time), standing.costs(PAYLOAD)
    n_rounds = [each.number for each in standing.reached]
    words = (
        mean_and_range(traffics, mib),
        mean_and_range(times, seconds),
        f"{mean_and_range(n_rounds, mean_count)} rounds",
    )
    return Point(
        contender=place,
        look=contender.look,
        label=contender.name,
        at=(standing.cost(time), standing.cost(PAYLOAD)),
        low=(min(times), min(traffics)),
        high=(max(times), max(traffics)),
        words=words,
    )


def _chart(points: Sequence[Point], what: str, goal: str) -> PointChart:
    sentences = [f"{each.label}: {join(each.words)}." for each in points]
    return PointChart(
        " ".join([what, *sentences]),
        Axis(_scale(points, 0), f"simulated time to {goal}, s", "seconds", "fixed"),
        Axis(_scale(points, 1), f"payload to {goal}, MiB", "mib", "fixed"),
        points,
        _front([each.at for each in points]),
    )


def _scale(points: Sequence[Point], side: int) -> Scale:
    low = min(each.low[side] for each in points)
    high = max(each.high[side] for each in points)
    return fit_log([low / _MARGIN, high * _MARGIN])


def _front(places: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the places that no other one beats in both, from left to right."""
    front: list[tuple[float, float]] = []
    for place in sorted(places):
        if not front or place[1] < front[-1][1]:
            front.append(place)
    return front
