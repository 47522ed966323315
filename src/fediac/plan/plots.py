"""Pictures: a simulated round, and round times against model sizes."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fediac.compressors import CATALOG
from fediac.compressors.forecast import needs_no_switch
from fediac.palette import LIGHT
from fediac.plan.pictures import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    SKY,
    VERMILION,
    Axes,
    open_figure,
    save_figure,
)
from fediac.sim import RoundTiming

Values: TypeAlias = NDArray[Any]

Times: TypeAlias = Mapping[str, Sequence[tuple[int, float]]]
"""Algorithm -> (entries of the model, seconds of a round)."""

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")

SERVED = {name for name in CATALOG if needs_no_switch(CATALOG[name](1), dim=1000)}
"""Algorithms that use a server, no switch: their lines are dashed."""

LINES = {
    name: (colour, marker, "--" if name in SERVED else "-")
    for name, colour, marker in zip(
        CATALOG, cycle(LIGHT), cycle(_MARKERS), strict=False
    )
}
"""Colour, marker and line of each algorithm, as in reports."""

_LABEL_SHARE = 0.045
"""Height of a label, relative to the axes."""


def plot_round(timing: RoundTiming, *, path: Path, title: str) -> None:
    """Draw packets waiting, switch utilization, slots, and each client's finish."""
    n_rows = min(len(timing.clients), 40)
    with open_figure(width=8.5, height=6.3 + 0.16 * n_rows) as figure:
        heights = [1.0, 1.0, 1.0, 0.9 + 0.09 * n_rows]
        axes = figure.subplots(4, 1, sharex=True, height_ratios=heights)
        figure.suptitle(f"{title}\nbottleneck: {timing.bottleneck}", fontsize=10)
        series = timing.series
        edges = series.bin_s * np.arange(len(series.waiting) + 1)
        edges[-1] = min(edges[-1], timing.round_s)
        _draw_steps(axes[0], edges, series.waiting, BLUE)
        axes[0].set_ylabel("packets\nwaiting")
        _draw_steps(axes[1], edges, 100.0 * series.utilization, GREEN)
        axes[1].set_ylabel("switch\nbusy, %")
        _draw_steps(axes[2], edges, series.open_slots, VERMILION)
        axes[2].set_ylabel("slots\nin use")
        for counts in (axes[0], axes[2]):
            counts.yaxis.get_major_locator().set_params(integer=True)
        _draw_clients(axes[3], timing)
        axes[3].set_xlabel("seconds since the round began")
        axes[3].set_xlim(0.0, timing.round_s * 1.01)
        shown = (
            "Packets waiting, how busy the switch is, slots in use, and when each "
            "client finishes, in seconds since the round began. Bottleneck: "
            f"{timing.bottleneck}."
        )
        save_figure(figure, path, title=title, description=shown)


def plot_sizes(times: Times, *, path: Path, title: str, note: str) -> None:
    """Draw round time against model size, one line per algorithm."""
    with open_figure(width=8.0, height=5.2) as figure:
        axes = figure.subplots()
        for name, points in times.items():
            colour, marker, line = LINES.get(name, (GREY, ".", ":"))
            sizes, seconds = zip(*points, strict=True)
            style = {"color": colour, "marker": marker, "linestyle": line}
            axes.loglog(sizes, seconds, label=name, markersize=5, **style)
        _label_ends(axes, times)
        axes.set_xlabel("parameters of the model")
        axes.set_ylabel("seconds a round")
        figure.suptitle(title, fontsize=10)
        axes.set_title(note, fontsize=8, color=GREY)
        axes.legend(loc="upper left")
        axes.grid(visible=True, which="major")
        shown = f"Seconds a round against the model's parameters; {note}."
        save_figure(figure, path, title=title, description=shown)


def _draw_steps(axes: Axes, edges: Values, values: Values, colour: str) -> None:
    axes.stairs(values, edges, color=colour, fill=True, alpha=0.85, linewidth=0)
    axes.stairs(values, edges, color=colour, linewidth=0.8)
    axes.set_ylim(bottom=0.0)


def _draw_clients(axes: Axes, timing: RoundTiming) -> None:
    """Draw when each client trained, sent, and had all answers."""
    numbers = [each.client for each in timing.clients]
    compute = np.array([each.compute_s for each in timing.clients])
    uplink = np.array([each.uplink_s for each in timing.clients])
    finish = np.array([each.finish_s for each in timing.clients])
    bar = {"height": 0.8, "linewidth": 0}
    axes.barh(numbers, finish, color="#E4E4E4", label="waiting, receiving", **bar)
    axes.barh(numbers, compute, color=ORANGE, label="local compute", **bar)
    axes.barh(
        numbers, uplink, left=compute, color=SKY, label="sending, all steps", **bar
    )
    axes.plot(finish, numbers, "|", color="black", markersize=8, label="finish")
    axes.set_ylabel("client")
    axes.set_ylim(max(numbers) + 0.7, min(numbers) - 0.7)
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.grid(visible=False, axis="y")
    axes.figure.legend(loc="outside lower center", ncols=4)


def _label_ends(axes: Axes, times: Times) -> None:
    """Write each algorithm's last time next to its line, without overlaps."""
    axes.autoscale_view()  # fixes the limits, which the transformation depends on
    to_share = axes.transData + axes.transAxes.inverted()
    ends = sorted(
        (points[-1][1], points[-1][0], name) for name, points in times.items()
    )
    lowest = 0.0
    for place, (seconds, size, name) in enumerate(ends):
        # As high as the line ends, but above the label before and below the rest.
        highest = 1.0 - _LABEL_SHARE * (len(ends) - 1 - place)
        height = float(to_share.transform((size, seconds))[1])
        height = min(max(height, lowest), highest)
        lowest = height + _LABEL_SHARE
        axes.annotate(
            f"{name} {_duration(seconds)}",
            (1.01, height),
            xycoords="axes fraction",
            va="center",
            fontsize=9,
            color=LINES.get(name, (GREY, ".", ":"))[0],
            annotation_clip=False,
        )


def _duration(seconds: float) -> str:
    if seconds < 120.0:
        return f"{seconds:.3g} s"
    return (
        f"{seconds / 60.0:.3g} min" if seconds < 7200.0 else f"{seconds / 3600:.3g} h"
    )
