"""The parts of the paper's figures: lines, points, legends and notes."""

from collections.abc import Mapping, Sequence
from typing import Any

from fediac.number_words import join, rough_percent
from fediac.paper.figures.names import BEST_VOTES, line_label, plain_name
from fediac.paper.figures.numbers import Numbers, Row
from fediac.paper.figures.style import (
    ENTRANTS,
    NOTE_COLOUR,
    SMALL,
    line_style,
    role_of,
    use_log_axis,
)
from fediac.paper.scenarios import find_title
from fediac.plan.pictures import GREY, Axes, Figure

_N_MARKERS = 7
"""Markers on a line, about; one for every round would hide it."""


def draw_lines(axes: Axes, rows: Numbers, *, until_s: float) -> None:
    """Draw one scenario on one switch: a line for each entrant, and the target.

    Time is logarithmic: some need a hundred times as long as others.
    """
    if not rows:
        axes.set_axis_off()
        return
    for row in rows:
        _draw_line(axes, row)
    begins = [row["points"][0]["time_s"] for row in rows if row["points"]]
    use_log_axis(axes, min(begins, default=until_s / 10.0), until_s)
    if rows[0]["target"] is not None:
        _draw_target(axes, 100.0 * rows[0]["target"])


def draw_finals(
    axes: Axes, rows: Numbers, key: str, label: str, style: Mapping[str, Any]
) -> None:
    """Draw final accuracies against one number of their rows, with their ranges."""
    rows = [row for row in rows if row["accuracy"] is not None]
    if not rows:
        return
    places = [row[key] for row in rows]
    axes.plot(places, _percent(rows, "accuracy"), label=label, **style)
    if any(len(row["seeds"]) > 1 for row in rows):
        lowest, highest = _percent(rows, "lowest"), _percent(rows, "highest")
        axes.vlines(places, lowest, highest, color=style["color"], linewidth=1.2)


def set_ticks(axes: Axes, values: Sequence[float]) -> None:
    """Put ticks exactly where there are values."""
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.minorticks_off()


def add_legend(figure: Figure, panels: Sequence[Axes]) -> None:
    """Put one legend for all panels above them, FediAC first."""
    handles: dict[str, Any] = {}
    for panel in panels:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    ours_first = [line_label(name) for name in reversed(ENTRANTS)]
    labels = [label for label in ours_first if label in handles]
    labels += [label for label in handles if label not in labels]
    n_columns = max(2, int(figure.get_size_inches()[0] / 1.7))
    figure.legend(
        [handles[label] for label in labels],
        labels,
        loc="outside upper center",
        ncols=min(len(labels), n_columns),
    )


def describe_lines(numbers: Numbers) -> str:
    """Return what lines do not say: how many seeds, and which ones end early."""
    titles = {row["scenario"]: find_title(row["scenario"]) for row in numbers}
    note = f"{_describe_clock(numbers)} {_describe_seeds(numbers, 'line', 'band')}"
    note += _describe_best(numbers, titles)
    groups: dict[str, list[str]] = {}
    for entrant in reversed(ENTRANTS):
        rows = [row for row in numbers if role_of(row["entrant"]) == entrant]
        places = _describe_early(rows, titles)
        if places:
            groups.setdefault(places, []).append(plain_name(entrant))
    if groups:
        until_s = numbers[0]["until_s"]
        parts = [f"{' and '.join(who)} {places}" for places, who in groups.items()]
        note += f" A cross: stopped before {until_s:g} s ({'; '.join(parts)})."
    return note


def _describe_clock(numbers: Numbers) -> str:
    """Return whose clock is drawn, and how far others are from it."""
    first, *others = dict.fromkeys(row["switch"] for row in numbers)
    if not others:
        return f"{first.capitalize()} switch."
    apart = max(_largest_gap(numbers, first, other) for other in others)
    return (
        f"{first.capitalize()} switch; times with the {join(others)} one differ by at "
        f"most {rough_percent(apart)}."
    )


def _largest_gap(numbers: Numbers, one: str, other: str) -> float:
    """Return the largest relative difference between two switches' times."""
    times: dict[tuple[Any, ...], dict[str, float]] = {}
    for row in numbers:
        for point in row["points"]:
            key = (row["scenario"], row["entrant"], point["round"])
            times.setdefault(key, {})[row["switch"]] = point["time_s"]
    both = [each for each in times.values() if one in each and other in each]
    return max((abs(each[other] / each[one] - 1.0) for each in both), default=0.0)


def _describe_best(numbers: Numbers, titles: Mapping[str, str]) -> str:
    """Return which votes are FediAC's best in each scenario."""
    best = {
        row["scenario"]: row["entrant"]
        for row in numbers
        if role_of(row["entrant"]) == BEST_VOTES
    }
    words = [
        f"{titles[scenario]}: {plain_name(entrant).partition(', ')[2]}"
        for scenario, entrant in best.items()
    ]
    return f" Best votes: {'; '.join(words)}." if words else ""


def describe_finals(numbers: Numbers, *, until_s: float) -> str:
    """Return what points do not say: when, how many seeds, and what is missing."""
    switches = list(dict.fromkeys(row["switch"] for row in numbers))
    clock = f"{switches[0].capitalize()} switch. " if len(switches) == 1 else ""
    note = f"{clock}Accuracy of the last round that ended in time. "
    within_s = min(row["within_s"] for row in numbers)
    if within_s < until_s:
        note += f"The time is that of the shortest run, not {until_s:g} s. "
    note += _describe_seeds(numbers, "point", "bar")
    if any(row["accuracy"] is None for row in numbers):
        note += " A point is missing where no round ended in time."
    return note


def _describe_early(rows: Numbers, titles: Mapping[str, str]) -> str:
    """Return where one entrant's lines end early."""
    if all(row["ends_early"] for row in rows):
        return "everywhere" if rows else ""
    places = []
    for scenario in dict.fromkeys(row["scenario"] for row in rows):
        inside = [row for row in rows if row["scenario"] == scenario]
        early = [row["switch"] for row in inside if row["ends_early"]]
        which = "" if len(early) == len(inside) else f" ({', '.join(early)} switch)"
        places += [titles[scenario] + which] if early else []
    return f"on {' and '.join(places)}" if places else ""


def _draw_line(axes: Axes, row: Row) -> None:
    points, entrant = row["points"], role_of(row["entrant"])
    if not points:
        return
    times, values = [point["time_s"] for point in points], _percent(points, "accuracy")
    style = line_style(entrant)
    every = max(1, round(len(points) / _N_MARKERS))
    axes.plot(times, values, label=line_label(entrant), markevery=every, **style)
    if len(row["seeds"]) > 1:
        lowest, highest = _percent(points, "lowest"), _percent(points, "highest")
        band = {"color": style["color"], "alpha": 0.18, "linewidth": 0.0}
        axes.fill_between(times, lowest, highest, **band)
    if row["ends_early"]:
        cross = {"marker": "x", "markersize": 5.0, "markeredgewidth": 1.5, "zorder": 5}
        axes.plot(times[-1:], values[-1:], color=style["color"], **cross)


def _draw_target(axes: Axes, percent: float) -> None:
    axes.axhline(percent, color=GREY, linewidth=0.8, linestyle=":")
    # At the left, where no line has come so far up yet.
    axes.annotate(
        f"{percent:.3g} %",
        (0.0, percent),
        xycoords=("axes fraction", "data"),
        xytext=(2.0, 1.5),
        textcoords="offset points",
        fontsize=SMALL,
        color=NOTE_COLOUR,
    )


def _describe_seeds(numbers: Numbers, mean: str, spread: str) -> str:
    counts = {len(row["seeds"]) for row in numbers}
    if counts == {1}:
        return "One seed each."
    some = " to ".join(str(count) for count in sorted({min(counts), max(counts)}))
    return f"Each {mean} is the mean of {some} seeds, its {spread} their range."


def _percent(rows: Numbers, name: str) -> list[float]:
    return [100.0 * row[name] for row in rows]
