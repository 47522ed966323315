"""A scenario whose runs take milliseconds, and made-up runs with traffic."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from fediac.paper.entrants import Entrant
from fediac.paper.plan import PlannedRun, Until
from fediac.paper.scenarios import PaperSettings, Scenario
from fediac.paper.tasks import RunOptions
from fediac.runs.settings import StopSettings
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
