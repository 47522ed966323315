"""The settings of the runs: what they share once, what differs side by side."""

from collections.abc import Sequence

from fediac.number_words import NOTHING
from fediac.report.differences import flat_settings
from fediac.report.tables import Row, Table
from fediac.runs.settings import list_differing
from fediac.runs.stored import Run


def settings_tables(runs: Sequence[Run]) -> list[Table]:
    """Return the settings as one or two tables: shared ones, and differing ones."""
    flat = [flat_settings(run) for run in runs]
    names = list(dict.fromkeys(name for each in flat for name in each))
    if len(runs) > 1 and all(run.label == run.algorithm for run in runs):
        names.remove("algorithm")
    differ = set(list_differing(flat))
    shared = [name for name in names if name not in differ]
    tables = []
    if shared:
        caption = "Settings" if len(runs) == 1 else "Settings all runs share"
        rows = tuple(Row((name, flat[0][name])) for name in shared)
        tables.append(Table(caption, ("setting", "value"), rows, words=(0, 1)))
    if len(shared) < len(names):
        rows = tuple(
            Row((name, *(each.get(name, NOTHING) for each in flat)))
            for name in names
            if name in differ
        )
        columns = ("setting", *(run.label for run in runs))
        words = tuple(range(len(columns)))
        tables.append(Table("Settings that differ", columns, rows, words))
    return tables
