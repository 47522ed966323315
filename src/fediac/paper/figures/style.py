"""How the paper's figures look: entrants' lines and names, notes, numbers beside."""

import json
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fediac.files import write_whole
from fediac.paper.entrants import MAIN
from fediac.paper.figures.names import BEST_VOTES
from fediac.plan.pictures import GREY, Axes, Figure, save_figure
from fediac.plan.plots import LINES

NOTE_COLOUR = "#555555"

PAGE_WIDTH = 7.0
"""Inches across a page of a paper, the width at which pictures are drawn."""

SMALL = 7.0
"""Points of the smallest text at that width."""

_NARROW = 30.0
"""An axis over less than this factor has ticks between powers of ten."""

ENTRANTS = (*(each.name for each in reversed(MAIN)), BEST_VOTES)
"""Who is in the accuracy figure, in the order of drawing: FediAC is on top."""

_DASHES: dict[str, Any] = {BEST_VOTES: (0, (4, 1)), "fediac-tuned": ":"}
"""Settings of one algorithm have its colour."""


def add_note(figure: Figure, note: str, *, points: float = 8.0) -> None:
    """Put a small note below everything, in lines as wide as the figure."""
    # A character of 8 points is about 0.06 inches wide.
    width = round(figure.get_size_inches()[0] / (0.06 * points / 8.0))
    words = textwrap.fill(note, width)
    style = {"ha": "left", "fontsize": points, "color": NOTE_COLOUR}
    figure.supxlabel(words, x=0.01, **style)


def role_of(entrant: str) -> str:
    """Return whose line an entrant's is: FediAC's other votes share one."""
    return entrant if entrant in ENTRANTS else BEST_VOTES


def line_style(entrant: str) -> dict[str, Any]:
    """Return how an entrant's line looks; FediAC's are thick."""
    colour, marker, line = LINES.get(entrant.partition("-")[0], (GREY, ".", "-"))
    is_ours = entrant in ("fediac", BEST_VOTES)
    return {
        "color": colour,
        "marker": marker,
        "linestyle": _DASHES.get(entrant, line),
        "linewidth": 1.7 if is_ours else 1.1,
        "markersize": 3.0 if is_ours else 2.6,
        "zorder": 4 if is_ours else 3,
    }


def use_log_axis(axes: Axes, low: float, high: float) -> None:
    """Make the axis below logarithmic, with plain numbers at its ticks."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_xscale("log")
    axes.set_xlim(low, high)
    steps = (1.0, 2.0, 5.0) if high < _NARROW * low else (1.0,)
    axes.xaxis.set_major_locator(LogLocator(subs=steps))
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.xaxis.set_minor_formatter(NullFormatter())


def save_with_numbers(
    figure: Figure, path: Path, numbers: Sequence[Mapping[str, Any]], *, title: str
) -> None:
    """Write a picture, and what it shows as JSON beside it, a row in each line.

    Raises:
        ConfigError: The picture cannot be written.
    """
    beside = path.with_suffix(".json")
    description = f"{title}. The numbers are in {beside.name}."
    save_figure(figure, path, title=title, description=description)
    rows = ",\n".join(json.dumps(row, allow_nan=False) for row in numbers)
    write_whole(beside, f"[\n{rows}\n]\n")
