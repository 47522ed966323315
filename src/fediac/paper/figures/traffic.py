"""Table I as a picture: traffic to the target, a dot for each entrant."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from fediac.paper.figures.names import plain_name
from fediac.paper.figures.style import (
    NOTE_COLOUR,
    PAGE_WIDTH,
    SMALL,
    add_note,
    save_with_numbers,
    use_log_axis,
)
from fediac.paper.tables import Block, Line, as_documents
from fediac.paper.targets import describe_rounds
from fediac.plan.pictures import Axes, check_plot, open_figure
from fediac.plan.plots import LINES

_MARGIN = 1.3
"""How far the axis goes beyond the dots, as a factor."""

_ROW = 0.135
"""Inches of a line of this text."""

NOTE = (
    "Payload of all clients, up and down, on a logarithmic axis; simulated time with "
    "the fast switch. Empty: what a run had sent when it ended before the target. "
    "Several seeds: mean, and a line over their range. 16 a vote: as many entries "
    "share one; a: threshold."
)


def draw_traffic(blocks: Sequence[Block], path: Path) -> None:
    """Draw a panel for each scenario: who needs how much to the target, least on top.

    All have one logarithmic axis. What it shows is written as JSON beside it.

    Args:
        blocks: The table's blocks, with at least one line each.
        path: Ends in ``.svg``, ``.png`` or ``.pdf``.

    Raises:
        ConfigError: The picture cannot be made.
    """
    check_plot(path)
    n_lines = [len(block.lines) for block in blocks]
    height = _ROW * sum(n_lines) + 0.42 * len(blocks) + 0.75
    with open_figure(width=PAGE_WIDTH, height=height, text=SMALL) as figure:
        column = figure.subplots(
            len(blocks), 1, squeeze=False, sharex=True, height_ratios=n_lines
        )[:, 0]
        spent = [
            mib
            for block in blocks
            for line in block.lines
            for mib in line.values("spent_mib")
        ]
        for panel, block in zip(column, blocks, strict=True):
            use_log_axis(panel, min(spent) / _MARGIN, max(spent) * _MARGIN)
            _draw_block(panel, block)
        column[-1].set_xlabel("MiB")
        add_note(figure, NOTE, points=SMALL)
        rows = [row for each in blocks for line in each.lines for row in line.rows]
        title = "Traffic to the target accuracy"
        save_with_numbers(figure, path, as_documents(rows), title=title)


def _draw_block(panel: Axes, block: Block) -> None:
    lines = sorted(block.lines, key=lambda line: (not line.reached, _mean_mib(line)))
    for place, line in enumerate(lines):
        _draw_dot(panel, place, line)
    names = [plain_name(line.entrant) for line in lines]
    panel.set_yticks(range(len(lines)), names)
    panel.set_ylim(len(lines) - 0.4, -0.6)
    panel.tick_params(axis="y", length=0.0)
    percent = 100.0 * fmean(block.targets)
    title = f"{block.scenario.paper.title}: to {percent:.3g} %"
    panel.set_title(title, loc="left", fontweight="bold")


def _draw_dot(panel: Axes, place: int, line: Line) -> None:
    colour, marker, _ = LINES[line.entrant.partition("-")[0]]
    spent, mib = line.values("spent_mib"), _mean_mib(line)
    style: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 4.5}
    fill = colour if line.reached else "white"
    panel.plot([mib], [place], markerfacecolor=fill, linestyle="none", **style)
    if len(set(spent)) > 1:
        panel.hlines(place, min(spent), max(spent), color=colour, linewidth=1.2)
    words = describe_rounds(line.rows)
    if line.reached:
        rounds, seconds = fmean(line.values("rounds")), fmean(line.values("spent_s"))
        words = f"{_short(mib)} MiB, {rounds:,.3g} rounds, {_short(seconds)} s"
    # Beside the panel, as a column: dots are everywhere inside.
    panel.annotate(
        words,
        (1.0, place),
        xycoords=("axes fraction", "data"),
        xytext=(4.0, 0.0),
        textcoords="offset points",
        va="center",
        color=NOTE_COLOUR,
    )


def _short(number: float) -> str:
    return f"{number:,.1f}" if number < 100.0 else f"{number:,.0f}"


def _mean_mib(line: Line) -> float:
    return fmean(line.values("spent_mib"))
