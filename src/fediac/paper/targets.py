"""The accuracy to reach: the paper's, or fixed by FedAvg before anybody looks."""

from collections.abc import Iterable

from fediac.paper.entrants import FEDAVG
from fediac.paper.scenarios import Scenario
from fediac.runs.stored import Run


def find_target(scenario: Scenario, seed: int, runs: Iterable[Run]) -> float | None:
    """Return a scenario's target, None while FedAvg has not run long enough to fix it.

    Where the paper gives none, it is a fixed distance below the best accuracy that
    FedAvg has in a fixed number of rounds, with the same seed: nothing that the
    compared algorithms do can change it.
    """
    paper = scenario.paper
    if paper.below_fedavg is None or paper.fedavg_rounds is None:
        return paper.target
    for run in runs:
        if (run.scenario, run.entrant, run.seed) == (scenario.name, FEDAVG.name, seed):
            first = run.rounds[: paper.fedavg_rounds]
            if len(first) < paper.fedavg_rounds:
                return None
            best = max(each.accuracy for each in first)
            return round(best - paper.below_fedavg, 6)
    return None
