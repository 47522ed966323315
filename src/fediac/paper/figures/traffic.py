"""Table I as a picture: traffic to the target, a bar for each entrant."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from fediac.paper.figures.style import NOTE_COLOUR, add_note, save_with_numbers
from fediac.paper.tables import Block, Line, as_documents
from fediac.paper.target_rows import describe_rounds
from fediac.plan.pictures import GREY, Axes, check_plot, open_figure
from fediac.plan.plots import LINES

_N_COLUMNS = 3
_ROOM = 1.9
"""How far a panel goes, in longest bars: bars have words behind them."""

NOTE = (
    "Payload of all clients, up and down; simulated time with the fast switch. Empty "
    "bars: what a run had sent when it ended before the target. Several seeds: mean, "
    "and a line over their range."
)


def draw_traffic(blocks: Sequence[Block], path: Path) -> None:
    """Draw a panel for each scenario: who needs how much to the target, least on top.

    What it shows is written as JSON beside it.

    Args:
        blocks: The table's blocks, with at least one line each.
        path: Ends in ``.svg``, ``.png`` or ``.pdf``.

    Raises:
        ConfigError: The picture cannot be made.
    """
    check_plot(path)
    n_columns = min(_N_COLUMNS, len(blocks))
    n_rows = -(-len(blocks) // n_columns)
    n_bars = max(len(block.lines) for block in blocks)
    height = n_rows * (0.9 + 0.24 * n_bars)
    with open_figure(width=4.6 * n_columns + 0.4, height=height + 0.5) as figure:
        panels = figure.subplots(n_rows, n_columns, squeeze=False)
        for panel in panels.flat[len(blocks) :]:
            panel.set_axis_off()
        for panel, block in zip(panels.flat, blocks, strict=False):
            _draw_block(panel, block)
        add_note(figure, NOTE)
        rows = [row for each in blocks for line in each.lines for row in line.rows]
        title = "Traffic to the target accuracy"
        save_with_numbers(figure, path, as_documents(rows), title=title)


def _draw_block(panel: Axes, block: Block) -> None:
    lines = sorted(block.lines, key=lambda line: (not line.reached, _mean_mib(line)))
    for place, line in enumerate(lines):
        _draw_bar(panel, place, line)
    longest = max(mib for line in lines for mib in line.values("spent_mib"))
    panel.set_xlim(0.0, longest * _ROOM)
    panel.locator_params(axis="x", nbins=5)
    panel.xaxis.set_major_formatter("{x:,g}")
    panel.set_yticks(range(len(lines)), [line.entrant for line in lines])
    panel.invert_yaxis()
    panel.grid(visible=False, axis="y")
    panel.set_xlabel("MiB")
    percent = 100.0 * fmean(block.targets)
    panel.set_title(f"{block.scenario.paper.title}: to {percent:.3g} %")


def _draw_bar(panel: Axes, place: int, line: Line) -> None:
    colour, *_ = LINES[line.entrant.partition("-")[0]]
    spent, mib = line.values("spent_mib"), _mean_mib(line)
    style: dict[str, Any] = {"height": 0.7, "edgecolor": colour, "linewidth": 1.0}
    panel.barh(place, mib, facecolor=colour if line.reached else "none", **style)
    if len(spent) > 1:
        panel.hlines(place, min(spent), max(spent), color=GREY, linewidth=2.0)
    words = describe_rounds(line.rows)
    if line.reached:
        rounds, seconds = fmean(line.values("rounds")), fmean(line.values("spent_s"))
        words = f"{_short(mib)} MiB, {rounds:,.3g} rounds, {_short(seconds)} s"
    panel.annotate(
        words,
        (max(spent), place),
        xytext=(3.0, 0.0),
        textcoords="offset points",
        va="center",
        fontsize=7,
        color=NOTE_COLOUR,
    )


def _short(number: float) -> str:
    return f"{number:,.1f}" if number < 100.0 else f"{number:,.0f}"


def _mean_mib(line: Line) -> float:
    return fmean(line.values("spent_mib"))
