"""The hyperparameter table: each family's settings, and which is the best."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Group

from fediac.experiments.output import FittedTable
from fediac.experiments.paper.entrants import CANDIDATES, find_known
from fediac.experiments.paper.scenarios import NAMES, Scenario, find_scenario
from fediac.experiments.paper.stored import StoredRun
from fediac.experiments.paper.tables import (
    NOT_YET,
    NOTHING,
    Row,
    describe_rounds,
    make_row,
    spread,
)
from fediac.experiments.paper.targets import find_target


@dataclass(frozen=True, slots=True)
class Candidate:
    """One setting of one family, on one scenario.

    Attributes:
        rows: Its way to the target with each seed; empty where it was not run.
        is_best: Has the least traffic of its family.
    """

    scenario: str
    family: str
    entrant: str
    setting: str
    rows: tuple[Row, ...]
    is_best: bool = False

    @property
    def reached(self) -> bool:
        """Whether it was run and reached the target with every seed."""
        return bool(self.rows) and all(row.reached for row in self.rows)


def list_candidates(
    runs: Sequence[StoredRun], *, alone: bool = False
) -> list[Candidate]:
    """Return what is known about every setting of the families that were tried.

    Args:
        runs: All that are stored.
        alone: Also families of which only one setting was run so far.
    """
    found = []
    for scenario in (find_scenario(name) for name in NAMES):
        inside = [run for run in runs if run.scenario == scenario.name]
        for family in CANDIDATES:
            candidates = _family(scenario, family, inside)
            n_tried = sum(1 for each in candidates if each.rows)
            if n_tried > 1 or (alone and n_tried):
                found += candidates
    return found


def _family(
    scenario: Scenario, family: str, runs: Sequence[StoredRun]
) -> list[Candidate]:
    candidates = []
    for entrant in CANDIDATES[family]:
        known = find_known(entrant, scenario.settings)
        rows = _rows(scenario, known.name, runs)
        candidates.append(
            Candidate(scenario.name, family, known.name, entrant.setting, rows)
        )
    tried = [each for each in candidates if each.rows]
    # One alone was not chosen from anything.
    best = _find_best(tried) if len(tried) > 1 else None
    return [replace(each, is_best=each is best) for each in candidates]


def _rows(
    scenario: Scenario, entrant: str, runs: Sequence[StoredRun]
) -> tuple[Row, ...]:
    rows = []
    for run in runs:
        target = find_target(scenario, run.seed, runs)
        if run.entrant == entrant and target is not None:
            switch = next(iter(run.last["time_s"]))  # training does not depend on it
            rows.append(make_row(run, scenario, target, switch))
    return tuple(rows)


def _find_best(candidates: Sequence[Candidate]) -> Candidate | None:
    """Return who has the least traffic with the seeds that all have, if it is known.

    Nobody is the best while another one has spent less and may still get there.
    """
    seeds = set.intersection(*({row.seed for row in each.rows} for each in candidates))
    spent = [
        (sum(row.spent_mib for row in each.rows if row.seed in seeds), each)
        for each in candidates
        if not any(row.gave_up for row in each.rows)
    ]
    if not seeds or not spent:
        return None
    best = min(spent, key=lambda pair: pair[0])[1]
    return best if best.reached else None


def as_documents(candidates: Sequence[Candidate]) -> list[dict[str, Any]]:
    """Return candidates as JSON has them, numbers a seed each."""
    return [
        {
            "scenario": each.scenario,
            "family": each.family,
            "entrant": each.entrant,
            "setting": each.setting,
            "is_best": each.is_best,
            "reached": each.reached,
            "seeds": [row.seed for row in each.rows],
            "target": [row.target for row in each.rows],
            "rounds": [row.rounds for row in each.rows],
            "payload_mib": [row.payload_mib for row in each.rows],
        }
        for each in candidates
    ]


HEADINGS = ("family", "setting", "rounds", "MiB to target", "choice")


def _cells(each: Candidate) -> tuple[str, ...]:
    if not each.rows:
        return each.family, each.setting, "not run", NOTHING, ""
    rounds = describe_rounds(each.rows)
    if not each.reached:
        return each.family, each.setting, rounds, NOTHING, ""
    mib = spread([row.spent_mib for row in each.rows], "{:,.1f}")
    return each.family, each.setting, rounds, mib, "best" if each.is_best else ""


def render_tables(candidates: Sequence[Candidate]) -> list[Group]:
    """Return a table a scenario, for a terminal."""
    groups = []
    for name in dict.fromkeys(each.scenario for each in candidates):
        rows = [_cells(each) for each in candidates if each.scenario == name]
        title = find_scenario(name).paper.title
        groups.append(Group(title, FittedTable(HEADINGS, rows), ""))
    return groups


def render_markdown(candidates: Sequence[Candidate]) -> str:
    """Return all candidates as Markdown."""
    lines = [
        "# Hyperparameters: payload to the target accuracy",
        "",
        "The settings that the paper chose from (arXiv 2402.03815, Sec. V-A3), and "
        "which one needs the least payload here, of those that were run. Families "
        "with less than two of them are left out. In fediac-topk, which is not in the "
        "paper, clients vote for their k largest entries without drawing numbers. "
        "Several seeds: mean (range). "
        f"{NOT_YET}",
        "",
        "| scenario | " + " | ".join(HEADINGS) + " |",
        "| --- " * (len(HEADINGS) + 1) + "|",
    ]
    for each in candidates:
        title = find_scenario(each.scenario).paper.title
        lines.append("| " + " | ".join((title, *_cells(each))) + " |")
    return "\n".join([*lines, ""])
