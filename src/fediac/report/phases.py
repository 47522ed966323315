"""Figures with one row a phase: where the bytes and the seconds of a round went."""

import statistics
from collections.abc import Sequence

from fediac.core.ledger import MIB
from fediac.report.bars import (
    Bar,
    Group,
    draw_axis,
    draw_bars,
    draw_heading,
)
from fediac.report.figures import Choice, Figure, Variant
from fediac.report.markup import tag
from fediac.report.number_words import NOTHING, digits, mib, seconds
from fediac.report.reading import Run
from fediac.report.scales import fit_from_zero
from fediac.report.svg import Axis
from fediac.report.tables import Row, Table, all_switches
from fediac.runs.rounds import VIEWS, Timing


def bytes_by_phase(runs: Sequence[Run]) -> Figure:
    """Return the mean traffic of a round by phase, one drawing a way to count it."""
    variants = []
    for view in VIEWS:
        groups = []
        for index, run in enumerate(runs):
            bars = tuple(
                Bar(
                    phase,
                    phase_bytes(run, view, "up", phase) / len(run.rounds) / MIB,
                    phase_bytes(run, view, "down", phase) / len(run.rounds) / MIB,
                )
                for phase in phases_of(run)
            )
            total = mib(sum(bar.up + (bar.down or 0.0) for bar in bars))
            groups.append(Group(index, run.look, run.label, f"{total} a round", bars))
        chosen = Choice("phase-bytes", "view", view, view)
        name = f"mean {view} of a round in MiB, all clients"
        variants.append(_bar_variant(groups, chosen, name, "MiB"))
    return Figure(
        "phase-bytes",
        "Bytes by phase",
        "An average round of each run. Strong colour: sent up; faint: coming down.",
        tuple(variants),
        _bytes_table(runs),
    )


def phases_of(run: Run) -> list[str]:
    """Return the phases that a run billed, in their first order."""
    return list(
        dict.fromkeys(
            phase
            for each in run.rounds
            for direction in each.traffic["payload"].values()
            for phase in direction
        )
    )


def phase_bytes(run: Run, view: str, direction: str, phase: str) -> float:
    """Return what a run sent in a phase, all rounds together."""
    return sum(each.traffic[view][direction].get(phase, 0.0) for each in run.rounds)


def _bytes_table(runs: Sequence[Run]) -> Table:
    rows = []
    for index, run in enumerate(runs):
        for phase in phases_of(run):
            for direction in ("up", "down"):
                totals = [phase_bytes(run, view, direction, phase) for view in VIEWS]
                cells = [run.label, phase, direction]
                for total in totals:
                    cells += [f"{total:,.0f}", digits(total / len(run.rounds) / MIB)]
                rows.append(Row(tuple(cells), index))
    return Table(
        "Bytes of the whole run, and MiB of an average round.",
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


def time_by_phase(runs: Sequence[Run]) -> Figure | None:
    """Return the mean seconds of a round by phase, one drawing a switch."""
    variants, rows = [], []
    for switch in timed_switches(runs):
        groups = [
            _time_group(index, run, switch)
            for index, run in enumerate(runs)
            if timings_of(run, switch)
        ]
        rows += [row for group in groups for row in _time_rows(group, switch)]
        chosen = Choice("phase-time", "switch", switch, f"{switch} switch")
        name = "mean simulated time of a round in s"
        variants.append(_bar_variant(groups, chosen, name, "s"))
    if not variants:
        return None
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


def _time_group(index: int, run: Run, switch: str) -> Group:
    round_s = statistics.fmean(each.round_s[switch] for each in run.rounds)
    bars = _time_bars(timings_of(run, switch))
    return Group(index, run.look, run.label, f"{seconds(round_s)} a round", bars)


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
            group.run,
        )
        for bar in group.bars
    ]


def timed_switches(runs: Sequence[Run]) -> list[str]:
    """Return the switches whose time some run wrote down by phase."""
    return [
        switch
        for switch in all_switches(runs)
        if any(timings_of(run, switch) for run in runs)
    ]


def timings_of(run: Run, switch: str) -> list[Timing]:
    """Return a run's timings with a switch, or none unless every round has one."""
    timings = [each.timing[switch] for each in run.rounds if switch in each.timing]
    is_whole = all(switch in each.round_s for each in run.rounds)
    return timings if is_whole and len(timings) == len(run.rounds) else []


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


def _bar_variant(
    groups: Sequence[Group], chosen: Choice, name: str, unit: str
) -> Variant:
    lengths = [bar.up + (bar.down or 0.0) for group in groups for bar in group.bars]
    kind = "mib" if unit == "MiB" else "seconds"
    axis = Axis(fit_from_zero(lengths), name, kind, "zero")
    sentences = [_describe(group, unit) for group in groups]
    drawings = [
        draw_bars(group, axis, identity=f"{chosen.identity}-desc", description=sentence)
        for group, sentence in zip(groups, sentences, strict=True)
    ]
    body = tag(
        "div",
        draw_heading(("up", "down")),
        *drawings,
        draw_axis(axis),
        class_="plot",
        data_chart=chosen.identity,
    )
    largest = {
        group.run: max((bar.up + (bar.down or 0.0) for bar in group.bars), default=0.0)
        for group in groups
    }
    return Variant(
        chosen.identity,
        chosen.choice,
        chosen.key,
        chosen.name,
        " ".join([f"{name.capitalize()}.", *sentences]),
        body,
        {"x": axis.data(), "largest": largest},
    )


def _describe(group: Group, unit: str) -> str:
    parts = [
        f"{bar.name} {digits(bar.up)} {unit}"
        if bar.down is None
        else f"{bar.name} {digits(bar.up)} {unit} up and {digits(bar.down)} {unit} down"
        for bar in group.bars
    ]
    return f"{group.label}, {group.total}: {'; '.join(parts)}."
