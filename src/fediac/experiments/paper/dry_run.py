"""What would be run, what is there already, and about how long it would take."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fediac.experiments.output import FittedTable
from fediac.experiments.paper.estimates import estimate_rounds
from fediac.experiments.paper.plan import PlannedRun
from fediac.experiments.paper.steps import Step, find_task

HEADINGS = ("run", "stored", "step", "until", "rounds")


def list_steps(plan: Sequence[PlannedRun], results: Path) -> list[dict[str, Any]]:
    """Return a document on each end of each planned run."""
    steps = []
    for run in plan:
        for until in run.untils:
            task = find_task(run, until, results)
            is_there = task.step is Step.REUSE
            steps.append(
                {
                    "scenario": run.scenario.name,
                    "entrant": run.entrant.name,
                    "seed": run.seed,
                    "step": task.step.value,
                    "until": until.describe(task.target),
                    "stored_rounds": len(task.stored.records) if task.stored else 0,
                    "rounds": 0 if is_there else estimate_rounds(run, until),
                    "is_limit": until.is_to_target,
                }
            )
    return steps


def render_steps(steps: Sequence[dict[str, Any]]) -> FittedTable:
    """Return the steps as a table."""
    return FittedTable(HEADINGS, [_cells(each) for each in steps])


def _cells(step: dict[str, Any]) -> tuple[str, ...]:
    bound = "at most " if step["is_limit"] else "about "
    rounds = f"{bound}{step['rounds']}" if step["rounds"] else "none"
    return (
        f"{step['scenario']} {step['entrant']} seed {step['seed']}",
        str(step["stored_rounds"]),
        step["step"],
        step["until"],
        rounds,
    )
