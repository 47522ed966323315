"""Charts as numbers, in shares of a drawing; ``templates/charts.html`` draws them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from fediac.number_words import tick
from fediac.report.contenders import Look
from fediac.report.figures.scales import Scale

N_MARKERS = 8
"""Markers along a line, so that it is known without its colour."""

MARKERS = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0Z",
    "M-3.6-3.6H3.6V3.6H-3.6Z",
    "M0-4.8 4.4 3.2H-4.4Z",
    "M0-5 5 0 0 5-5 0Z",
    "M0 4.8 4.4-3.2H-4.4Z",
    "M-1.4-4.6H1.4V-1.4H4.6V1.4H1.4V4.6H-1.4V1.4H-4.6V-1.4H-1.4Z",
    "M-4.6-2.4H4.6V2.4H-4.6Z",
    "M-2.4-4.6H2.4V4.6H-2.4Z",
)
DASHES = (None, "9 2", "5 2", "12 3 3 3", "3 2", "16 3", "7 2 2 2", "12 2 2 2 2 2")
"""One a style; the first is a whole line. All are dense, so that lines stay lines."""


def look_class(look: Look) -> str:
    """Return the class of an algorithm's colour."""
    return f"look-{look[0]}"


def marker(look: Look) -> int:
    """Return the number of an algorithm's marker."""
    return look[0] % len(MARKERS)


def dash(look: Look) -> str | None:
    """Return the dashes of a setting."""
    return DASHES[look[1]]


@dataclass(frozen=True, slots=True)
class Axis:
    """A scale, what it measures, and how its numbers are written.

    Attributes:
        kind: ``percent``, ``seconds``, ``mib``, ``whole`` or ``number``.
        grows: How the page's script fits it again, to fewer lines: ``zero``, ``round``
            (to ticks), ``log`` (``zero`` if the reader wants that), or ``fixed``.
    """

    scale: Scale
    label: str
    kind: str
    grows: str

    def tick(self, value: float) -> str:
        """Return the text at a tick."""
        return tick(value, is_percent=self.kind == "percent")

    def data(self) -> dict[str, Any]:
        """Return what the page's script needs to know."""
        return {
            "low": self.scale.low,
            "high": self.scale.high,
            "log": self.scale.is_log,
            "kind": self.kind,
            "grows": self.grows,
        }


@dataclass(frozen=True, slots=True)
class Series:
    """The line of one run.

    Attributes:
        contender: The number in the report of whose run it is.
        rounds: The round of each point.
        ring: The point to put a ring around.
        is_first: Whether the run is its contender's first; others have no markers.
    """

    contender: int
    look: Look
    points: tuple[tuple[float, float], ...]
    rounds: tuple[int, ...]
    ring: tuple[float, float] | None = None
    is_first: bool = True

    def data(self) -> dict[str, Any]:
        """Return what the page's script needs to know."""
        return {
            "contender": self.contender,
            "x": [x for x, _ in self.points],
            "y": [y for _, y in self.points],
            "rounds": self.rounds,
        }


@dataclass(frozen=True, slots=True)
class Level:
    """A horizontal line to compare with, and its name."""

    value: float
    name: str


@dataclass(frozen=True, slots=True)
class LineChart:
    """A line for each run of each contender.

    Attributes:
        description: What it shows, in words.
    """

    kind: ClassVar[str] = "lines"

    description: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    levels: Sequence[Level] = ()

    def height(self, value: float) -> float:
        """Return the share from the top."""
        return 1.0 - self.y.scale.share(value)

    def place(self, point: tuple[float, float]) -> tuple[float, float]:
        """Return shares from the left and the top; what is too high is at the edge."""
        return self.x.scale.share(point[0]), max(0.0, self.height(point[1]))

    def path(self, series: Series) -> str:
        """Return a line's way through a drawing of 1000 by 1000."""
        places = map(self.place, series.points)
        return "M" + "L".join(f"{1000.0 * a:.2f} {1000.0 * b:.2f}" for a, b in places)

    def marked(self, series: Series) -> list[int]:
        """Return the points with a marker, others than those of the line before."""
        if not series.is_first:
            return []
        n_points = len(series.points)
        step = -(-n_points // N_MARKERS)
        first = series.contender * step // max(len(self.series), 1) % step
        return sorted({*range(first, n_points, step), n_points - 1})

    def data(self) -> dict[str, Any]:
        """Return what the page's script needs to know."""
        return {
            "x": self.x.data(),
            "y": self.y.data(),
            "levels": [each.value for each in self.levels],
            "series": [each.data() for each in self.series],
        }


@dataclass(frozen=True, slots=True)
class Point:
    """One contender's place.

    Attributes:
        label: Its name beside it.
        low: The least of x and of y over its seeds.
        high: The largest.
        words: What is said of it, a line each.
    """

    contender: int
    look: Look
    label: str
    at: tuple[float, float]
    low: tuple[float, float]
    high: tuple[float, float]
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PointChart:
    """A point for each contender, and a line through those that nobody beats.

    Attributes:
        description: What it shows, in words.
        front: Nobody is below and left of these points; from left to right.
    """

    kind: ClassVar[str] = "points"

    description: str
    x: Axis
    y: Axis
    points: Sequence[Point]
    front: Sequence[tuple[float, float]]

    def place(self, point: tuple[float, float]) -> tuple[float, float]:
        """Return shares from the left and the top."""
        return self.x.scale.share(point[0]), 1.0 - self.y.scale.share(point[1])

    def path(self) -> str:
        """Return the front as stairs, in a drawing of 1000 by 1000."""
        places = [self.place(each) for each in self.front]
        steps = [f"M{1000.0 * places[0][0]:.2f} 0"]
        for across, down in places:
            steps.append(f"H{1000.0 * across:.2f}V{1000.0 * down:.2f}")
        return "".join([*steps, "H1000"])

    def data(self) -> dict[str, Any]:
        """Return what the page's script needs to know."""
        return {
            "points": [
                {"contender": each.contender, "words": each.words}
                for each in self.points
            ]
        }


@dataclass(frozen=True, slots=True)
class Bar:
    """A row: a value going up and one coming down, or a single one (down is None)."""

    name: str
    up: float
    down: float | None

    @property
    def length(self) -> float:
        """Both values together."""
        return self.up + (self.down or 0.0)


@dataclass(frozen=True, slots=True)
class Group:
    """A contender's rows of bars, or its row of dots.

    Attributes:
        total: A number for all of them, with its unit.
        description: What they show, in words.
    """

    contender: int
    look: Look
    label: str
    total: str
    description: str
    bars: tuple[Bar, ...] = ()
    dots: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class BarChart:
    """A row for each phase of each contender."""

    kind: ClassVar[str] = "bars"

    axis: Axis
    groups: Sequence[Group]

    def data(self) -> dict[str, Any]:
        """Return what the page's script needs to know."""
        largest = {
            group.contender: max((bar.length for bar in group.bars), default=0.0)
            for group in self.groups
        }
        return {"x": self.axis.data(), "largest": largest}


@dataclass(frozen=True, slots=True)
class DotChart:
    """A dot for each client of each contender, in one round.

    Attributes:
        finish: What the page's script draws for other rounds, a contender each.
    """

    kind: ClassVar[str] = "dots"

    axis: Axis
    groups: Sequence[Group]
    finish: Sequence[dict[str, Any]]

    def data(self) -> dict[str, Any]:
        """Return what the page's script needs to know."""
        return {"x": self.axis.data(), "finish": self.finish}
