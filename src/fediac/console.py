"""How results are shown: as text for people, as JSON for programs."""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from rich.console import Console, ConsoleOptions
from rich.table import Table

FAILED = 1
"""The exit code when one algorithm failed; the others are shown nevertheless."""

_WIDE = 200
"""Width of the output where it is not known."""


def open_console() -> Console:
    """Return a console on standard output: plain text unless that is a terminal.

    A pipe has no width, unless ``COLUMNS`` gives it one: its lines are as long as they
    need to be.
    """
    has_width = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(
        width=None if has_width else _WIDE,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=not has_width,
    )


Rows = Sequence[Sequence[str]]

_BOXED = 3
"""What a column takes beside its text in a table with lines."""


@dataclass(frozen=True, slots=True)
class FittedTable:
    """A table that is never cut off, even in a narrow terminal.

    It is drawn with lines if there is room; else without, its headings folded; else
    turned, a row for each heading, if that is shorter; else with cells folded at
    spaces, so that a long table keeps its columns; else as one line for each cell.

    Attributes:
        headings: The first is of the names on the left, the others of numbers.
        rows: As many cells each.
        has_lines: Whether lines are wanted at all.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    has_lines: bool = True

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[Table]:
        """Yield the first layout that fits."""
        for headings, rows, gap, folds_cells in self._layouts():
            is_boxed = gap == _BOXED
            borders = 1 if is_boxed else -gap
            room = options.max_width - gap * len(headings) - borders
            widths = _column_widths(headings, rows, folds=not is_boxed)
            if folds_cells:
                widths = _narrow(widths, headings, rows, room)
            if sum(widths) <= room:
                table = Table() if is_boxed else _plain_table(gap)
                yield _fill(table, headings, rows, widths)
                return
        yield self._cells()

    def _layouts(self) -> Iterator[tuple[Sequence[str], Rows, int, bool]]:
        """Yield headings, rows, the gap between columns, and whether cells fold."""
        if self.has_lines:
            yield self.headings, self.rows, _BOXED, False
        for gap in (2, 1):
            yield self.headings, self.rows, gap, False
        first, *others = zip(self.headings, *self.rows, strict=True)
        if len(self.rows) <= len(self.headings):
            for gap in (2, 1):
                yield first, others, gap, False
        for gap in (2, 1):
            yield self.headings, self.rows, gap, True

    def _cells(self) -> Table:
        table = _plain_table(2, has_header=False)
        table.add_column(overflow="fold")
        table.add_column(overflow="fold")
        for row in self.rows:
            for heading, cell in zip(self.headings, row, strict=True):
                table.add_row(heading, cell)
            table.add_row()
        return table


def _plain_table(gap: int, *, has_header: bool = True) -> Table:
    return Table(
        box=None, pad_edge=False, padding=(0, gap, 0, 0), show_header=has_header
    )


def _column_widths(
    headings: Sequence[str], rows: Sequence[Sequence[str]], *, folds: bool
) -> list[int]:
    """Return how wide columns must be if only headings may be folded, at spaces."""
    return [
        max(map(len, [*cells, *(heading.split() if folds else [heading])]))
        for heading, *cells in zip(headings, *rows, strict=True)
    ]


def _narrow(
    widths: Sequence[int], headings: Sequence[str], rows: Rows, room: int
) -> list[int]:
    """Return widths that fit, or the least that no word is cut by: the widest yield."""
    least = [
        max(len(word) for cell in column for word in cell.split() or [""])
        for column in zip(headings, *rows, strict=True)
    ]
    narrowed = list(widths)
    while sum(narrowed) > room:
        able = [each for each in range(len(least)) if narrowed[each] > least[each]]
        if not able:
            break
        narrowed[max(able, key=narrowed.__getitem__)] -= 1
    return narrowed


def _fill(
    table: Table,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    widths: Sequence[int],
) -> Table:
    for place, (heading, width) in enumerate(zip(headings, widths, strict=True)):
        justify: Literal["left", "right"] = "right" if place else "left"
        table.add_column(heading, justify=justify, width=width, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def own_version() -> str:
    """Return the version of this package; it has none if it is not installed."""
    try:
        return version("fediac")
    except PackageNotFoundError:
        return "source"


def write_json(document: Mapping[str, Any]) -> None:
    """Write one JSON document to standard output, and nothing else."""
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")


def say_written(path: Path) -> None:
    """Say where a file was written, on standard error."""
    sys.stderr.write(f"wrote {path}\n")


def count(number: int, noun: str) -> str:
    """Return a number of things in words: ``1 run``, ``3,000 runs``.

    Errors have `fediac.errors.say_count`: what they got can be pasted back.
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
