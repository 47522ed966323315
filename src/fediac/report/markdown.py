"""The report as Markdown: words and tables, for a pull request or a notebook."""

from collections.abc import Sequence

from fediac.report.page import Report
from fediac.report.phases import bytes_by_phase, time_by_phase
from fediac.report.settings import settings_tables
from fediac.report.summary import cautions, subtitle, summarize, title
from fediac.report.tables import Table, end_table, target_table

_SPECIAL = str.maketrans({each: f"\\{each}" for each in "\\`*_[]<>|#"})


def render_markdown(report: Report) -> str:
    """Return the whole report."""
    runs = report.runs
    parts = [
        f"# {_escape(title(runs))}",
        _escape(subtitle(runs)),
        _escape(" ".join(summarize(runs, report.target))),
    ]
    notes = cautions(runs, report.left_out)
    if notes:
        parts.append("\n".join(f"- {_escape(note)}" for note in notes))
    if report.target is not None:
        parts += _section(target_table(runs, report.target))
        parts.append(_escape(report.target.origin))
    parts += _section(end_table(runs))
    for figure in (bytes_by_phase(runs), time_by_phase(runs)):
        if figure is not None:
            parts += [f"## {figure.title}", _escape(figure.table.caption)]
            parts.append(_table(figure.table))
    for table in settings_tables(runs):
        parts += _section(table)
    parts.append(f"Made by fediac {report.version}.")
    return "\n\n".join(parts) + "\n"


def _escape(words: str) -> str:
    return words.translate(_SPECIAL).replace("\n", " ")


def _section(table: Table) -> list[str]:
    return [f"## {_escape(table.caption)}", _table(table)]


def _table(table: Table) -> str:
    rules = [
        "---" if index in table.words else "---:" for index in range(len(table.columns))
    ]
    lines = [table.columns, rules, *(row.cells for row in table.rows)]
    return "\n".join(
        _line(cells, is_rule=index == 1) for index, cells in enumerate(lines)
    )


def _line(cells: Sequence[str], *, is_rule: bool) -> str:
    written = cells if is_rule else [_escape(cell) for cell in cells]
    return f"| {' | '.join(written)} |"
