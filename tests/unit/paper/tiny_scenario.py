"""A scenario whose runs take milliseconds, and made-up runs with traffic."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fediac.paper.entrants import Entrant
from fediac.paper.plan import PlannedRun, Until
from fediac.paper.scenarios import PaperSettings, Scenario
from fediac.paper.stored import StoredRun
from fediac.paper.to_do import RunOptions
from fediac.runs.settings import RunSettings, StopSettings
from tests.tiny import make_settings

FEDIAC = Entrant("fediac", "fediac")


def make_scenario(folder: Path, **changes: Any) -> Scenario:
    """A scenario on tiny data in ``folder``; ``changes`` are settings of a run."""
    settings = make_settings(folder, network={"switches": ["fast", "slow"]}, **changes)
    settings = replace(settings, stop=StopSettings())
    paper = PaperSettings(title="Tiny", dim=475, rounds=4, target=0.999)
    return Scenario("digits", settings, paper)


def plan_run(
    scenario: Scenario, *untils: Until, entrant: Entrant = FEDIAC, seed: int = 1
) -> PlannedRun:
    return PlannedRun(scenario, entrant, seed, untils)


def make_run_options(
    results: Path, *, keeps_models: bool = False
) -> tuple[RunOptions, Any]:
    """How to run, and the lines that were said."""
    lines: list[str] = []
    return RunOptions(results, None, keeps_models, lines.append), lines


def make_run(
    accuracies: Sequence[float],
    *,
    scenario: str = "cifar10-iid",
    entrant: str = "fediac",
    seed: int = 1,
    round_mib: float = 100.0,
) -> StoredRun:
    """A made-up run whose rounds cost the same."""
    records = tuple(
        {
            "round": number,
            "accuracy": accuracy,
            "payload_mib": number * round_mib,
            "time_s": {"fast": number * 10.0, "slow": number * 11.0},
            "real_s": number * 1.0,
        }
        for number, accuracy in enumerate(accuracies, start=1)
    )
    settings = RunSettings(algorithm=entrant.split("-")[0], seed=seed)
    return StoredRun(scenario, entrant, seed, settings, records)
