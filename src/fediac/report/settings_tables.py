"""The settings of the runs: what they share once, what differs side by side."""

from collections.abc import Sequence

from fediac.number_words import NOTHING
from fediac.report.contenders import Contender
from fediac.report.differences import flat_settings
from fediac.report.tables import Row, Table
from fediac.runs.settings import list_differing


def settings_tables(contenders: Sequence[Contender]) -> list[Table]:
    """Return the settings as one or two tables: shared ones, and differing ones.

    Where seeds differ, they are named; all else is of the first.
    """
    flat = [
        flat_settings(each.runs[0])
        | {"seed": ", ".join(str(run.seed) for run in each.runs)}
        for each in contenders
    ]
    names = list(dict.fromkeys(name for each in flat for name in each))
    if len(flat) > 1 and all(each.label == each.algorithm for each in contenders):
        names.remove("algorithm")
    differ = set(list_differing(flat))
    shared = [name for name in names if name not in differ]
    tables = []
    if shared:
        caption = "Settings" if len(flat) == 1 else "Settings all runs share"
        rows = tuple(Row((name, flat[0][name])) for name in shared)
        tables.append(Table(caption, ("setting", "value"), rows, words=(0, 1)))
    if len(shared) < len(names):
        rows = tuple(
            Row((name, *(each.get(name, NOTHING) for each in flat)))
            for name in names
            if name in differ
        )
        columns = ("setting", *(each.label for each in contenders))
        words = tuple(range(len(columns)))
        tables.append(Table("Settings that differ", columns, rows, words))
    return tables
