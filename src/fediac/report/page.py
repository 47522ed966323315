"""The report as one HTML page that needs nothing else, not even a network."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from fediac.number_words import brief
from fediac.palette import DARK, LIGHT
from fediac.report.clocks import list_clocks
from fediac.report.contenders import Contender, list_contenders, name_metric
from fediac.report.figures.charts import (
    MARKERS,
    Point,
    Series,
    dash,
    look_class,
    marker,
)
from fediac.report.figures.cost_chart import choose_shown, cost_figure
from fediac.report.figures.figure import Figure
from fediac.report.figures.finish_times import finish_by_client
from fediac.report.figures.lines import (
    accuracy_against_mib,
    accuracy_against_time,
    chosen_by_round,
    gamma_by_round,
)
from fediac.report.figures.phases import bytes_by_phase, time_by_phase
from fediac.report.settings_tables import settings_tables
from fediac.report.summary import (
    cautions,
    say_missing,
    subtitle,
    summarize,
    title,
)
from fediac.report.tables import end_table, target_table
from fediac.report.target import Target
from fediac.report.verdict import judge
from fediac.runs.records import VIEWS
from fediac.runs.stored import Run

_UNIT = re.compile(r"(?<=[0-9]) (?=(?:%|MiB|s|\u00d7)(?:\W|$))")

_SCRIPTS = ("numbers.js", "charts.js", "tables.js", "page.js")
"""In this order, as one script."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a report is made of.

    Attributes:
        left_out: Notes on runs that are not in it.
        version: The package's version.
    """

    runs: Sequence[Run]
    target: Target | None
    left_out: Sequence[str]
    version: str


@dataclass(frozen=True, slots=True)
class Group:
    """Figures that stand together; those that few ask for are folded away.

    Attributes:
        heading: What opens it; empty where it is always open.
    """

    identity: str
    heading: str
    figures: tuple[Figure, ...]


def render_page(report: Report) -> str:
    """Return the whole page."""
    contenders, target = list_contenders(report.runs), report.target
    shown = choose_shown(contenders, target)
    first = cost_figure(contenders, target) if target else None
    groups = _groups(contenders, target)
    drawn = [figure for group in groups for figure in group.figures]
    verdicts = judge(contenders, target) if target else []
    words = say_missing(contenders, target) if target and verdicts else None
    return (
        _templates()
        .get_template("page.html")
        .render(
            title=title(contenders),
            subtitle=subtitle(contenders),
            verdicts=verdicts,
            summary=" ".join(summarize(contenders, target) if words is None else words),
            cautions=cautions(contenders, report.left_out),
            target=target,
            metric=name_metric(contenders),
            targets=target_table(contenders, target) if target else None,
            contenders=contenders,
            runs=report.runs,
            shown=shown,
            clocks=[clock.name for clock in list_clocks(contenders)],
            views=VIEWS,
            first=first,
            groups=groups,
            ends=end_table(contenders),
            settings=settings_tables(contenders),
            version=report.version,
            data=_data(contenders, [first, *drawn] if first else drawn),
            style=_style(),
            script="\n".join(map(_asset, _SCRIPTS)),
        )
    )


def _data(contenders: Sequence[Contender], figures: Sequence[Figure]) -> dict[str, Any]:
    """Return what the page's script needs to know."""
    variants = [each for figure in figures for each in figure.variants]
    looks = [
        {"label": each.label, "look": look_class(each.look)} for each in contenders
    ]
    charts = {each.identity: each.chart.data() for each in variants}
    return {"contenders": looks, "charts": charts}


def _groups(contenders: Sequence[Contender], target: Target | None) -> list[Group]:
    return [
        Group(
            "accuracy",
            "",
            (
                accuracy_against_time(contenders, target),
                accuracy_against_mib(contenders, target),
            ),
        ),
        Group(
            "rounds",
            "Entries and errors, round by round",
            (chosen_by_round(contenders), gamma_by_round(contenders)),
        ),
        Group(
            "phases",
            "Where bytes and seconds go: phases of a round",
            (bytes_by_phase(contenders), time_by_phase(contenders)),
        ),
        Group(
            "clients",
            "When each client finishes a round",
            (finish_by_client(contenders),),
        ),
    ]


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("fediac.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_keep_units,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals["MARKERS"] = MARKERS
    environment.filters.update(
        brief=brief,
        dash=dash,
        faint_first=_faint_first,
        look_class=look_class,
        marker=marker,
        share=_share,
    )
    environment.policies["json.dumps_kwargs"] = {
        "allow_nan": False,
        "separators": (",", ":"),
    }
    return environment


def _keep_units(value: object) -> object:
    """Return words with numbers and their units on one line; markup as it is."""
    return _UNIT.sub("\u00a0", value) if type(value) is str else value


def _faint_first(
    drawn: Sequence[Series] | Sequence[Point], shown: Collection[int]
) -> list[tuple[int, Series | Point]]:
    """Return what is to be drawn with its number; those in colour last, so on top."""
    return sorted(enumerate(drawn), key=lambda each: each[1].contender in shown)


def _share(value: float) -> str:
    """Return a share of 1 as a length of SVG."""
    return f"{round(100.0 * value, 3):g}%"


def _style() -> str:
    """Return the page's looks, with the colours of algorithms before them."""
    light, dark = (_variables(colours) for colours in (LIGHT, DARK))
    classes = "".join(
        f".look-{number} {{ --look: var(--look-{number}); }}\n"
        for number in range(len(LIGHT))
    )
    return (
        f":root {{{light}}}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{{dark}}} }}\n"
        f"{classes}{_asset('style.css')}"
    )


def _variables(colours: Sequence[str]) -> str:
    parts = [f" --look-{place}: {colour};" for place, colour in enumerate(colours)]
    return "".join(parts) + " "


def _asset(name: str) -> str:
    return files(__package__).joinpath("templates", name).read_text("utf-8")
