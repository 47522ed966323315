"""The paper's figures, drawn from stored runs.

Every function also writes the numbers it drew as JSON beside the picture.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fediac.errors import RunError
from fediac.paper.entrants import ON_UNEVEN_DATA
from fediac.paper.figures.names import line_label
from fediac.paper.figures.numbers import (
    Numbers,
    accuracy_numbers,
    noniid_numbers,
    scale_numbers,
)
from fediac.paper.figures.panels import (
    add_legend,
    describe_finals,
    describe_lines,
    draw_finals,
    draw_lines,
    set_ticks,
)
from fediac.paper.figures.style import (
    PAGE_WIDTH,
    SMALL,
    add_note,
    line_style,
    save_with_numbers,
)
from fediac.paper.published import FIGURE_S
from fediac.paper.scenarios import find_title
from fediac.plan.pictures import (
    BLUE,
    GREEN,
    ORANGE,
    VERMILION,
    Axes,
    check_plot,
    open_figure,
)
from fediac.runs.stored import Run

_SIZES = (
    (BLUE, "o"),
    (ORANGE, "D"),
    (GREEN, "^"),
    (VERMILION, "s"),
    ("#000000", "v"),
)
"""Colour and marker of each number of clients, the smallest first."""


def draw_accuracy(runs: Sequence[Run], path: Path, *, until_s: float) -> Numbers:
    """Draw accuracy against simulated time; return the numbers drawn.

    A panel for each scenario, all in one row as wide as a page, with the clock of the
    first switch; the note says how far that of others is from it. Of several seeds the
    mean is drawn, in a band of their range.

    Args:
        runs: Others than the entrants of the comparison are left out.
        path: Ends in ``.svg``, ``.png`` or ``.pdf``.
        until_s: Where the axis ends.

    Raises:
        ConfigError, RunError: The picture cannot be made, or there is nothing to show.
    """
    check_plot(path)
    numbers = _check_some(accuracy_numbers(runs, until_s=until_s), path)
    scenarios = _values(numbers, "scenario")
    with open_figure(width=PAGE_WIDTH, height=3.3, text=SMALL) as figure:
        row = figure.subplots(1, len(scenarios), squeeze=False)[0]
        for panel, name in zip(row, scenarios, strict=True):
            inside = _select(numbers, scenario=name)
            drawn = _select(inside, switch=inside[0]["switch"])
            draw_lines(panel, drawn, until_s=until_s)
            panel.set_title(find_title(name).replace(", ", ",\n", 1))
        row[0].set_ylabel("test accuracy, %")
        row[len(row) // 2].set_xlabel("simulated time, s")
        add_legend(figure, row)
        add_note(figure, describe_lines(numbers), points=SMALL)
        save_with_numbers(
            figure, path, numbers, title="Test accuracy against simulated time"
        )
    return numbers


def draw_noniid(
    runs: Sequence[Run], path: Path, *, until_s: float = FIGURE_S
) -> Numbers:
    """Draw final accuracy against beta, a panel for each switch; return the numbers.

    Args:
        runs: FediAC's and libra's on Dirichlet partitions count, one for each
            scenario, beta and seed.
        path: Ends in ``.svg``, ``.png`` or ``.pdf``.
        until_s: When final is; earlier if some run ends earlier, for all then.

    Raises:
        ConfigError, RunError: The picture cannot be made, there is nothing to show, or
            two runs would be the same point.
    """
    check_plot(path)
    numbers = _check_some(noniid_numbers(runs, until_s=until_s), path)
    scenarios, switches = _values(numbers, "scenario"), _values(numbers, "switch")
    shape = (len(scenarios), len(switches))
    with open_figure(**_size(shape, (3.2, 2.9))) as figure:
        axes = figure.subplots(*shape, squeeze=False, sharey="row")
        places = [(name, switch) for name in scenarios for switch in switches]
        for panel, (scenario, switch) in zip(axes.flat, places, strict=True):
            inside = _select(numbers, scenario=scenario, switch=switch)
            for name in reversed(ON_UNEVEN_DATA):  # FediAC on top
                rows = _select(inside, algorithm=name)
                draw_finals(panel, rows, "beta", line_label(name), line_style(name))
            panel.set_xscale("log")
            set_ticks(panel, sorted(_values(numbers, "beta")))
            title = find_title(scenario)
            panel.set_title(f"{title}: {switch} switch, {_when(inside)}")
        _label_below(axes[-1], "beta of the Dirichlet partition")
        for panel in axes[:, 0]:
            panel.set_ylabel("final test accuracy, %")
        add_legend(figure, axes.flat)
        add_note(figure, describe_finals(numbers, until_s=until_s))
        save_with_numbers(
            figure, path, numbers, title="Final test accuracy against beta"
        )
    return numbers


def draw_scale(
    runs: Sequence[Run], path: Path, *, until_s: float = FIGURE_S
) -> Numbers:
    """Draw final accuracy against the threshold, a line for each number of clients.

    Args:
        runs: FediAC's count, one for each scenario, number of clients, threshold and
            seed.
        path: Ends in ``.svg``, ``.png`` or ``.pdf``.
        until_s: When final is; earlier if some run ends earlier, for all then.

    Returns:
        The numbers drawn.

    Raises:
        ConfigError, RunError: The picture cannot be made, there is nothing to show, or
            two runs would be the same point.
    """
    check_plot(path)
    numbers = _check_some(scale_numbers(runs, until_s=until_s), path)
    scenarios = _values(numbers, "scenario")
    with open_figure(**_size((1, len(scenarios)), (3.2, 2.9))) as figure:
        axes = figure.subplots(1, len(scenarios), squeeze=False, sharey=True)
        for panel, name in zip(axes.flat, scenarios, strict=True):
            _draw_sizes(panel, _select(numbers, scenario=name))
            panel.set_title(f"{find_title(name)}, {_when(numbers)}")
        _label_below(axes[-1], "threshold, % of the clients, rounded up")
        axes[0, 0].set_ylabel("final test accuracy, %")
        add_legend(figure, axes.flat)
        add_note(figure, describe_finals(numbers, until_s=until_s))
        save_with_numbers(
            figure, path, numbers, title="Final test accuracy against the threshold"
        )
    return numbers


def _draw_sizes(panel: Axes, numbers: Numbers) -> None:
    for place, n_clients in enumerate(sorted(_values(numbers, "n_clients"))):
        rows = _select(numbers, n_clients=n_clients)
        colour, marker = _SIZES[place % len(_SIZES)]
        style = {"color": colour, "marker": marker, "linewidth": 1.8}
        draw_finals(panel, rows, "share", f"{n_clients} clients", style)
    set_ticks(panel, sorted(_values(numbers, "share")))


def _check_some(numbers: Numbers, path: Path) -> Numbers:
    if not numbers:
        raise RunError(f"{path}: there are no runs that this figure shows")
    return numbers


def _when(numbers: Numbers) -> str:
    within_s: float = numbers[0]["within_s"]
    return f"after {within_s:,.0f} s" if within_s >= 10.0 else f"after {within_s:.2g} s"


def _values(numbers: Numbers, name: str) -> list[Any]:
    """Return the values of a column, each once, in the order of the rows."""
    return list(dict.fromkeys(row[name] for row in numbers))


def _select(numbers: Numbers, **wanted: object) -> Numbers:
    return [row for row in numbers if wanted.items() <= row.items()]


def _size(shape: tuple[int, int], panel: tuple[float, float]) -> dict[str, float]:
    """Return a figure's inches; even one panel leaves room for the legend.

    Two panels are a page wide, so that no text gets smaller in print.
    """
    width = max(0.6 + panel[0] * shape[1], 6.0)
    return {"width": width, "height": 1.0 + panel[1] * shape[0]}


def _label_below(panels: Sequence[Axes], label: str) -> None:
    for panel in panels:
        panel.set_xlabel(label)
