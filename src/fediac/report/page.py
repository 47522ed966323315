"""The report as one HTML page that needs nothing else, not even a network."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from fediac.report.figures import Figure, Variant
from fediac.report.finish_times import finish_by_client
from fediac.report.glossary import WORDS
from fediac.report.lines import (
    accuracy_against_mib,
    accuracy_against_time,
    chosen_by_round,
    gamma_by_round,
)
from fediac.report.markup import tag, text
from fediac.report.phases import bytes_by_phase, time_by_phase
from fediac.report.reading import Run
from fediac.report.settings import settings_tables
from fediac.report.summary import (
    cautions,
    headlines,
    subtitle,
    summarize,
    title,
)
from fediac.report.svg import key_swatch, look_class, marker_definitions
from fediac.report.tables import (
    Row,
    Table,
    all_switches,
    end_table,
    target_table,
)
from fediac.report.target import Target

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "img-src data:"
)


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
    runs = report.runs
    figures = _figures(report)
    heading = title(runs)
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("link", rel="icon", href="data:,"),
        tag("title", text(f"{heading} - fediac report")),
        tag("style", _asset("style.css")),
    )
    main = tag(
        "main",
        _summary(report, heading),
        _targets(report),
        _controls(runs),
        tag("section", *map(_figure, figures), class_="figures", aria_label="Charts"),
        _section("end", "Where each run ended", _table(end_table(runs))),
        _section("settings", "Settings", *map(_settings, settings_tables(runs))),
        _words(),
    )
    body = tag(
        "body",
        marker_definitions(),
        main,
        _footer(report),
        _data(runs, figures),
        tag("script", _asset("script.js")),
    )
    page = tag("html", head, body, lang="en")
    return f"<!doctype html>\n{page}\n"


def _asset(name: str) -> str:
    content = files(__package__).joinpath(name).read_text("utf-8")
    return f"\n{content}"


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
    return [each for each in figures if each is not None and each.variants]


def _summary(report: Report, heading: str) -> str:
    sentences = summarize(report.runs, report.target)
    numbers = [
        tag(
            "li",
            tag("b", text(each.number)),
            tag("span", text(each.meaning)),
        )
        for each in headlines(report.runs, report.target)
    ]
    notes = [tag("li", text(each)) for each in cautions(report.runs, report.left_out)]
    return tag(
        "header",
        tag("p", text("fediac report"), class_="kicker"),
        tag("h1", text(heading)),
        tag("p", text(subtitle(report.runs)), class_="subtitle"),
        tag("p", text(" ".join(sentences)), class_="summary", id="summary"),
        tag("ul", *numbers, class_="headlines") if numbers else "",
        tag("ul", *notes, class_="cautions", aria_label="Notes") if notes else "",
    )


def _targets(report: Report) -> str:
    if report.target is None:
        return ""
    table = target_table(report.runs, report.target)
    return _section(
        "target", table.caption, _table(table), tag("p", text(report.target.origin))
    )


def _section(identity: str, heading: str, *parts: str) -> str:
    name = f"{identity}-title"
    return tag(
        "section",
        tag("h2", text(heading), id=name),
        *parts,
        id=identity,
        aria_labelledby=name,
    )


def _controls(runs: Sequence[Run]) -> str:
    keys = [
        tag(
            "button",
            key_swatch(run.look),
            tag("span", text(run.label)),
            type="button",
            class_="key",
            data_toggle=index,
            aria_pressed="true",
        )
        for index, run in enumerate(runs)
    ]
    choices = []
    for name, keys_of in (
        ("switch", all_switches(runs)),
        ("view", ["payload", "wire"]),
    ):
        if len(keys_of) > 1:
            choices.append(_choice(name, keys_of))
    return tag(
        "div",
        tag("div", *keys, class_="legend", role="group", aria_label="Show runs"),
        *choices,
        class_="controls",
    )


def _choice(name: str, keys: Sequence[str]) -> str:
    buttons = [
        tag(
            "button",
            text(key),
            type="button",
            data_choice=name,
            data_key=key,
            aria_pressed="false",
        )
        for key in keys
    ]
    label = "Switch" if name == "switch" else "Traffic counted as"
    return tag(
        "div",
        tag(
            "span",
            text("switch" if name == "switch" else "traffic"),
            class_="choice-name",
        ),
        *buttons,
        class_="choice",
        role="group",
        aria_label=label,
    )


def _figure(figure: Figure) -> str:
    name = f"{figure.identity}-title"
    caption = tag(
        "figcaption",
        tag("h3", text(figure.title), id=name),
        tag("p", text(figure.caption)),
    )
    table = tag(
        "details",
        tag("summary", text("Data table")),
        _table(figure.table),
        class_="data",
    )
    return tag(
        "figure",
        caption,
        *map(_variant, figure.variants),
        table,
        id=figure.identity,
        aria_labelledby=name,
    )


def _variant(variant: Variant) -> str:
    choice = {f"data_{variant.choice}": variant.key} if variant.choice else {}
    name = tag("p", text(variant.name), class_="variant-name") if variant.name else ""
    side = "right" if "series" in variant.data else "left"
    return tag("div", name, variant.body, class_=f"variant {side}", **choice)


def _table(table: Table) -> str:
    head = [
        tag("th", text(name), scope="col", class_=None if index in table.words else "n")
        for index, name in enumerate(table.columns)
    ]
    return tag(
        "div",
        tag(
            "table",
            tag("caption", text(table.caption)),
            tag("thead", tag("tr", *head)),
            tag("tbody", *(_row(row, table.words) for row in table.rows)),
        ),
        class_="scroll",
        tabindex=0,
        role="region",
        aria_label=table.caption,
    )


def _row(row: Row, words: tuple[int, ...]) -> str:
    first, *rest = row.cells
    cells = [tag("th", text(first), scope="row")]
    cells += [
        tag("td", text(cell), class_=None if index in words else "n")
        for index, cell in enumerate(rest, start=1)
    ]
    return tag("tr", *cells, data_run=row.run)


def _settings(table: Table) -> str:
    """Return pairs as a list that fills columns, anything wider as a table."""
    if len(table.columns) > 2:
        return _table(table)
    pairs = (
        tag("dt", text(a)) + tag("dd", text(b))
        for a, b in (r.cells for r in table.rows)
    )
    caption = "" if table.caption == "Settings" else tag("h3", text(table.caption))
    return caption + tag("dl", *(tag("div", each) for each in pairs), class_="pairs")


def _words() -> str:
    items = "".join(
        tag("dt", text(word)) + tag("dd", text(meaning)) for word, meaning in WORDS
    )
    return _section("words", "Words used here", tag("dl", items))


def _footer(report: Report) -> str:
    names = ", ".join(run.label for run in report.runs)
    made = f"Made by fediac {report.version} from the rounds.jsonl of: {names}."
    return tag("footer", tag("p", text(made)))


def _data(runs: Sequence[Run], figures: Sequence[Figure]) -> str:
    charts = {
        each.identity: each.data for figure in figures for each in figure.variants
    }
    content = {
        "runs": [{"label": run.label, "look": look_class(run.look)} for run in runs],
        "charts": charts,
    }
    written = json.dumps(content, allow_nan=False, separators=(",", ":"))
    written = written.replace("<", "\\u003c")
    return tag("script", written, type="application/json", id="report-data")
