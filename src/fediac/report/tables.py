"""Tables of a report: columns and text, before anyone knows if it is HTML."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fediac.number_words import (
    NOTHING,
    TIMES,
    about_percent,
    brief,
    digits,
    exact_percent,
    join,
    mean_and_range,
    mean_count,
    percent,
)
from fediac.report.clocks import Clock, list_clocks
from fediac.report.contenders import Contender, name_metric
from fediac.report.target import (
    Cost,
    Standing,
    Target,
    duration,
    find_saving,
    list_rivals,
    rank,
    traffic,
)
from fediac.runs.records import Round
from fediac.runs.stored import Run


@dataclass(frozen=True, slots=True)
class Row:
    """Cells of a line, and which contender they are about, if one."""

    cells: tuple[str, ...]
    contender: int | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A table; columns are numbers but for those listed in ``words``."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    words: tuple[int, ...] = (0,)


Column = tuple[str, Callable[[Standing], str]]


def target_table(contenders: Sequence[Contender], target: Target) -> Table:
    """Return what everybody spent until they had the target accuracy.

    The first line is who sent least payload. It tells what it saved against the best of
    another algorithm; the others, how many times its traffic they sent.
    """
    ranked = rank(contenders, target, traffic("payload"))
    clocks = list_clocks(contenders)
    columns: list[Column] = [
        ("run", lambda each: each.contender.label),
        ("MiB", _cost_column(traffic("payload"))),
        *(
            (_seconds_heading(clock, clocks), _cost_column(duration(clock.switch)))
            for clock in clocks
        ),
        ("rounds", _rounds),
    ]
    if len(contenders) > 1:
        columns.append(("compared", lambda each: _compare(each, ranked)))
    columns.append(("MiB on the wire", _cost_column(traffic("wire"))))
    if any(len(each.runs) > 1 for each in contenders):
        columns.append(("seeds", lambda each: str(len(each.rounds))))
    places = {id(each): place for place, each in enumerate(contenders)}
    rows = tuple(
        Row(tuple(cell(each) for _, cell in columns), places[id(each.contender)])
        for each in ranked
    )
    names = tuple(name for name, _ in columns)
    goal = f"{percent(target.accuracy)} {name_metric(contenders)}"
    caption = f"Traffic and simulated time to {goal}"
    words = tuple(names.index(name) for name in ("run", "compared") if name in names)
    return Table(caption, names, rows, words)


def _seconds_heading(clock: Clock, clocks: Sequence[Clock]) -> str:
    return "seconds" if len(clocks) == 1 else f"seconds, {clock.name}"


def _cost_column(cost: Cost) -> Callable[[Standing], str]:
    """Return how a cost is written: the mean, and the range over several seeds."""
    return lambda each: (
        mean_and_range(each.costs(cost), _finite) if each.reached else NOTHING
    )


def _finite(value: float) -> str:
    return NOTHING if value == float("inf") else digits(value)


def _rounds(each: Standing) -> str:
    """Return in how many rounds, or that it did not happen in those there were."""
    if each.reached:
        return mean_and_range([each.number for each in each.reached], mean_count)
    missed = [
        run
        for run, reached in zip(each.contender.runs, each.rounds, strict=True)
        if reached is None
    ]
    some = f"{len(missed)} of {len(each.rounds)} " if len(each.rounds) > 1 else ""
    numbers = mean_and_range([run.last.number for run in missed], mean_count)
    return f"{some}not in {numbers}"


def _compare(each: Standing, ranked: Sequence[Standing]) -> str:
    """Return how much less the best one sent than another algorithm, or more others."""
    cost, best = traffic("payload"), ranked[0]
    if not each.reached:
        return NOTHING
    if each is not best:
        # Not the best one's name: a long one in every line would push numbers out.
        least = best.cost(cost)
        return (
            f"{brief(each.cost(cost) / least)} {TIMES} the least" if least else NOTHING
        )
    for rival in list_rivals(ranked)[:1]:
        saving = find_saving(best, rival, cost)
        if saving is not None:
            words = "less" if saving >= 0.0 else "more"
            return f"{about_percent(abs(saving))} {words} than {rival.contender.label}"
    return NOTHING


def end_table(contenders: Sequence[Contender]) -> Table:
    """Return where everybody stood after their last finished round."""
    clocks, metric = list_clocks(contenders), name_metric(contenders)
    columns = (
        "run",
        "last round",
        metric,
        f"best {metric}",
        "MiB",
        *(_seconds_heading(clock, clocks) for clock in clocks),
        "MiB on the wire",
        "why it ended",
    )
    rows = []
    for place, each in enumerate(contenders):
        cells = [
            each.label,
            _of_last(each, lambda last: last.number, mean_count),
            _of_last(each, lambda last: last.accuracy, exact_percent),
            mean_and_range([run.best.accuracy for run in each.runs], exact_percent),
            _of_last(each, traffic("payload"), digits),
            *(_of_last(each, duration(clock.switch), _finite) for clock in clocks),
            _of_last(each, traffic("wire"), digits),
            join(list(dict.fromkeys(map(stopped, each.runs)))),
        ]
        rows.append(Row(tuple(cells), place))
    words = (0, len(columns) - 1)
    return Table("Where each run ended", columns, tuple(rows), words)


def _of_last(
    contender: Contender,
    value: Callable[[Round], float],
    write: Callable[[float], str],
) -> str:
    return mean_and_range([value(run.last) for run in contender.runs], write)


def stopped(run: Run) -> str:
    """Return why a run ended, in words."""
    return "not finished" if run.summary is None else run.summary.stopped
