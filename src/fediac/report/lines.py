"""Figures with rounds along a line: accuracy, entries chosen, and γ."""

import statistics
from collections.abc import Callable, Iterable, Sequence

from fediac.console import count
from fediac.number_words import (
    GAMMA,
    NOTHING,
    digits,
    exact_percent,
    mib,
    percent,
    seconds,
    tick,
    whole,
)
from fediac.report.charts import Axis, Level, LineChart, Series
from fediac.report.figures import Figure, Variant, shown_rounds
from fediac.report.scales import (
    Scale,
    fit,
    fit_from_zero,
    fit_log,
    wants_log,
)
from fediac.report.tables import Row, Table, all_switches
from fediac.report.target import Target
from fediac.runs.records import VIEWS, Round
from fediac.runs.stored import Run

Place = Callable[[Round], float | None]
"""A round -> its place along an axis, if it has one."""

GAMMA_TOP = 2.0
"""Where the chart of errors ends, unless some run is near it in most rounds."""

ALL_ROUNDS = " Long runs show a part of their rounds; rounds.jsonl has them all."


def accuracy_against_time(runs: Sequence[Run], target: Target | None) -> Figure:
    """Return accuracy along simulated time, one drawing a switch."""
    switches = all_switches(runs)
    variants = []
    for switch in switches:

        def time_s(each: Round, switch: str = switch) -> float | None:
            return each.time_s.get(switch)

        values = [value for run in runs if (value := time_s(run.last)) is not None]
        x = Axis(fit_from_zero(values), "simulated time in s", "seconds", "zero")
        what = f"Accuracy against simulated time, {switch} switch."
        chart = _accuracy(runs, target, x, (time_s, seconds, what))
        name = f"{switch} switch"
        variants.append(Variant(chart, "accuracy-time", "switch", switch, name))
    columns = tuple(f"time s, {switch}" for switch in switches)
    return Figure(
        "accuracy-time",
        "Accuracy against simulated time",
        _caption("Higher and further left is better.", target),
        tuple(variants),
        _round_table(
            runs,
            target,
            (*columns, "accuracy"),
            lambda each: (
                *(_number(each.time_s.get(switch)) for switch in switches),
                exact_percent(each.accuracy),
            ),
        ),
    )


def accuracy_against_mib(runs: Sequence[Run], target: Target | None) -> Figure:
    """Return accuracy along traffic, one drawing a way to count it."""
    variants = []
    for view in VIEWS:

        def sent(each: Round, view: str = view) -> float | None:
            return each.mib[view]

        ends = [run.last.mib[view] for run in runs]
        firsts = [each.mib[view] for run in runs for each in run.rounds[:1]]
        is_log = wants_log(ends) and min(firsts) > 0.0
        label = f"{view} in MiB, all clients, up and down"
        x = Axis(
            fit_log([*firsts, *ends]) if is_log else fit_from_zero(ends),
            f"{label} (logarithmic)" if is_log else label,
            "mib",
            "log" if is_log else "zero",
        )
        what = f"Accuracy against {view} traffic of all clients, up and down."
        chart = _accuracy(runs, target, x, (sent, mib, what))
        variants.append(Variant(chart, "accuracy-mib", "view", view, view))
    return Figure(
        "accuracy-mib",
        "Accuracy against traffic",
        _caption("Higher and further left is better.", target),
        tuple(variants),
        _round_table(
            runs,
            target,
            ("payload MiB", "wire MiB", "accuracy"),
            lambda each: (
                *(digits(each.mib[view]) for view in VIEWS),
                exact_percent(each.accuracy),
            ),
        ),
    )


def _caption(words: str, target: Target | None) -> str:
    if target is None:
        return words
    goal = percent(target.accuracy)
    return f"{words} The dotted line is {goal}; a ring marks the round that reached it."


def _accuracy(
    runs: Sequence[Run],
    target: Target | None,
    x: Axis,
    measure: tuple[Place, Callable[[float], str], str],
) -> LineChart:
    place, unit, what = measure
    series, sentences = [], [what]
    for index, run in enumerate(runs):
        ring = None if target is None else run.reach(target.accuracy)
        line = _series(index, run, place, lambda each: each.accuracy, ring)
        if line is None:
            continue
        series.append(line)
        (at, accuracy), number = line.points[-1], line.rounds[-1]
        words = f"{run.label}: {percent(accuracy)} after {unit(at)} in round {number}"
        if target is not None and line.ring is not None:
            goal = f"{percent(target.accuracy)} after {unit(line.ring[0])}"
            words += f", and {goal} in round {ring.number if ring else number}"
        elif target is not None:
            words += f"; it did not reach {percent(target.accuracy)}"
        sentences.append(f"{words}.")
    heights = [point[1] for line in series for point in line.points]
    levels = []
    if target is not None:
        heights.append(target.accuracy)
        levels.append(Level(target.accuracy, ""))
    y = Axis(fit(heights), "accuracy", "percent", "round")
    return LineChart(" ".join(sentences), x, y, series, levels)


def _series(
    index: int, run: Run, place: Place, height: Place, ring: Round | None = None
) -> Series | None:
    points, rounds, ringed = [], [], None
    for each in shown_rounds(run, [ring]):
        at, value = place(each), height(each)
        if at is None or value is None:
            continue
        points.append((at, value))
        rounds.append(each.number)
        if ring is not None and each.number == ring.number:
            ringed = points[-1]
    if not points:
        return None
    return Series(index, run.look, tuple(points), tuple(rounds), ringed)


def chosen_by_round(runs: Sequence[Run]) -> Figure:
    """Return how many entries a client sent in each round."""
    sentences = ["Entries that one client sends, by round."]
    series = _by_round(runs, "chosen")
    for line in series:
        values = [point[1] for point in line.points]
        sentences.append(
            f"{runs[line.run].label}: {whole(values[0])} in round {line.rounds[0]}, "
            f"{whole(values[-1])} in round {line.rounds[-1]}, between "
            f"{whole(min(values))} and {whole(max(values))}."
        )
    heights = [point[1] for line in series for point in line.points]
    is_log = wants_log(heights)
    scale = fit_log(heights) if is_log else fit_from_zero(heights)
    label = "entries (logarithmic)" if is_log else "entries"
    y = Axis(scale, label, "whole", "log" if is_log else "zero")
    chart = LineChart(" ".join(sentences), _rounds_axis(series), y, series)
    names = ("votes", "chosen", "bits", "aggregations", "register_bytes")
    columns = ("votes", "chosen", "bits", "aggregations", "register bytes")
    return Figure(
        "chosen",
        "Entries chosen in a round",
        "Entries of the update that each client chooses to send; some algorithms send "
        "the blocks that they are in.",
        (Variant(chart, "chosen"),),
        _round_table(
            runs,
            None,
            columns,
            lambda each: tuple(whole(getattr(each, name)) for name in names),
        ),
    )


def gamma_by_round(runs: Sequence[Run]) -> Figure:
    """Return each round's compression error."""
    series = _by_round(runs, "gamma")
    sentences = [f"Relative squared error of the compression, {GAMMA}, by round."]
    for line in series:
        values = [each.gamma for each in runs[line.run].rounds]
        n_above = sum(value >= 1.0 for value in values)
        above = f"{n_above} of {count(len(values), 'round')}" if n_above else "never"
        sentences.append(
            f"{runs[line.run].label}: {digits(values[-1])} in round {line.rounds[-1]}, "
            f"between {digits(min(values))} and {digits(max(values))}; "
            f"1 or above: {above}."
        )
    scale = _gamma_scale(series)
    y = Axis(scale, GAMMA, "number", "fixed")
    levels = [Level(1.0, "the proof of convergence needs less")]
    chart = LineChart(" ".join(sentences), _rounds_axis(series), y, series, levels)
    names = ("gamma", "peak", "scale")
    caption = (
        "Squared error of a round's mean, relative to the update; what is missing "
        "stays in the residual."
    )
    if any(value > scale.high for line in series for _, value in line.points):
        top = tick(scale.high, is_percent=False)
        caption += f" Values above {top} are drawn at the upper edge."
    return Figure(
        "gamma",
        f"Compression error {GAMMA}",
        caption,
        (Variant(chart, "gamma"),),
        _round_table(
            runs,
            None,
            (GAMMA, "peak", "scale"),
            lambda each: tuple(digits(getattr(each, name)) for name in names),
        ),
    )


def _gamma_scale(series: Iterable[Series]) -> Scale:
    """Return a scale that a few high values do not stretch.

    One round may have many times the error of all others. A logarithmic scale has no
    place for the 0 of what is sent whole, so this one ends at `GAMMA_TOP`, or where
    most of every run's rounds still fit.
    """
    lines = [[value for _, value in line.points] for line in series]
    usual = max(statistics.median(values) for values in lines)
    top = max(GAMMA_TOP, 1.5 * usual)
    return fit([0.0, 1.0, *(min(value, top) for values in lines for value in values)])


def _by_round(runs: Sequence[Run], fact: str) -> list[Series]:
    lines = (
        _series(
            index,
            run,
            lambda each: float(each.number),
            lambda each: float(getattr(each, fact)),
        )
        for index, run in enumerate(runs)
    )
    return [line for line in lines if line is not None]


def _rounds_axis(series: Iterable[Series]) -> Axis:
    numbers = [number for line in series for number in line.rounds]
    low, high = min(numbers), max(numbers)
    scale = fit_from_zero([float(high)])
    ticks = tuple(dict.fromkeys(float(round(each)) for each in scale.ticks))
    ticks = (float(low), *(each for each in ticks if low < each <= high))
    first = float(low) if low < high else low - 0.5
    last = float(high) if low < high else high + 0.5
    return Axis(Scale(first, last, ticks), "round", "whole", "fixed")


def _round_table(
    runs: Sequence[Run],
    target: Target | None,
    columns: tuple[str, ...],
    cells: Callable[[Round], tuple[str, ...]],
) -> Table:
    rows = []
    is_thinned = False
    for index, run in enumerate(runs):
        ring = None if target is None else run.reach(target.accuracy)
        rounds = shown_rounds(run, [ring])
        is_thinned |= len(rounds) < len(run.rounds)
        rows += [
            Row((run.label, str(each.number), *cells(each)), index) for each in rounds
        ]
    caption = "By run and round." + (ALL_ROUNDS if is_thinned else "")
    return Table(caption, ("run", "round", *columns), tuple(rows))


def _number(value: float | None) -> str:
    return NOTHING if value is None else digits(value)
