"""How the paper's figures look: entrants' lines and names, notes, numbers beside."""

import json
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fediac.files import write_whole
from fediac.plan.pictures import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    SKY,
    VERMILION,
    Figure,
    save_figure,
)

NOTE_COLOUR = "#555555"

ENTRANTS: dict[str, dict[str, Any]] = {
    "fedavg": {"color": "#000000", "marker": "v", "linestyle": "--"},
    "omnireduce": {"color": GREEN, "marker": "^"},
    "switchml": {"color": VERMILION, "marker": "s"},
    "libra": {"color": ORANGE, "marker": "D"},
    "fediac-tuned": {"color": SKY, "marker": "o"},
    "fediac": {"color": BLUE, "marker": "o"},
}
"""Style of each entrant, in the order of drawing: FediAC comes last, so on top."""

LABELS = {
    "fediac": "FediAC",
    "fediac-tuned": "FediAC, tuned b",
    "switchml": "SwitchML",
    "libra": "libra",
    "omnireduce": "OmniReduce",
    "fedavg": "FedAvg (no switch)",
}


def add_note(figure: Figure, note: str) -> None:
    """Put a small note below everything, in lines as wide as the figure."""
    # A character of this size is about 0.06 inches wide.
    width = round(figure.get_size_inches()[0] / 0.06)
    figure.supxlabel(
        textwrap.fill(note, width), x=0.01, ha="left", fontsize=8.0, color=NOTE_COLOUR
    )


def line_style(entrant: str) -> dict[str, Any]:
    """Return how an entrant's line looks; FediAC's is thick."""
    is_ours = entrant == "fediac"
    style = {"color": GREY, "marker": ".", "linestyle": "-"} | ENTRANTS.get(entrant, {})
    return style | {
        "linewidth": 2.6 if is_ours else 1.3,
        "markersize": 4.5 if is_ours else 3.5,
        "zorder": 4 if is_ours else 3,
    }


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
