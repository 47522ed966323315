"""Charts as SVG without a fixed size: shares for places, pixels for text.

A chart fills whatever width it is given. Its lines live in an inner drawing that is
stretched while strokes keep their width; ticks and markers are placed by percentages.
So one drawing serves a desk, a phone and paper, and no script has to run for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fediac.report.markup import share, tag, text
from fediac.report.number_words import tick
from fediac.report.reading import N_LOOKS
from fediac.report.scales import Scale

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
DASHES = (None, "7 3", "2 3", "9 3 2 3", "5 5", "1 4", "12 4", "4 2 1 2")
"""One a look; the first is a whole line."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A scale, what it measures, and how its numbers are written.

    Attributes:
        kind: ``percent``, ``seconds``, ``mib``, ``whole`` or ``number``.
        grows: How the page's script fits it again to fewer runs: ``zero``, ``round``
            (to ticks), ``log``, or ``fixed``.
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
    """One run's line.

    Attributes:
        run: The run's number in the report.
        rounds: The round of each point.
        ring: The point to put a ring around.
    """

    run: int
    look: int
    points: tuple[tuple[float, float], ...]
    rounds: tuple[int, ...]
    ring: tuple[float, float] | None = None

    def data(self) -> dict[str, Any]:
        """Return what the page's script needs to know."""
        return {
            "run": self.run,
            "x": [x for x, _ in self.points],
            "y": [y for _, y in self.points],
            "rounds": self.rounds,
        }


@dataclass(frozen=True, slots=True)
class Level:
    """A horizontal line to compare with, and its name."""

    value: float
    name: str


def look_class(look: int) -> str:
    """Return the style class of a run's colour."""
    return f"look-{look % N_LOOKS}"


def marker_definitions() -> str:
    """Return the drawing, not shown, that every marker is used from."""
    symbols = [
        tag("path", id=f"marker-{index}", d=d) for index, d in enumerate(MARKERS)
    ]
    return tag(
        "svg",
        tag("defs", *symbols),
        class_="definitions",
        width=0,
        height=0,
        aria_hidden="true",
        focusable="false",
    )


def marker(look: int, x: str, y: str, **attributes: object) -> str:
    """Return a run's marker at a place."""
    shape = (look + look // N_LOOKS) % len(MARKERS)
    return tag("use", href=f"#marker-{shape}", x=x, y=y, class_="marker", **attributes)


def dash(look: int) -> str | None:
    """Return a run's dashes."""
    return DASHES[(look + look // N_LOOKS) % len(DASHES)]


def key_swatch(look: int) -> str:
    """Return a short line with a marker, for a legend."""
    line = tag(
        "line", x1=1, x2=33, y1=7, y2=7, class_="line", stroke_dasharray=dash(look)
    )
    return tag(
        "svg",
        line,
        marker(look, "17", "7"),
        class_=f"swatch {look_class(look)}",
        width=34,
        height=14,
        aria_hidden="true",
        focusable="false",
    )


def draw_lines(
    identity: str,
    x: Axis,
    y: Axis,
    series: Sequence[Series],
    levels: Sequence[Level] = (),
) -> str:
    """Return the inside of a chart with one line a run."""
    parts = [
        tag("g", *x_ticks(x), class_="ticks-x", aria_hidden="true"),
        tag("g", *_y_ticks(y), class_="ticks-y", aria_hidden="true"),
        _names(x, y),
        tag("g", *(_level(each, y) for each in levels), class_="levels"),
    ]
    parts += [_draw_series(each, x, y, len(series)) for each in series]
    return "".join([*parts, tag("g", class_="cursor", id=f"{identity}-cursor")])


def x_ticks(x: Axis, *, has_text: bool = True) -> list[str]:
    """Return the vertical lines of a chart, with their numbers below."""
    parts = []
    for value in x.scale.ticks:
        place = share(x.scale.share(value))
        parts.append(tag("line", x1=place, x2=place, y1=0, y2="100%", class_="grid"))
        if has_text:
            parts.append(
                tag(
                    "text", text(x.tick(value)), x=place, y="100%", dy=17, class_="tick"
                )
            )
    return parts


def _y_ticks(y: Axis) -> list[str]:
    parts = []
    for value in y.scale.ticks:
        place = share(1.0 - y.scale.share(value))
        parts.append(tag("line", x1=0, x2="100%", y1=place, y2=place, class_="grid"))
        parts.append(
            tag(
                "text",
                text(y.tick(value)),
                x=0,
                dx=-7,
                y=place,
                dy=4,
                class_="tick end",
            )
        )
    return parts


def _names(x: Axis, y: Axis) -> str:
    x_name = tag("text", text(x.label), x="100%", y="100%", dy=33, class_="name end")
    y_name = tag("text", text(y.label), x=0, dx=-44, y=0, dy=-12, class_="name")
    return tag("g", x_name, y_name, class_="names", aria_hidden="true")


def _level(level: Level, y: Axis) -> str:
    place = share(1.0 - y.scale.share(level.value))
    line = tag("line", x1=0, x2="100%", y1=place, y2=place, class_="level")
    name = tag(
        "text", text(level.name), x="100%", y=place, dy=-5, class_="level-name end"
    )
    return tag("g", line, name, data_y=level.value)


def _draw_series(series: Series, x: Axis, y: Axis, n_series: int) -> str:
    places = [_place(point, x, y) for point in series.points]
    d = "L".join(f"{1000.0 * a:.2f} {1000.0 * b:.2f}" for a, b in places)
    path = tag(
        "path",
        d=f"M{d}",
        class_="line",
        vector_effect="non-scaling-stroke",
        stroke_dasharray=dash(series.look),
    )
    drawing = tag(
        "svg",
        path,
        class_="lines",
        viewBox="0 0 1000 1000",
        preserveAspectRatio="none",
        width="100%",
        height="100%",
    )
    parts = [drawing]
    step = -(-len(places) // N_MARKERS)
    first = series.run * step // max(n_series, 1) % step
    for index in sorted({*range(first, len(places), step), len(places) - 1}):
        a, b = places[index]
        parts.append(marker(series.look, share(a), share(b), data_point=index))
    if series.ring is not None:
        a, b = _place(series.ring, x, y)
        index = series.points.index(series.ring)
        parts.append(
            tag(
                "circle", cx=share(a), cy=share(b), r=8, class_="ring", data_point=index
            )
        )
    return tag(
        "g", *parts, class_=f"series {look_class(series.look)}", data_run=series.run
    )


def _place(point: tuple[float, float], x: Axis, y: Axis) -> tuple[float, float]:
    """Return shares from the left and the top; what is too high is at the edge."""
    return x.scale.share(point[0]), max(0.0, 1.0 - y.scale.share(point[1]))
