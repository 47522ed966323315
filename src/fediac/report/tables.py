"""Tables of a report: columns and text, before anyone knows if it is HTML."""

from collections.abc import Sequence
from dataclasses import dataclass

from fediac.number_words import (
    NOTHING,
    TIMES,
    brief,
    digits,
    exact_percent,
    percent,
    whole,
)
from fediac.report.differences import are_repeats
from fediac.report.target import (
    Standing,
    Target,
    rank,
    saving,
    second_best,
)
from fediac.runs.records import VIEWS
from fediac.runs.stored import Run


@dataclass(frozen=True, slots=True)
class Row:
    """Cells of a line, and which run they are about, if one."""

    cells: tuple[str, ...]
    run: int | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A table; columns are numbers but for those listed in ``words``."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    words: tuple[int, ...] = (0,)


def all_switches(runs: Sequence[Run]) -> list[str]:
    """Return every switch that a run was timed with, in their first order."""
    return list(dict.fromkeys(switch for run in runs for switch in run.switches))


def target_table(runs: Sequence[Run], target: Target) -> Table:
    """Return what every run sent until it had the target accuracy.

    The first line is the run that sent least payload. It tells what it saved against
    the second best; the others, how many times the best one's traffic they sent.
    """
    switches = all_switches(runs)
    by_view = {view: rank(runs, target, view) for view in VIEWS}
    numbers = {run.label: index for index, run in enumerate(runs)}
    rows = []
    for each in by_view["payload"]:
        cells = [each.run.label]
        cells.append(str(each.reached.number) if each.reached else "not reached")
        for view in VIEWS:
            cells += _compare(each, by_view[view], view)
        cells += [_arrival(each, switch) for switch in switches]
        rows.append(Row(tuple(cells), numbers[each.run.label]))
    columns = ["run", "round"]
    for view in VIEWS:
        columns += [f"{view} MiB", "compared"]
    columns += [f"time s, {switch}" for switch in switches]
    caption = f"Traffic and simulated time to {percent(target.accuracy)} accuracy"
    table = Table(caption, tuple(columns), tuple(rows), words=(0, 3, 5))
    if len(runs) == 1 or are_repeats(runs):
        return _without_columns(table, {3, 5})
    return table


def _without_columns(table: Table, left_out: set[int]) -> Table:
    kept = [index for index in range(len(table.columns)) if index not in left_out]
    return Table(
        table.caption,
        tuple(table.columns[index] for index in kept),
        tuple(
            Row(tuple(row.cells[index] for index in kept), row.run)
            for row in table.rows
        ),
        tuple(kept.index(index) for index in table.words if index in kept),
    )


def _compare(each: Standing, ranked: Sequence[Standing], view: str) -> tuple[str, str]:
    """Return a run's traffic, and how it compares with the best or the second best."""
    if each.reached is None:
        return NOTHING, NOTHING
    traffic = digits(each.mib(view))
    best = ranked[0]
    if each.run.label == best.run.label:
        less, second = saving(ranked, view), second_best(ranked)
        if less is None or second is None:
            return traffic, NOTHING
        return traffic, f"{percent(less)} less than {second.run.label}"
    if best.mib(view) == 0.0:
        return traffic, NOTHING
    # Not the best one's name: a long one in every line would push the times out.
    return traffic, f"{brief(each.mib(view) / best.mib(view))} {TIMES} the least"


def _arrival(each: Standing, switch: str) -> str:
    if each.reached is None or switch not in each.reached.time_s:
        return NOTHING
    return digits(each.reached.time_s[switch])


def end_table(runs: Sequence[Run]) -> Table:
    """Return where every run stood after its last finished round."""
    switches = all_switches(runs)
    rows = []
    for index, run in enumerate(runs):
        last, best = run.last, run.best
        cells = [
            run.label,
            whole(last.number),
            exact_percent(last.accuracy),
            exact_percent(best.accuracy),
            *(digits(last.mib[view]) for view in VIEWS),
            *(
                digits(last.time_s[switch]) if switch in last.time_s else NOTHING
                for switch in switches
            ),
            stopped(run),
        ]
        rows.append(Row(tuple(cells), index))
    columns = (
        "run",
        "last round",
        "accuracy",
        "best accuracy",
        "payload MiB",
        "wire MiB",
        *(f"time s, {switch}" for switch in switches),
        "why it ended",
    )
    words = (0, len(columns) - 1)
    return Table("Where each run ended", columns, tuple(rows), words)


def stopped(run: Run) -> str:
    """Return why a run ended, in words."""
    return "not finished" if run.summary is None else run.summary.stopped
