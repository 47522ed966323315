"""The report as one HTML page that needs nothing else, not even a network."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined

from fediac.number_words import brief
from fediac.report.charts import MARKERS, dash, look_class, marker
from fediac.report.figures import Figure
from fediac.report.finish_times import finish_by_client
from fediac.report.lines import (
    accuracy_against_mib,
    accuracy_against_time,
    chosen_by_round,
    gamma_by_round,
)
from fediac.report.phases import bytes_by_phase, time_by_phase
from fediac.report.settings_tables import settings_tables
from fediac.report.summary import (
    cautions,
    headlines,
    subtitle,
    summarize,
    title,
)
from fediac.report.tables import all_switches, end_table, target_table
from fediac.report.target import Target
from fediac.runs.records import VIEWS
from fediac.runs.stored import Run

_UNIT = re.compile(r"(?<=[0-9]) (?=(?:%|MiB|s|\u00d7)(?:\W|$))")


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


def render_page(report: Report) -> str:
    """Return the whole page."""
    runs, target = report.runs, report.target
    figures = _figures(report)
    charts = {each.identity: each.chart for one in figures for each in one.variants}
    looks = [{"label": run.label, "look": look_class(run.look)} for run in runs]
    page = _templates().get_template("page.html")
    return page.render(
        title=title(runs),
        subtitle=subtitle(runs),
        summary=" ".join(summarize(runs, target)),
        headlines=headlines(runs, target),
        cautions=cautions(runs, report.left_out),
        target=target,
        targets=target_table(runs, target) if target else None,
        runs=runs,
        switches=all_switches(runs),
        views=VIEWS,
        figures=figures,
        ends=end_table(runs),
        settings=settings_tables(runs),
        version=report.version,
        data={
            "runs": looks,
            "charts": {name: chart.data() for name, chart in charts.items()},
        },
        style=_asset("style.css"),
        script=_asset("script.js"),
    )


def _figures(report: Report) -> list[Figure]:
    runs, target = report.runs, report.target
    figures = (
        accuracy_against_time(runs, target),
        accuracy_against_mib(runs, target),
        bytes_by_phase(runs),
        time_by_phase(runs),
        chosen_by_round(runs),
        gamma_by_round(runs),
        finish_by_client(runs),
    )
    return list(figures)


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
        brief=brief, dash=dash, look_class=look_class, marker=marker, share=_share
    )
    environment.policies["json.dumps_kwargs"] = {
        "allow_nan": False,
        "separators": (",", ":"),
    }
    return environment


def _keep_units(value: object) -> object:
    """Return words with numbers and their units on one line; markup as it is."""
    return _UNIT.sub("\u00a0", value) if type(value) is str else value


def _share(value: float) -> str:
    """Return a share of 1 as a length of SVG."""
    return f"{round(100.0 * value, 3):g}%"


def _asset(name: str) -> str:
    return files(__package__).joinpath("templates", name).read_text("utf-8")
