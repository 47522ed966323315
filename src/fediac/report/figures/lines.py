"""Figures with rounds along a line: accuracy, entries chosen, and γ."""

from collections.abc import Callable, Iterable, Sequence
from statistics import median

from fediac.console import count
from fediac.names import ACCURACY
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
from fediac.report.clocks import list_clocks
from fediac.report.contenders import Contender, name_metric
from fediac.report.figures.charts import Axis, Level, LineChart, Series
from fediac.report.figures.figure import Figure, Variant, shown_rounds
from fediac.report.figures.scales import (
    Scale,
    fit,
    fit_from_zero,
    fit_log,
    wants_log,
)
from fediac.report.tables import Row, Table
from fediac.report.target import Target, find_reached
from fediac.runs.records import VIEWS, Round
from fediac.runs.stored import Run

Place = Callable[[Round], float | None]
"""A round -> its place along an axis, if it has one."""

GAMMA_TOP = 2.0
"""Where the chart of errors ends, unless some run is near it in most rounds."""

ALL_ROUNDS = " Long runs show a part of their rounds; rounds.jsonl has them all."


def accuracy_against_time(
    contenders: Sequence[Contender], target: Target | None
) -> Figure:
    """Return accuracy along simulated time, one drawing a clock."""
    clocks, metric = list_clocks(contenders), name_metric(contenders)
    title = f"{_heading(metric)} against simulated time"
    variants = []
    for clock in clocks:

        def time_s(each: Round, switch: str = clock.switch) -> float | None:
            return each.time_s.get(switch)

        x = _cost_axis(contenders, time_s, "simulated time in s", "seconds")
        what = f"{title}, {clock.title}."
        chart = _accuracy(contenders, target, x, (time_s, seconds, what))
        variants.append(
            Variant(chart, "accuracy-time", "switch", clock.name, clock.title)
        )
    columns = tuple(
        "seconds" if len(clocks) == 1 else f"seconds, {clock.name}" for clock in clocks
    )
    return Figure(
        "accuracy-time",
        title,
        _caption("Higher and further left is better.", target),
        tuple(variants),
        _round_table(
            contenders,
            target,
            (*columns, metric),
            lambda each: (
                *(_number(each.time_s.get(clock.switch)) for clock in clocks),
                exact_percent(each.accuracy),
            ),
        ),
    )


def accuracy_against_mib(
    contenders: Sequence[Contender], target: Target | None
) -> Figure:
    """Return accuracy along traffic, one drawing a way to count it."""
    metric, variants = name_metric(contenders), []
    heading = _heading(metric)
    for view in VIEWS:

        def sent(each: Round, view: str = view) -> float | None:
            return each.mib[view]

        label = f"{view} in MiB, all clients, up and down"
        x = _cost_axis(contenders, sent, label, "mib")
        what = f"{heading} against {view} traffic of all clients, up and down."
        chart = _accuracy(contenders, target, x, (sent, mib, what))
        variants.append(Variant(chart, "accuracy-mib", "view", view, view))
    return Figure(
        "accuracy-mib",
        f"{heading} against traffic",
        _caption("Higher and further left is better.", target),
        tuple(variants),
        _round_table(
            contenders,
            target,
            ("MiB", "MiB on the wire", metric),
            lambda each: (
                *(digits(each.mib[view]) for view in VIEWS),
                exact_percent(each.accuracy),
            ),
        ),
    )


def _heading(metric: str) -> str:
    """Return a metric as a title begins: a function's own name stays as it is."""
    return metric.capitalize() if metric == ACCURACY else metric


def _cost_axis(
    contenders: Sequence[Contender], place: Place, label: str, kind: str
) -> Axis:
    """Return an axis for what grows with the rounds: logarithmic where that can be.

    The page has a switch to a linear one.
    """
    runs = [run for each in contenders for run in each.runs]
    ends = [place(run.last) for run in runs]
    firsts = [place(run.rounds[0]) for run in runs]
    values = [value for value in (*firsts, *ends) if value is not None]
    if min(values) > 0.0:
        return Axis(fit_log(values), label, kind, "log")
    return Axis(fit_from_zero(values), label, kind, "zero")


def _caption(words: str, target: Target | None) -> str:
    if target is None:
        return words
    goal = percent(target.accuracy)
    return f"{words} The dotted line is {goal}; a ring marks the round that reached it."


def _accuracy(
    contenders: Sequence[Contender],
    target: Target | None,
    x: Axis,
    measure: tuple[Place, Callable[[float], str], str],
) -> LineChart:
    place, unit, what = measure
    series, sentences = [], [what]
    for index, each in enumerate(contenders):
        standing = None if target is None else find_reached(each, target)
        rings = [None] * len(each.runs) if standing is None else standing.rounds
        for run, ring in zip(each.runs, rings, strict=True):
            line = _series((index, each), run, place, lambda one: one.accuracy, ring)
            if line is None:
                continue
            series.append(line)
            (at, accuracy), number = line.points[-1], line.rounds[-1]
            words = f"{percent(accuracy)} after {unit(at)} in round {number}"
            if target is not None and line.ring is not None and ring is not None:
                goal = f"{percent(target.of(run))} after {unit(line.ring[0])}"
                words += f", and {goal} in round {ring.number}"
            elif target is not None:
                words += f"; it did not reach {percent(target.of(run))}"
            sentences.append(f"{_name(each, run)}: {words}.")
    heights = [point[1] for line in series for point in line.points]
    levels = []
    if target is not None:
        heights.append(target.accuracy)
        levels.append(Level(target.accuracy, ""))
    y = Axis(fit(heights), name_metric(contenders), "percent", "round")
    return LineChart(" ".join(sentences), x, y, series, levels)


def _name(contender: Contender, run: Run) -> str:
    """Return what a run's line is called: with its seed, where there are several."""
    seed = f", seed {run.seed}" if len(contender.runs) > 1 else ""
    return f"{contender.label}{seed}"


def _series(
    whose: tuple[int, Contender],
    run: Run,
    place: Place,
    height: Place,
    ring: Round | None = None,
) -> Series | None:
    """Return a run's line, with a ring around one of its rounds."""
    index, contender = whose
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
    is_first = run is contender.runs[0]
    return Series(index, contender.look, tuple(points), tuple(rounds), ringed, is_first)


def chosen_by_round(contenders: Sequence[Contender]) -> Figure:
    """Return how many entries a client sent in each round."""
    sentences = ["Entries that one client sends, by round."]
    named = _by_round(contenders, "chosen")
    for label, line in named:
        values = [point[1] for point in line.points]
        sentences.append(
            f"{label}: {whole(values[0])} in round {line.rounds[0]}, "
            f"{whole(values[-1])} in round {line.rounds[-1]}, between "
            f"{whole(min(values))} and {whole(max(values))}."
        )
    series = [line for _, line in named]
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
            contenders,
            None,
            columns,
            lambda each: tuple(whole(getattr(each, name)) for name in names),
        ),
    )


def gamma_by_round(contenders: Sequence[Contender]) -> Figure:
    """Return each round's compression error."""
    named = _by_round(contenders, "gamma")
    sentences = [f"Relative squared error of the compression, {GAMMA}, by round."]
    runs = [run for each in contenders for run in each.runs]
    for run, (label, line) in zip(runs, named, strict=True):
        values = [each.gamma for each in run.rounds]
        n_above = sum(value >= 1.0 for value in values)
        above = f"{n_above} of {count(len(values), 'round')}" if n_above else "never"
        sentences.append(
            f"{label}: {digits(values[-1])} in round {line.rounds[-1]}, "
            f"between {digits(min(values))} and {digits(max(values))}; "
            f"1 or above: {above}."
        )
    series = [line for _, line in named]
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
            contenders,
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
    usual = max(median(values) for values in lines)
    top = max(GAMMA_TOP, 1.5 * usual)
    return fit([0.0, 1.0, *(min(value, top) for values in lines for value in values)])


def _by_round(contenders: Sequence[Contender], fact: str) -> list[tuple[str, Series]]:
    """Return the name and the line of each run."""
    lines = (
        (
            _name(contender, run),
            _series(
                (index, contender),
                run,
                lambda each: float(each.number),
                lambda each: float(getattr(each, fact)),
            ),
        )
        for index, contender in enumerate(contenders)
        for run in contender.runs
    )
    return [(name, line) for name, line in lines if line is not None]


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
    contenders: Sequence[Contender],
    target: Target | None,
    columns: tuple[str, ...],
    cells: Callable[[Round], tuple[str, ...]],
) -> Table:
    rows = []
    is_thinned = False
    has_seeds = any(len(each.runs) > 1 for each in contenders)
    for index, contender in enumerate(contenders):
        for run in contender.runs:
            ring = None if target is None else run.reach(target.of(run))
            rounds = shown_rounds(run, [ring])
            is_thinned |= len(rounds) < len(run.rounds)
            names = (contender.label, *([str(run.seed)] if has_seeds else []))
            rows += [
                Row((*names, str(each.number), *cells(each)), index) for each in rounds
            ]
    caption = "By run and round." + (ALL_ROUNDS if is_thinned else "")
    seeds = ("seed",) if has_seeds else ()
    return Table(caption, ("run", *seeds, "round", *columns), tuple(rows))


def _number(value: float | None) -> str:
    return NOTHING if value is None else digits(value)
