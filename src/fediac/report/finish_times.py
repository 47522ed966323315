"""When every client had the new model: dots on a line, with a slider for the round."""

import statistics
from collections.abc import Sequence

from fediac.number_words import NOTHING, digits, seconds
from fediac.report.charts import Axis, DotChart, Group
from fediac.report.figures import Figure, Variant
from fediac.report.scales import fit_from_zero
from fediac.report.tables import Row, Table, all_switches
from fediac.runs.records import Timing
from fediac.runs.stored import Run

N_STOPS = 50
N_DOTS = 10_000
"""Rounds that the slider stops at and that the table lists, and clients in them all."""


def finish_by_client(runs: Sequence[Run]) -> Figure:
    """Return when each client was done in a round, one drawing a switch."""
    variants, rows = [], []
    for switch in all_switches(runs):
        timed = [
            (index, run) for index, run in enumerate(runs) if switch in run.switches
        ]
        chart, name = _chart(timed, switch), f"{switch} switch"
        variants.append(Variant(chart, "finish", "switch", switch, name))
        for index, run in timed:
            rows += _finish_rows(index, run, switch)
    columns = ("run", "switch", "round", "clients")
    return Figure(
        "finish",
        "When each client finishes",
        "Each dot is one client in a round, from the round's start until it has the "
        "new model. The slowest ends the round.",
        tuple(variants),
        Table(
            f"By round; of long runs, at most {N_STOPS} rounds.",
            (*columns, "fastest s", "median s", "slowest s", "held up by"),
            tuple(rows),
            words=(0, 1, 7),
        ),
    )


def _stops(run: Run) -> list[int]:
    """Return places of rounds in a run, evenly spread, with the first and the last."""
    n_rounds = len(run.rounds)
    n_clients = max(len(timing.finish_s) for timing in run.last.timing.values())
    n_stops = min(n_rounds, N_STOPS, max(1, N_DOTS // max(1, n_clients)))
    if n_stops == 1:
        return [n_rounds - 1]
    return [stop * (n_rounds - 1) // (n_stops - 1) for stop in range(n_stops)]


def _chart(timed: Sequence[tuple[int, Run]], switch: str) -> DotChart:
    stops = {
        index: [run.rounds[place] for place in _stops(run)] for index, run in timed
    }
    data = [
        {
            "run": index,
            "rounds": [each.number for each in rounds],
            "finish": [each.timing[switch].finish_s for each in rounds],
        }
        for index, rounds in stops.items()
    ]
    every = [
        value
        for rounds in stops.values()
        for each in rounds
        for value in each.timing[switch].finish_s
    ]
    axis = Axis(
        fit_from_zero(every), "seconds since the round began", "seconds", "zero"
    )
    return DotChart(axis, [_group(index, run, switch) for index, run in timed], data)


def _group(index: int, run: Run, switch: str) -> Group:
    """Return the dots of a run's last round."""
    timing = run.last.timing[switch]
    finish = timing.finish_s
    total = f"slowest {seconds(max(finish)) if finish else NOTHING}"
    words = f"{run.label}, round {run.last.number}: {_finish_words(timing)}."
    return Group(index, run.look, run.label, total, words, dots=finish)


def _finish_words(timing: Timing) -> str:
    if not timing.finish_s:
        return "no client took part"
    words = (
        f"fastest client {seconds(min(timing.finish_s))}, median "
        f"{seconds(statistics.median(timing.finish_s))}, slowest "
        f"{seconds(max(timing.finish_s))}"
    )
    return f"{words}, held up by {timing.bottleneck}" if timing.bottleneck else words


def _finish_rows(index: int, run: Run, switch: str) -> list[Row]:
    rows = []
    for place in _stops(run):
        each = run.rounds[place]
        finish = each.timing[switch].finish_s
        summary = (
            (min(finish), statistics.median(finish), max(finish)) if finish else ()
        )
        cells = (
            run.label,
            switch,
            str(each.number),
            str(len(finish)),
            *(digits(value) for value in summary or (0.0, 0.0, 0.0)),
            each.timing[switch].bottleneck or NOTHING,
        )
        rows.append(Row(cells, index))
    return rows
