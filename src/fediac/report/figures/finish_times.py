"""When every client had the new model: dots on a line, with a slider for the round."""

import statistics
from collections.abc import Sequence

from fediac.number_words import NOTHING, digits, seconds
from fediac.report.clocks import Clock, list_clocks
from fediac.report.contenders import Contender
from fediac.report.figures.charts import Axis, DotChart, Group
from fediac.report.figures.figure import Figure, Variant
from fediac.report.figures.scales import fit_from_zero
from fediac.report.tables import Row, Table
from fediac.runs.records import Timing
from fediac.runs.stored import Run

N_STOPS = 50
N_DOTS = 10_000
"""Rounds that the slider stops at and that the table lists, and clients in them all."""


def finish_by_client(contenders: Sequence[Contender]) -> Figure:
    """Return when each client was done in a round, one drawing a clock.

    Of several seeds it is the first: a client has other links with each.
    """
    variants, rows = [], []
    for clock in list_clocks(contenders):
        timed = [
            (index, each)
            for index, each in enumerate(contenders)
            if clock.switch in each.runs[0].switches
        ]
        chart = _chart(timed, clock.switch)
        variants.append(Variant(chart, "finish", "switch", clock.name, clock.title))
        for index, each in timed:
            rows += _finish_rows(index, each, clock)
    columns = ("run", "switch", "round", "clients")
    return Figure(
        "finish",
        "When each client finishes",
        "Each dot is one client in a round, from the round's start until it has the "
        "new model. The slowest ends the round. Of several seeds, the first.",
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


def _chart(timed: Sequence[tuple[int, Contender]], switch: str) -> DotChart:
    stops = {
        index: [each.runs[0].rounds[place] for place in _stops(each.runs[0])]
        for index, each in timed
    }
    data = [
        {
            "contender": index,
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
    return DotChart(axis, [_group(index, each, switch) for index, each in timed], data)


def _group(index: int, contender: Contender, switch: str) -> Group:
    """Return the dots of a run's last round."""
    run = contender.runs[0]
    timing = run.last.timing[switch]
    finish = timing.finish_s
    total = f"slowest {seconds(max(finish)) if finish else NOTHING}"
    words = f"{contender.label}, round {run.last.number}: {_finish_words(timing)}."
    return Group(index, contender.look, contender.label, total, words, dots=finish)


def _finish_words(timing: Timing) -> str:
    if not timing.finish_s:
        return "no client took part"
    words = (
        f"fastest client {seconds(min(timing.finish_s))}, median "
        f"{seconds(statistics.median(timing.finish_s))}, slowest "
        f"{seconds(max(timing.finish_s))}"
    )
    return f"{words}, held up by {timing.bottleneck}" if timing.bottleneck else words


def _finish_rows(index: int, contender: Contender, clock: Clock) -> list[Row]:
    rows = []
    run = contender.runs[0]
    for place in _stops(run):
        each = run.rounds[place]
        timing = each.timing[clock.switch]
        finish = timing.finish_s
        summary = (
            (min(finish), statistics.median(finish), max(finish)) if finish else ()
        )
        cells = (
            contender.label,
            clock.name,
            str(each.number),
            str(len(finish)),
            *(digits(value) for value in summary or (0.0, 0.0, 0.0)),
            timing.bottleneck or NOTHING,
        )
        rows.append(Row(cells, index))
    return rows
