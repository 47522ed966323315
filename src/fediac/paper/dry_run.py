"""What would be run, what is there already, and about how long it would take."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fediac.console import FittedTable
from fediac.paper.plan import PlannedRun, Until
from fediac.paper.stored import Key
from fediac.paper.tasks import Step, Task, find_task
from fediac.plan.expected_traffic import ExpectedRound
from fediac.plan.networks import NetworkDescription
from fediac.plan.simulate import simulate
from fediac.runs.algorithm import make_compressor
from fediac.runs.settings import RunSettings
from fediac.runs.stored import Run

HEADINGS = ("run", "stored", "step", "until", "rounds")


def list_steps(
    plan: Sequence[PlannedRun], stored: Mapping[Key, Run], results: Path
) -> list[dict[str, Any]]:
    """Return a document on each end of each planned run.

    Args:
        plan: The runs.
        stored: Those that are stored, by their keys.
        results: The folder of results.
    """
    steps = []
    for run in plan:
        for until in run.untils:
            task = find_task(run, until, stored, results)
            is_over = task.step in (Step.REUSE, Step.FAILED)
            steps.append(
                {
                    "scenario": run.scenario.name,
                    "entrant": run.entrant.name,
                    "seed": run.seed,
                    "step": task.step.value,
                    "until": until.describe(task.target),
                    "stored_rounds": len(task.stored.rounds) if task.stored else 0,
                    "rounds": 0 if is_over else _left(task),
                    "is_limit": until.is_to_target,
                }
            )
    return steps


def _left(task: Task) -> int | None:
    """Return how many rounds are left at most, or about; one at least."""
    whole = estimate_rounds(task.run, task.until)
    if whole is None or task.stored is None or task.step is not Step.RESUME:
        return whole
    return max(1, whole - len(task.stored.rounds))


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


def estimate_rounds(run: PlannedRun, until: Until) -> int | None:
    """Return how many rounds a run has at most, or about, until its end.

    Only a clock needs an estimate: one round on expected traffic tells how long it is.
    """
    limits = [] if until.rounds is None else [until.rounds]
    if until.simulated_s is not None:
        round_s = _round_s(run.settings, run.scenario.paper.dim)
        limits.append(math.ceil(until.simulated_s / round_s))
    return min(limits, default=None)


def _round_s(settings: RunSettings, dim: int) -> float:
    """Return how long a round is on the fastest switch, which ends last."""
    compressor = make_compressor(
        settings, n_clients=settings.clients.n_clients, dim=dim
    )
    expected = ExpectedRound(settings.algorithm, compressor, dim)
    network = settings.network
    times = []
    for switch in network.switches:
        setting = NetworkDescription(switch, network.rates, None, network.compute_s)
        simulation = simulate(expected, setting, n_rounds=1, seed=settings.seed)
        times.append(simulation.rounds[0].round_s)
    return min(times)
