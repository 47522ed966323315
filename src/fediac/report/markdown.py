"""The report as Markdown: words and tables, for a pull request or a notebook."""

from collections.abc import Collection, Sequence

from fediac.report.contenders import list_contenders
from fediac.report.figures.phases import bytes_by_phase, time_by_phase
from fediac.report.page import Report
from fediac.report.settings_tables import settings_tables
from fediac.report.summary import cautions, subtitle, summarize, title
from fediac.report.tables import Table, end_table, target_table

_SPECIAL = str.maketrans({each: f"\\{each}" for each in "\\`*_[]<>|#"})


def write_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    words: Collection[int] | None = None,
) -> str:
    """Return a table, without an end of line; its cells are Markdown already.

    Args:
        columns: Their names.
        rows: A cell for each column.
        words: Columns that are not set to the right, as numbers are; None: all.
    """
    places = range(len(columns))
    rules = ["---" if words is None or each in words else "---:" for each in places]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, rules, *rows))


def render_markdown(report: Report) -> str:
    """Return the whole report."""
    contenders = list_contenders(report.runs)
    parts = [
        f"# {_escape(title(contenders))}",
        _escape(subtitle(contenders)),
        _escape(" ".join(summarize(contenders, report.target))),
    ]
    notes = cautions(contenders, report.left_out)
    if notes:
        parts.append("\n".join(f"- {_escape(note)}" for note in notes))
    if report.target is not None:
        parts += _section(target_table(contenders, report.target))
        parts.append(_escape(report.target.origin))
    parts += _section(end_table(contenders))
    for figure in (bytes_by_phase(contenders), time_by_phase(contenders)):
        parts += [f"## {figure.title}", _escape(figure.table.caption)]
        parts.append(_table(figure.table))
    for table in settings_tables(contenders):
        parts += _section(table)
    parts.append(f"Made by fediac {report.version}.")
    return "\n\n".join(parts) + "\n"


def _escape(words: str) -> str:
    return words.translate(_SPECIAL).replace("\n", " ")


def _section(table: Table) -> list[str]:
    return [f"## {_escape(table.caption)}", _table(table)]


def _table(table: Table) -> str:
    rows = [[_escape(cell) for cell in row.cells] for row in table.rows]
    columns = [_escape(name) for name in table.columns]
    return write_table(columns, rows, words=table.words)
