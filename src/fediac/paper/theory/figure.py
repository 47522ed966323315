"""The figure of theory against measurement.

A row for each round: sorted magnitudes against the fitted law, then which ranks are
voted for, and which are agreed on. Below, the sums that the paper's bounds are made of.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fediac.paper.figures.style import PAGE_WIDTH, SMALL, add_note
from fediac.paper.theory.stored import (
    Compared,
    Measurement,
    RankBin,
    RoundCheck,
)
from fediac.plan.pictures import (
    GREY,
    ORANGE,
    SKY,
    VERMILION,
    Axes,
    Figure,
    check_plot,
    open_figure,
    save_figure,
)

_TITLE = "Theory against measurement, round by round"
_NOTE = (
    "Ranks are each client's own; shares are means over clients. From the formula to "
    "ranked alike: what the fit of a power law costs. From ranked alike to own ranks: "
    "what it costs that clients find different entries important. From own ranks to "
    "measured: chance, and the formula's bound on the variance of rounding."
)
_FLOOR = 1e-5
"""Shares below this are off the axis."""


class _Look(NamedTuple):
    """How one way to know a number looks, and what it is called."""

    name: str
    label: str
    style: dict[str, Any]


_LOOKS = (
    _Look(
        "law",
        "the paper's formula (power law, ranked alike)",
        {"color": VERMILION, "linestyle": "--"},
    ),
    _Look(
        "alike",
        "real magnitudes, ranked alike",
        {"color": ORANGE, "linestyle": "-."},
    ),
    _Look("own", "real magnitudes, own ranks", {"color": SKY, "linewidth": 3.0}),
    _Look(
        "measured",
        "measured",
        {"color": "#000000", "marker": ".", "markersize": 5, "linewidth": 0.8},
    ),
)


def draw_theory(measurement: Measurement, path: Path) -> None:
    """Draw a measurement.

    Raises:
        ConfigError: The picture cannot be made.
    """
    check_plot(path)
    rounds = measurement.rounds
    height = 3.4 + 1.7 * len(rounds)
    with open_figure(width=PAGE_WIDTH, height=height, text=SMALL) as figure:
        axes = _make_axes(figure, measurement)
        for check in rounds:
            _draw_magnitudes(axes[f"magnitudes {check.round_number}"], check)
            _draw_votes(axes[f"votes {check.round_number}"], check.bins)
            _draw_chosen(axes[f"chosen {check.round_number}"], check.bins)
        _draw_bars(
            axes["chosen"],
            rounds,
            [_scaled(each.chosen, 100.0 / measurement.dim) for each in rounds],
            form="{:.1f}",
        )
        axes["chosen"].set_title("entries agreed on, % of all entries")
        _draw_bars(
            axes["gamma"], rounds, [each.gamma for each in rounds], form="{:.2f}"
        )
        axes["gamma"].set_title("gamma, the relative squared error of compression")
        axes["gamma"].axhline(1.0, color=GREY, linewidth=1.0, linestyle=":")
        _add_legend(figure, axes[f"chosen {rounds[0].round_number}"])
        add_note(figure, f"{_describe(measurement)} {_NOTE}", points=SMALL)
        save_figure(figure, path, title=_TITLE, description=_describe(measurement))


def _make_axes(figure: Figure, measurement: Measurement) -> dict[str, Axes]:
    """Return the empty panels: three in each round's row, two below."""
    kinds = ("magnitudes", "votes", "chosen")
    numbers = [check.round_number for check in measurement.rounds]
    rows = [
        [f"{kind} {number}" for kind in kinds for _ in range(2)] for number in numbers
    ]
    below = ["chosen"] * 3 + ["gamma"] * 3
    heights = [2.5] * len(numbers) + [2.3]
    axes: dict[str, Axes] = figure.subplot_mosaic(
        [*rows, below], gridspec_kw={"height_ratios": heights}
    )
    for number in numbers:
        for kind in kinds:
            panel = axes[f"{kind} {number}"]
            panel.set_xscale("log")
            panel.set_yscale("log")
            panel.set_xlim(0.8, measurement.dim * 1.2)
            panel.minorticks_off()
            # Not as powers, whose exponents would be smaller than other text.
            panel.xaxis.set_major_formatter("{x:,.0f}")
            panel.yaxis.set_major_formatter("{x:g}")
    titles = ("magnitude by rank", "share voted for by a client", "share agreed on")
    for kind, title in zip(kinds, titles, strict=True):
        axes[f"{kind} {numbers[0]}"].set_title(title)
        axes[f"{kind} {numbers[-1]}"].set_xlabel("rank")
    return axes


def _draw_magnitudes(axes: Axes, check: RoundCheck) -> None:
    """Draw sorted magnitudes, the range over clients, and the law fitted to them."""
    seen = [each for each in check.bins if each.lowest > 0.0]
    ranks = [_middle(each) for each in seen]
    axes.fill_between(
        ranks,
        [each.lowest for each in seen],
        [each.highest for each in seen],
        color="#BBBBBB",
        linewidth=0.0,
    )
    styles = {look.name: look.style for look in _LOOKS}
    axes.plot(ranks, [each.magnitude for each in seen], **styles["measured"])
    axes.plot(ranks, [each.fitted for each in seen], **styles["law"])
    axes.set_ylabel(f"round {check.round_number}")
    law = check.law
    # The misfit is a root mean square of logarithms, so it stands for a factor.
    off = math.exp(law.misfit)
    words = f"{law.phi:.2g} l^{law.alpha:.2f}\noff by a factor of {off:.1f}"
    axes.annotate(
        words, (0.05, 0.06), xycoords="axes fraction", color=VERMILION, fontsize=SMALL
    )


def _draw_votes(axes: Axes, bins: Sequence[RankBin]) -> None:
    # Votes depend on a client's own magnitudes only, so alike and own are the same.
    _draw_shares(
        axes,
        [
            Compared(each.voted_law, each.voted_actual, each.voted_actual, each.voted)
            for each in bins
        ],
        bins,
        skips="alike",
    )


def _draw_chosen(axes: Axes, bins: Sequence[RankBin]) -> None:
    _draw_shares(axes, [each.chosen for each in bins], bins)


def _draw_shares(
    axes: Axes, shares: Sequence[Compared], bins: Sequence[RankBin], *, skips: str = ""
) -> None:
    """Draw shares by rank, as they were predicted and measured."""
    ranks = [_middle(each) for each in bins]
    for look in _LOOKS:
        if look.name != skips:
            values = [_positive(getattr(each, look.name)) for each in shares]
            axes.plot(ranks, values, label=look.label, **look.style)
    lowest = min(min(each.law, each.own) for each in shares)
    axes.set_ylim(max(lowest / 3.0, _FLOOR), 1.5)


def _draw_bars(
    axes: Axes, rounds: Sequence[RoundCheck], values: Sequence[Compared], *, form: str
) -> None:
    """Draw one number of every round, as it was predicted and measured."""
    width = 0.2
    for place, look in enumerate(_LOOKS):
        lefts = [index + (place - 1.5) * width for index in range(len(rounds))]
        heights = [getattr(each, look.name) for each in values]
        bars = axes.bar(lefts, heights, 0.9 * width, color=look.style["color"])
        axes.bar_label(bars, fmt=form, fontsize=SMALL, padding=2, rotation=90)
    axes.set_xticks(
        range(len(rounds)), [f"round {each.round_number}" for each in rounds]
    )
    axes.set_xlim(-0.6, len(rounds) - 0.4)
    axes.grid(visible=False, axis="x")
    axes.margins(y=0.25)


def _add_legend(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2)


def _describe(measurement: Measurement) -> str:
    """Return in a sentence what was measured."""
    settings = measurement.settings
    partition: str = settings.data.partition
    if partition == "dirichlet":
        partition = f"dirichlet {settings.data.beta:g}"
    n_clients = measurement.rounds[0].n_clients
    return (
        f"FediAC on {settings.data.name} ({partition}), {settings.model.name}: "
        f"{n_clients} clients vote for {measurement.n_votes:,} of {measurement.dim:,} "
        f"entries each; {measurement.threshold} votes are enough."
    )


def _scaled(values: Compared, factor: float) -> Compared:
    return Compared(
        values.law * factor,
        values.alike * factor,
        values.own * factor,
        values.measured * factor,
    )


def _middle(each: RankBin) -> float:
    return math.sqrt(each.first * each.last)


def _positive(value: float) -> float:
    """Return a share for a log axis; zero has no place there."""
    return value if value > 0.0 else math.nan
