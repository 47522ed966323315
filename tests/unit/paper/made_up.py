"""Output-up runs for tests of the paper's figures. Nothing here was measured."""

from collections.abc import Sequence
from typing import Any

from fediac.paper.stored import StoredRun
from fediac.runs.settings import RunSettings


def make_run(
    accuracies: Sequence[float],
    *,
    scenario: str = "cifar10-iid",
    entrant: str = "fediac",
    seed: int = 1,
    round_s: float = 10.0,
    **tables: dict[str, Any],
) -> StoredRun:
    """Return a run whose rounds last equally long; a tenth longer on the slow switch.

    ``tables`` are settings that differ from the defaults, by table.
    """
    settings = RunSettings(algorithm=entrant.split("-")[0], seed=seed)
    for name, changes in tables.items():
        for key, value in changes.items():
            settings = settings.changed(f"{name}.{key}", value)
    records = tuple(
        {
            "round": number,
            "accuracy": accuracy,
            "time_s": {
                "slow": number * 1.1 * round_s,
                "fast": number * round_s,
            },
        }
        for number, accuracy in enumerate(accuracies, start=1)
    )
    return StoredRun(scenario, entrant, seed, settings, records)
