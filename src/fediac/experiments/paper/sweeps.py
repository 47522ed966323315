"""The hyperparameter table: each family's settings, and which is the best."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any

from rich.console import Group

from fediac.experiments.output import FittedTable
from fediac.experiments.paper.entrants import CANDIDATES, find_known
from fediac.experiments.paper.scenarios import NAMES, Scenario, find_scenario
from fediac.experiments.paper.stored import StoredRun
from fediac.experiments.paper.tables import NOTHING, spread
from fediac.experiments.paper.targets import find_target


@dataclass(frozen=True, slots=True)
class Candidate:
    """One setting of one family, on one scenario.

    Attributes:
        rounds: To the target, a number a seed; where it was not reached, how many
            there were.
        payload_mib: To the target, a number a seed; empty unless all seeds got there.
        is_best: Has the least traffic of its family.
    """

    scenario: str
    family: str
    entrant: str
    setting: str
    target: float
    reached: bool
    rounds: tuple[int, ...]
    payload_mib: tuple[float, ...]
    is_best: bool = False


def list_candidates(runs: Sequence[StoredRun]) -> list[Candidate]:
    """Return what is known about every setting that was tried."""
    found = []
    for scenario in (find_scenario(name) for name in NAMES):
        inside = [run for run in runs if run.scenario == scenario.name]
        for family in CANDIDATES:
            found += _family(scenario, family, inside)
    return found


def _family(
    scenario: Scenario, family: str, runs: Sequence[StoredRun]
) -> list[Candidate]:
    candidates = []
    for entrant in CANDIDATES[family]:
        known = find_known(entrant, scenario.settings)
        seeds = [run for run in runs if run.entrant == known.name]
        each = _measure(scenario, seeds, runs)
        if each is not None:
            candidates.append(
                Candidate(scenario.name, family, known.name, entrant.setting, **each)
            )
    if len(candidates) < 2:  # one alone was not chosen from anything
        return []
    best = min(
        (fmean(each.payload_mib) for each in candidates if each.reached), default=None
    )
    return [
        replace(each, is_best=each.reached and fmean(each.payload_mib) == best)
        for each in candidates
    ]


def _measure(
    scenario: Scenario, seeds: Sequence[StoredRun], runs: Sequence[StoredRun]
) -> dict[str, Any] | None:
    targets = [find_target(scenario, run.seed, runs) for run in seeds]
    pairs = [(run, t) for run, t in zip(seeds, targets, strict=True) if t is not None]
    if not pairs:
        return None
    ends = [(run, run.reach(target)) for run, target in pairs]
    at = [end for _, end in ends if end is not None]
    reached = len(at) == len(ends)
    return {
        "target": fmean(target for _, target in pairs),
        "reached": reached,
        "rounds": tuple((end or run.last)["round"] for run, end in ends),
        "payload_mib": tuple(end["payload_mib"] for end in at) if reached else (),
    }


def as_documents(candidates: Sequence[Candidate]) -> list[dict[str, Any]]:
    """Return candidates as JSON has them."""
    return [asdict(each) for each in candidates]


HEADINGS = ("family", "setting", "rounds", "MiB to target", "choice")


def _cells(each: Candidate) -> tuple[str, ...]:
    rounds = spread(each.rounds, "{:,.0f}")
    if not each.reached:
        return each.family, each.setting, f"not in {rounds}", NOTHING, ""
    mib = spread(each.payload_mib, "{:,.1f}")
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
        "which one needs the least payload here. Several seeds: mean (range).",
        "",
        "| scenario | " + " | ".join(HEADINGS) + " |",
        "| --- " * (len(HEADINGS) + 1) + "|",
    ]
    for each in candidates:
        title = find_scenario(each.scenario).paper.title
        lines.append("| " + " | ".join((title, *_cells(each))) + " |")
    return "\n".join([*lines, ""])
