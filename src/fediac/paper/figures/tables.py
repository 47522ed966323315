"""The numbers of the paper's figures as tables, for pages and terminals."""

from collections.abc import Sequence
from dataclasses import dataclass

from fediac.console import FittedTable
from fediac.paper.figures.numbers import Numbers, Row
from fediac.paper.theory.stored import Compared, Measurement
from fediac.report.markdown import write_table


@dataclass(frozen=True, slots=True)
class NumberTable:
    """Cells as they are read; the first ``n_words`` columns are words."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    n_words: int

    def as_markdown(self) -> str:
        """Return it for a page."""
        return write_table(self.headings, self.rows, words=range(self.n_words)) + "\n"

    def as_fitted(self) -> FittedTable:
        """Return it for a terminal."""
        return FittedTable(self.headings, self.rows)


def tabulate_accuracy(numbers: Numbers) -> NumberTable:
    """Return the last round of every line of the accuracy figure.

    Runs that had stopped by then are marked: they would have gone on to learn.
    """
    numbers_of_a_run = ("seeds", "rounds", "s", "accuracy, %", "")
    return NumberTable(
        ("scenario", "switch", "entrant", *numbers_of_a_run),
        [
            (
                row["scenario"],
                row["switch"],
                row["entrant"],
                str(len(row["seeds"])),
                str(row["points"][-1]["round"]) if row["points"] else "0",
                _seconds(row["points"][-1]["time_s"]) if row["points"] else "",
                _spread(row["points"][-1]) if row["points"] else "none in time",
                f"stopped before {row['until_s']:g} s" if row["ends_early"] else "",
            )
            for row in numbers
        ],
        n_words=3,
    )


def tabulate_noniid(numbers: Numbers) -> NumberTable:
    """Return the final accuracies against beta."""
    return NumberTable(
        ("scenario", "switch", "algorithm", "beta", *_FINAL),
        [
            (
                row["scenario"],
                row["switch"],
                row["algorithm"],
                f"{row['beta']:g}",
                *_final(row),
            )
            for row in numbers
        ],
        n_words=3,
    )


def tabulate_scale(numbers: Numbers) -> NumberTable:
    """Return the final accuracies against clients and thresholds."""
    return NumberTable(
        ("scenario", "clients", "threshold", *_FINAL),
        [
            (
                row["scenario"],
                str(row["n_clients"]),
                f"{row['threshold']} ({row['share']:g} %)",
                *_final(row),
            )
            for row in numbers
        ],
        n_words=1,
    )


def tabulate_theory(measurement: Measurement) -> NumberTable:
    """Return what was predicted and measured of every round's sums."""
    rows = []
    for check in measurement.rounds:
        number = str(check.round_number)
        rows.append((number, "entries agreed on", *_compared(check.chosen, ",.0f")))
        rows.append((number, "gamma", *_compared(check.gamma, ".3f")))
    ways = ("the paper's formula", "ranked alike", "own ranks", "measured")
    return NumberTable(("round", "number", *ways), rows, n_words=2)


def _compared(values: Compared, form: str) -> tuple[str, ...]:
    each = (values.law, values.alike, values.own, values.measured)
    return tuple(format(value, form) for value in each)


_FINAL = ("seeds", "s", "rounds", "accuracy, %")


def _final(row: Row) -> tuple[str, ...]:
    rounds = sorted({min(row["rounds"]), max(row["rounds"])})
    accuracy = "none in time" if row["accuracy"] is None else _spread(row)
    n_seeds, within_s = str(len(row["seeds"])), f"{row['within_s']:.4g}"
    return n_seeds, within_s, " to ".join(map(str, rounds)), accuracy


def _seconds(time_s: float) -> str:
    """Return whole seconds, or three digits where there are fewer."""
    return f"{time_s:.0f}" if time_s >= 100.0 else f"{time_s:.3g}"


def _spread(row: Row) -> str:
    mean = f"{100.0 * row['accuracy']:.2f}"
    if row["lowest"] == row["highest"]:
        return mean
    return f"{mean} ({100.0 * row['lowest']:.2f} to {100.0 * row['highest']:.2f})"
