"""How the paper's figures look, and how they are saved: the same bits every time.

Figures are made without pyplot, so nothing global changes.
"""

import io
import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any, TypeAlias

from fediac.errors import ConfigError, say_reason
from fediac.files import write_whole
from fediac.plan.plots import BLUE, GREEN, GREY, ORANGE, SKY, VERMILION

Axes: TypeAlias = Any
Figure: TypeAlias = Any

NOTE_COLOUR = "#555555"

_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "savefig.dpi": 150,
    "svg.fonttype": "none",
    "svg.hashsalt": "fediac",
}

ENTRANTS: dict[str, dict[str, Any]] = {
    "fedavg": {"color": "#000000", "marker": "v", "linestyle": "--"},
    "omnireduce": {"color": GREEN, "marker": "^"},
    "switchml": {"color": VERMILION, "marker": "s"},
    "libra": {"color": ORANGE, "marker": "D"},
    "fediac-bound": {"color": SKY, "marker": "o"},
    "fediac": {"color": BLUE, "marker": "o"},
}
"""Style of each entrant, in the order of drawing: FediAC comes last, so on top."""

LABELS = {
    "fediac": "FediAC",
    "fediac-bound": "FediAC, b at the bound",
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


@contextmanager
def open_figure(*, width: float, height: float) -> Iterator[Figure]:
    """Give an empty figure, in inches, in this package's style while it is drawn."""
    import matplotlib
    from matplotlib.figure import Figure as MatplotlibFigure

    with matplotlib.rc_context(_STYLE):
        yield MatplotlibFigure(figsize=(width, height), layout="constrained")


def save_figure(figure: Figure, path: Path, *, title: str, description: str) -> None:
    """Write a picture; an SVG has no date, and says in words what it shows.

    Raises:
        ConfigError: The file cannot be written.
    """
    picture = io.BytesIO()
    kind = path.suffix[1:].lower()
    # Neither the day nor the release of Matplotlib belongs to what is shown.
    left_out = {"svg": ("Date", "Creator"), "pdf": ("CreationDate", "Producer")}
    metadata = dict.fromkeys(left_out.get(kind, ()))
    figure.savefig(picture, format=kind, metadata=metadata)
    content = picture.getvalue()
    if kind == "svg":
        content = _describe(content.decode(), title, description).encode()
    try:
        write_whole(path, content)
    except OSError as error:
        raise ConfigError(f"{path}: {say_reason(error)}") from error


def save_numbers(numbers: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write what a picture shows as JSON beside it, a row in each line."""
    rows = ",\n".join(json.dumps(row, allow_nan=False) for row in numbers)
    write_whole(path.with_suffix(".json"), f"[\n{rows}\n]\n")


def _describe(svg: str, title: str, description: str) -> str:
    """Return an SVG with a role, a title and a description for screen readers."""
    start = svg.index("<svg ")
    stop = svg.index(">", start) + 1
    root = svg[start : stop - 1] + ' role="img" aria-labelledby="title desc">'
    words = (
        f'\n <title id="title">{escape(title)}</title>'
        f'\n <desc id="desc">{escape(description)}</desc>'
    )
    return svg[:start] + root + words + svg[stop:]
