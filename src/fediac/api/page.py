"""A report as a notebook shows it: the page itself, in a frame of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

from fediac.report.write import write_report
from fediac.runs.loop import FinishedRun

HEIGHT = 720
"""Pixels of the frame."""


@dataclass(frozen=True, slots=True)
class Page:
    """A report that was written; a notebook shows it where it is the last value.

    Attributes:
        path: The file.
    """

    path: Path

    def _repr_html_(self) -> str:
        """Return the page in a frame, so that its style stays inside."""
        text = self.path.read_text(encoding="utf-8")
        if self.path.suffix.lower() != ".html":
            return f"<pre>{escape(text)}</pre>"
        return (
            f'<iframe srcdoc="{escape(text)}" width="100%" height="{HEIGHT}" '
            'style="border:0" title="report"></iframe>'
        )


def report_folders(folders: Sequence[Path], path: Path) -> Page:
    """Write a report on runs in their folders, in the format of the file's suffix."""
    write_report(folders, output=path, kind=None, target=None)
    return Page(path)


def report_finished(runs: Mapping[str, FinishedRun], path: Path) -> Page:
    """Write a report on runs that are in no folder, by their names."""
    with TemporaryDirectory() as temporary:
        folders = [Path(temporary) / name for name in runs]
        for folder, run in zip(folders, runs.values(), strict=True):
            run.write(folder)
        return report_folders(folders, path)
