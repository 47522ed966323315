"""The report as CSV: a line for each run and round, every field as it was written."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import to_builtins

from fediac.runs.stored import Run


def render_csv(runs: Sequence[Run]) -> str:
    """Return all rounds of all runs, nested fields as dotted columns.

    Numbers are written as Python writes them, so that reading them back gives the
    same floats. Lists are numbers separated by spaces; a phase is named, not numbered.
    """
    lines = [
        {"run": run.label, "algorithm": run.algorithm, **_flatten(to_builtins(each))}
        for run in runs
        for each in run.rounds
    ]
    columns = list(dict.fromkeys(name for line in lines for name in line))
    output = io.StringIO(newline="")
    writer = csv.DictWriter(output, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return output.getvalue()


def _flatten(record: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in record.items():
        name = f"{path}{key}"
        if isinstance(value, Mapping):
            flat |= _flatten(value, f"{name}.")
        elif isinstance(value, tuple) and key == "phases":
            for phase in value:
                rest = {part: phase[part] for part in phase if part != "name"}
                for part, number in _flatten(rest, f"{path}{phase['name']}.").items():
                    flat[part] = flat.get(part, 0) + number  # a peak has its sum's name
        elif isinstance(value, tuple):
            flat[name] = " ".join(str(each) for each in value)
        else:
            flat[name] = value
    return flat
