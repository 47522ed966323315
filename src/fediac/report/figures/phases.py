"""Figures with one row a phase: where the bytes and the seconds of a round went."""

import statistics
from collections.abc import Sequence

from fediac.core.ledger import MIB
from fediac.number_words import NOTHING, digits, mib, seconds
from fediac.report.clocks import list_clocks
from fediac.report.contenders import Contender
from fediac.report.figures.charts import Axis, Bar, BarChart, Group
from fediac.report.figures.figure import Figure, Variant
from fediac.report.figures.scales import fit_from_zero
from fediac.report.tables import Row, Table
from fediac.runs.records import VIEWS, Timing


def bytes_by_phase(contenders: Sequence[Contender]) -> Figure:
    """Return the mean traffic of a round by phase, one drawing a way to count it."""
    variants = []
    for view in VIEWS:
        groups = []
        for index, each in enumerate(contenders):
            bars = tuple(
                Bar(
                    phase,
                    phase_bytes(each, view, "up", phase) / len(each.rounds) / MIB,
                    phase_bytes(each, view, "down", phase) / len(each.rounds) / MIB,
                )
                for phase in phases_of(each)
            )
            total = mib(sum(bar.length for bar in bars))
            groups.append(_group(index, each, f"{total} a round", bars, "MiB"))
        label = f"mean {view} of a round in MiB, all clients"
        chart = _bar_chart(groups, label, "mib")
        variants.append(Variant(chart, "phase-bytes", "view", view, view))
    return Figure(
        "phase-bytes",
        "Bytes by phase",
        "An average round of each run. Strong colour: sent up; faint: coming down.",
        tuple(variants),
        _bytes_table(contenders),
    )


def phases_of(contender: Contender) -> list[str]:
    """Return the phases that were billed, in their first order."""
    return list(
        dict.fromkeys(
            phase
            for each in contender.rounds
            for direction in (each.traffic.payload.up, each.traffic.payload.down)
            for phase in direction
        )
    )


def phase_bytes(contender: Contender, view: str, direction: str, phase: str) -> float:
    """Return what was sent in a phase, all rounds of all seeds together."""
    total = 0.0
    for each in contender.rounds:
        sent = getattr(getattr(each.traffic, view), direction)
        total += sent.get(phase, 0.0)
    return total


def _bytes_table(contenders: Sequence[Contender]) -> Table:
    rows = []
    for index, each in enumerate(contenders):
        for phase in phases_of(each):
            for direction in ("up", "down"):
                totals = [phase_bytes(each, view, direction, phase) for view in VIEWS]
                cells = [each.label, phase, direction]
                for total in totals:
                    cells += [
                        f"{total / len(each.runs):,.0f}",
                        digits(total / len(each.rounds) / MIB),
                    ]
                rows.append(Row(tuple(cells), index))
    return Table(
        "Bytes of the whole run, the mean over seeds, and MiB of an average round.",
        (
            "run",
            "phase",
            "direction",
            "payload bytes",
            "payload MiB a round",
            "wire bytes",
            "wire MiB a round",
        ),
        tuple(rows),
        words=(0, 1, 2),
    )


def time_by_phase(contenders: Sequence[Contender]) -> Figure:
    """Return the mean seconds of a round by phase, one drawing a switch."""
    variants, rows = [], []
    for clock in list_clocks(contenders):
        groups = [
            _time_group(index, each, clock.switch)
            for index, each in enumerate(contenders)
            if clock.switch in each.switches
        ]
        rows += [row for group in groups for row in _time_rows(group, clock.name)]
        chart = _bar_chart(groups, "mean simulated time of a round in s", "seconds")
        variants.append(Variant(chart, "phase-time", "switch", clock.name, clock.title))
    return Figure(
        "phase-time",
        "Time by phase",
        "An average round of each run. Strong colour: going up; faint: coming down. "
        "Phases may overlap: libra's server works beside the switch.",
        tuple(variants),
        Table(
            "Simulated seconds of an average round; phases may overlap.",
            ("run", "switch", "phase", "up or alone, s", "down, s"),
            tuple(rows),
            words=(0, 1, 2),
        ),
    )


def _time_group(index: int, contender: Contender, switch: str) -> Group:
    rounds = contender.rounds
    round_s = statistics.fmean(each.round_s[switch] for each in rounds)
    bars = _time_bars([each.timing[switch] for each in rounds])
    return _group(index, contender, f"{seconds(round_s)} a round", bars, "s")


def _time_rows(group: Group, switch: str) -> list[Row]:
    return [
        Row(
            (
                group.label,
                switch,
                bar.name,
                digits(bar.up),
                NOTHING if bar.down is None else digits(bar.down),
            ),
            group.contender,
        )
        for bar in group.bars
    ]


def _time_bars(timings: Sequence[Timing]) -> tuple[Bar, ...]:
    """Return means over rounds; a phase that a round lacks took it no time."""
    n_rounds = len(timings)
    up: dict[str, float] = {}
    down: dict[str, float] = {}
    for timing in timings:
        for phase in timing.phases:
            up[phase.name] = up.get(phase.name, 0.0) + phase.upload_s
            down[phase.name] = down.get(phase.name, 0.0) + phase.download_s
    compute_s = statistics.fmean(timing.compute_s for timing in timings)
    means = (Bar(name, up[name] / n_rounds, down[name] / n_rounds) for name in up)
    return (Bar("compute", compute_s, None), *means)


def _group(
    index: int, contender: Contender, total: str, bars: tuple[Bar, ...], unit: str
) -> Group:
    parts = [
        f"{bar.name} {digits(bar.up)} {unit}"
        if bar.down is None
        else f"{bar.name} {digits(bar.up)} {unit} up and {digits(bar.down)} {unit} down"
        for bar in bars
    ]
    label = contender.label
    description = f"{label}, {total}: {'; '.join(parts)}."
    return Group(index, contender.look, label, total, description, bars)


def _bar_chart(groups: Sequence[Group], label: str, kind: str) -> BarChart:
    lengths = [bar.length for group in groups for bar in group.bars]
    return BarChart(Axis(fit_from_zero(lengths), label, kind, "zero"), groups)
