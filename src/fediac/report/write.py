"""``fediac report``: read runs, choose a target, write one file."""

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from fediac.console import count, own_version, write_json
from fediac.core.shares import parse_portion
from fediac.errors import ConfigError, RunError
from fediac.files import write_whole
from fediac.number_words import whole
from fediac.report.contenders import list_contenders
from fediac.report.csv_file import render_csv
from fediac.report.document import as_document
from fediac.report.markdown import render_markdown
from fediac.report.page import Report, render_page
from fediac.report.reading import read_runs
from fediac.report.summary import cautions
from fediac.report.target import choose_target
from fediac.runs.records import CONFIG, ROUNDS, SUMMARY


class Format(StrEnum):
    """What a report is written as; its value is also the file's suffix."""

    HTML = "html"
    MD = "md"
    CSV = "csv"


def parse_format(text: str) -> Format:
    """Return the format that ``--format`` names."""
    if text not in list(Format):
        raise ConfigError(f"--format must be {' or '.join(Format)}, got {text!r}")
    return Format(text)


def write_report(
    paths: Sequence[Path],
    *,
    output: Path | None,
    kind: Format | None,
    target: str | None,
    as_json: bool = False,
) -> None:
    """Write a report on the runs in ``paths`` and say so on standard error.

    Args:
        paths: Folders of runs, or folders that hold them; see `read_runs`.
        output: The file; ``-`` is standard output, None is ``report.html`` or the like.
        kind: The format; None: by the file's suffix, HTML if it has none.
        target: The accuracy to compare at, as a person writes it; None: the runs' own.
        as_json: Say so in a JSON document on standard output instead, with the
            report's numbers.
    """
    if as_json and str(output) == "-":
        raise ValueError("--json says where the report is: give -o a file, not -")
    kind = kind or _kind_of(output)
    output = output or Path(f"report.{kind.value}")
    asked = None if target is None else parse_portion(target, name="--target")
    runs, left_out = read_runs(paths)
    goal = choose_target(runs, asked)
    report = Report(runs, goal, left_out, own_version())
    content = _render(report, kind)
    if str(output) == "-":
        sys.stdout.write(content)
        return
    _write(output, content)
    contenders = list_contenders(runs)
    notes = cautions(contenders, left_out)
    if as_json:
        document = as_document(contenders, goal)
        write_json({"output": str(output), "notes": notes, **document})
        return
    size = whole(len(content.encode()) / 1024)
    lines = [f"{output}: {count(len(runs), 'run')}, {size} KiB"]
    lines += [f"note: {note}" for note in notes]
    sys.stderr.write("\n".join(lines) + "\n")


def _kind_of(output: Path | None) -> Format:
    suffix = "" if output is None else output.suffix.lower().lstrip(".")
    if suffix and suffix not in list(Format):
        endings = " or ".join(f".{each}" for each in Format)
        raise ConfigError(
            f"{output}: a report must end in {endings}; or say which with --format"
        )
    return Format(suffix) if suffix else Format.HTML


def _render(report: Report, kind: Format) -> str:
    if kind is Format.CSV:
        return render_csv(report.runs)
    return render_page(report) if kind is Format.HTML else render_markdown(report)


def _write(path: Path, content: str) -> None:
    if path.name in (ROUNDS, CONFIG, SUMMARY):
        raise ConfigError(f"{path}: a report must not take the name of a run's file")
    try:
        # Names of folders may be no text; what cannot be written is shown as it is.
        write_whole(path, content.encode("utf-8", errors="backslashreplace"))
    except OSError as error:
        raise RunError(f"{path}: cannot be written ({error.strerror})") from None
