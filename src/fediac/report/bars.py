"""Charts of one row a phase or a client: a small drawing for each run, one scale.

Each run's rows are a drawing of their own, so that the page can take a run out and
close the gap. Numbers stand in columns at the right, as in a table.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fediac.report.markup import share, tag, text
from fediac.report.number_words import brief
from fediac.report.svg import Axis, look_class, marker, x_ticks

HEAD = 36
ROW = 20
BAR = 11
LEFT = 82
"""Pixels between a drawing's edge and its scale; the style sheet leaves them free."""

FIRST_COLUMN, LAST_COLUMN = 50, 104
"""Where columns of numbers end, in pixels from the scale's right end."""

N_LANES = 3
"""Heights that dots are spread over, so that equal ones are all seen."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A row: a value going up and one coming down, or a single one (down is None)."""

    name: str
    up: float
    down: float | None


@dataclass(frozen=True, slots=True)
class Group:
    """A run's rows, with a number for all of them."""

    run: int
    look: int
    label: str
    total: str
    bars: tuple[Bar, ...] = ()
    dots: tuple[float, ...] = ()


def draw_heading(names: Sequence[str]) -> str:
    """Return the names of the two columns of numbers, as a drawing."""
    places = (FIRST_COLUMN, LAST_COLUMN)
    parts = [
        tag("text", text(name), x="100%", dx=place, y=11, class_="name end")
        for name, place in zip(names, places, strict=True)
    ]
    return tag("svg", *parts, class_="rows", height=14, aria_hidden="true")


def draw_axis(axis: Axis) -> str:
    """Return the ticks below all groups, as a drawing."""
    place = {"x": "100%", "dx": LAST_COLUMN, "y": "100%", "dy": 33}
    name = tag("text", text(axis.label), class_="name end", **place)
    ticks = tag("g", *x_ticks(axis), class_="ticks-x")
    return tag("svg", ticks, name, class_="rows axis", height=4, aria_hidden="true")


def draw_bars(group: Group, axis: Axis, *, identity: str, description: str) -> str:
    """Return a run's bars as a drawing with its text alternative."""
    height = HEAD + ROW * len(group.bars)
    parts = [_frame(group, axis)]
    rects = []
    for index, bar in enumerate(group.bars):
        top = HEAD + ROW * index
        rects += _rects(bar, axis, top + (ROW - BAR) // 2)
        parts += _texts(bar, top + ROW - 6)
    drawing = tag(
        "svg",
        *rects,
        class_="bars",
        viewBox=f"0 0 1000 {height}",
        preserveAspectRatio="none",
        width="100%",
        height=height,
    )
    return _drawing(group, [*parts, drawing], height, identity, description)


def draw_dots(group: Group, axis: Axis, *, identity: str, description: str) -> str:
    """Return a run's dots on one line as a drawing with its text alternative."""
    height = HEAD + 20
    middle = HEAD + 8
    line = tag("line", x1=0, x2="100%", y1=middle, y2=middle, class_="rail")
    dots = [
        tag(
            "circle",
            cx=share(axis.scale.share(value)),
            cy=middle + 5 * (index % N_LANES - 1),
            r=4.5,
            class_="dot",
        )
        for index, value in enumerate(group.dots)
    ]
    parts = [_frame(group, axis), line, tag("g", *dots, class_="dots")]
    return _drawing(group, parts, height, identity, description)


def _drawing(
    group: Group, parts: Sequence[str], height: int, identity: str, description: str
) -> str:
    label = f"{identity}-{group.run}"
    return tag(
        "svg",
        tag("desc", text(description), id=label),
        *parts,
        class_=f"rows series {look_class(group.look)}",
        height=height,
        role="img",
        aria_labelledby=label,
        data_run=group.run,
    )


def _frame(group: Group, axis: Axis) -> str:
    """Return a group's name, its number and the scale's lines."""
    name = tag("text", text(group.label), x=0, dx=20 - LEFT, y=26, class_="group-name")
    total = tag(
        "text", text(group.total), x="100%", dx=LAST_COLUMN, y=26, class_="total end"
    )
    key = marker(group.look, str(8 - LEFT), "22")
    ticks = tag("g", *x_ticks(axis, has_text=False), class_="ticks-x")
    return "".join([ticks, key, name, total])


def _rects(bar: Bar, axis: Axis, top: int) -> list[str]:
    up = 1000.0 * axis.scale.share(bar.up)
    rects = [tag("rect", x=0, y=top, width=f"{up:.2f}", height=BAR, class_="up")]
    if bar.down is None:
        rects = [tag("rect", x=0, y=top, width=f"{up:.2f}", height=BAR, class_="alone")]
    elif bar.down:
        down = 1000.0 * axis.scale.share(bar.down)
        place = {"x": f"{up:.2f}", "y": top, "width": f"{down:.2f}", "height": BAR}
        rects.append(tag("rect", class_="down", **place))
    return rects


def _texts(bar: Bar, base: int) -> list[str]:
    parts = [tag("text", text(bar.name), x=0, dx=-8, y=base, class_="row-name end")]
    if bar.down is None:
        between = (FIRST_COLUMN + LAST_COLUMN) // 2 - 18
        return [*parts, _value(bar.up, between, base, "value middle")]
    parts.append(_value(bar.up, FIRST_COLUMN, base, "value end"))
    parts.append(_value(bar.down, LAST_COLUMN, base, "value end"))
    return parts


def _value(value: float, place: int, base: int, style: str) -> str:
    return tag("text", text(brief(value)), x="100%", dx=place, y=base, class_=style)
