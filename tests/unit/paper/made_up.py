"""Made-up runs for tests of figures and tables. Nothing here was measured."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from fediac.runs.records import Round, decode
from fediac.runs.settings import RunSettings, as_document
from fediac.runs.stored import Run
from tests.runs import first_line


def make_run(
    accuracies: Sequence[float],
    *,
    scenario: str = "cifar10-iid",
    entrant: str = "fediac",
    seed: int = 1,
    round_s: float = 10.0,
    round_mib: float = 100.0,
    **tables: dict[str, Any],
) -> Run:
    """Return a run whose rounds cost the same; a tenth more time on the slow switch.

    ``tables`` are settings that differ from the defaults, by table.
    """
    settings = RunSettings(algorithm=entrant.split("-")[0], seed=seed)
    for name, changes in tables.items():
        for key, value in changes.items():
            settings = settings.changed(f"{name}.{key}", value)
    made = decode(first_line("fediac"), Round, "made up")
    rounds = tuple(
        replace(
            made,
            number=number,
            accuracy=accuracy,
            payload_mib=number * round_mib,
            time_s={"fast": number * round_s, "slow": number * (1.1 * round_s)},
            real_s=number * 1.0,
        )
        for number, accuracy in enumerate(accuracies, start=1)
    )
    folder = Path("runs", scenario, entrant, f"seed{seed}")
    return Run(folder, settings, rounds, as_document(settings))


def with_times(made: Round, time_s: dict[str, float]) -> Round:
    """Return a round that was timed on these switches."""
    timing = dict.fromkeys(time_s, made.timing["fast"])
    return replace(made, time_s=time_s, round_s=time_s, timing=timing)
