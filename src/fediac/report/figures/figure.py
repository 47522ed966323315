"""What a figure is: a title, a caption, drawings to choose from, and its numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

from fediac.report.figures.charts import BarChart, DotChart, LineChart, PointChart
from fediac.report.tables import Table
from fediac.runs.records import Round
from fediac.runs.stored import Run

MAX_SHOWN = 400
"""Rounds of one run that are drawn and listed; more are thinned evenly."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A drawing, shown when the reader chose its key.

    Attributes:
        figure: The figure's identity.
        choice: What is chosen: ``switch``, ``view``, or nothing.
        key: For which choice this one is.
        name: The same for people.
    """

    chart: LineChart | BarChart | DotChart | PointChart
    figure: str
    choice: str = ""
    key: str = ""
    name: str = ""

    @property
    def identity(self) -> str:
        """A name for the drawing, good for the page's links."""
        return "-".join([self.figure, *self.key.split()])


@dataclass(frozen=True, slots=True)
class Figure:
    """Drawings of one thing, and a table of its numbers."""

    identity: str
    title: str
    caption: str
    variants: tuple[Variant, ...]
    table: Table


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
