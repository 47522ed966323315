"""What a figure is: a title, a caption, drawings to choose from, and its numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fediac.report.markup import tag, text
from fediac.report.reading import Run
from fediac.report.svg import Axis, Level, Series, draw_lines
from fediac.report.tables import Table
from fediac.runs.rounds import Round

MAX_SHOWN = 400
"""Rounds of one run that are drawn and listed; more are thinned evenly."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A drawing, shown when the reader chose its key.

    Attributes:
        choice: What is chosen: ``switch``, ``view``, or nothing.
        key: For which choice this one is.
        name: The same for people.
        description: What the drawing shows, in words.
        body: The drawing.
        data: What the page's script needs to read values out.
    """

    identity: str
    choice: str
    key: str
    name: str
    description: str
    body: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Figure:
    """Drawings of one thing, and a table of its numbers."""

    identity: str
    title: str
    caption: str
    variants: tuple[Variant, ...]
    table: Table


@dataclass(frozen=True, slots=True)
class Choice:
    """Which drawing of a figure this is; see `Variant`."""

    figure: str
    choice: str = ""
    key: str = ""
    name: str = ""

    @property
    def identity(self) -> str:
        """A name for the drawing, good for the page's links."""
        return f"{self.figure}-{self.key}" if self.key else self.figure


def line_variant(
    chosen: Choice,
    description: str,
    axes: tuple[Axis, Axis],
    series: Sequence[Series],
    levels: Sequence[Level] = (),
) -> Variant:
    """Return a chart with one line a run."""
    x, y = axes
    identity = chosen.identity
    drawing = tag(
        "svg",
        tag("desc", text(description), id=f"{identity}-desc"),
        draw_lines(identity, x, y, series, levels),
        class_="chart",
        role="img",
        aria_labelledby=f"{chosen.figure}-title {identity}-desc",
    )
    data = {
        "x": x.data(),
        "y": y.data(),
        "levels": [each.value for each in levels],
        "series": [each.data() for each in series],
    }
    return Variant(
        identity,
        chosen.choice,
        chosen.key,
        chosen.name,
        description,
        tag("div", drawing, class_="plot", data_chart=identity),
        data,
    )


def shown_rounds(run: Run, keep: Sequence[Round | None] = ()) -> list[Round]:
    """Return a run's rounds, thinned evenly if there are too many to draw.

    The first, the last, the best and those to ``keep`` are always there.
    """
    n_rounds = len(run.rounds)
    if n_rounds <= MAX_SHOWN:
        return list(run.rounds)
    kept = {each.number for each in (run.rounds[0], run.last, run.best, *keep) if each}
    step = -(-n_rounds // MAX_SHOWN)
    return [
        each
        for index, each in enumerate(run.rounds)
        if index % step == 0 or each.number in kept
    ]
