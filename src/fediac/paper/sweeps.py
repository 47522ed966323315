"""The hyperparameter table: each family's settings, and which are the best."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import fmean
from typing import Any, TypeAlias

from rich.console import Group

from fediac.console import FittedTable
from fediac.paper.entrants import CANDIDATES, Entrant, find_known
from fediac.paper.scenarios import NAMES, Scenario, find_scenario
from fediac.paper.targets import (
    NOT_YET,
    NOTHING,
    Row,
    describe_costs,
    find_target,
    make_row,
)
from fediac.report.markdown import write_table
from fediac.runs.stored import Run

_Cost: TypeAlias = Callable[[Row], float]

_COSTS: tuple[_Cost, ...] = (lambda row: row.spent_mib, lambda row: row.spent_s)
"""What settings are compared by: bytes and time to the target."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One setting of one family, on one scenario.

    Attributes:
        rows: Its way to the target with each seed; empty where it was not run.
        least_traffic: Whether it has the least traffic of its family.
        fastest: Whether it is its family's fastest, in simulated time.
    """

    scenario: str
    family: str
    entrant: str
    setting: str
    rows: tuple[Row, ...]
    least_traffic: bool = False
    fastest: bool = False

    @property
    def reached(self) -> bool:
        """Whether it was run and reached the target with every seed."""
        return bool(self.rows) and all(row.reached for row in self.rows)


def list_candidates(runs: Sequence[Run]) -> list[Candidate]:
    """Return what is known about every setting of the families that were run."""
    found = []
    names = {run.scenario for run in runs}
    for scenario in (find_scenario(name) for name in NAMES if name in names):
        inside = [run for run in runs if run.scenario == scenario.name]
        for family in CANDIDATES:
            candidates = _family(scenario, family, inside)
            if any(each.rows for each in candidates):
                found += candidates
    return found


def find_leaders(scenario: Scenario, runs: Sequence[Run]) -> list[Entrant]:
    """Return each family's settings with the least traffic or time, main ones or not.

    These are the best of those that got there, and any that have spent less and may
    still get there. Means are over the seeds that each has; the best with the seeds
    that all of a family have is among them too.
    """
    inside = [run for run in runs if run.scenario == scenario.name]
    leaders = []
    for family, entrants in CANDIDATES.items():
        candidates = _family(scenario, family, inside)
        able = [
            each
            for each in candidates
            if each.rows and not any(row.gave_up for row in each.rows)
        ]
        names = {
            name for costs in (_COSTS, _COSTS[::-1]) for name in _lead(able, costs)
        } | {each.entrant for each in candidates if each.least_traffic or each.fastest}
        known = [find_known(each, scenario.settings) for each in entrants]
        leaders += [each for each in known if each.name in names]
    return leaders


def _lead(candidates: Sequence[Candidate], costs: Sequence[_Cost]) -> list[str]:
    """Return who has the least of the first cost, and of the second where that is even.

    With everybody who has less so far, but is not there yet.
    """
    spent = {
        each: [fmean(cost(row) for row in each.rows) for cost in costs]
        for each in candidates
    }
    least = min((own for each, own in spent.items() if each.reached), default=[inf])
    return [each.entrant for each, own in spent.items() if own <= least]


def _family(scenario: Scenario, family: str, runs: Sequence[Run]) -> list[Candidate]:
    candidates = []
    for entrant in CANDIDATES[family]:
        known = find_known(entrant, scenario.settings)
        rows = _rows(scenario, known.name, runs)
        candidates.append(
            Candidate(scenario.name, family, known.name, entrant.setting, rows)
        )
    tried = [each for each in candidates if each.rows]
    if len(tried) < 2:  # one alone was not chosen from anything
        return candidates
    leanest, fastest = (_find_best(tried, cost) for cost in _COSTS)
    return [
        replace(each, least_traffic=each is leanest, fastest=each is fastest)
        for each in candidates
    ]


def _rows(scenario: Scenario, entrant: str, runs: Sequence[Run]) -> tuple[Row, ...]:
    rows = []
    for run in runs:
        target = find_target(scenario, run.seed, runs)
        if run.entrant == entrant and target is not None:
            switch = next(iter(run.last.time_s))  # training does not depend on it
            rows.append(make_row(run, scenario, target, switch))
    return tuple(rows)


def _find_best(candidates: Sequence[Candidate], cost: _Cost) -> Candidate | None:
    """Return the one with the least cost for the seeds that all have, if it is known.

    There is no best one while another has spent less and may still get there.
    """
    seeds = set.intersection(*({row.seed for row in each.rows} for each in candidates))
    spent = [
        (sum(cost(row) for row in each.rows if row.seed in seeds), each)
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
            "least_traffic": each.least_traffic,
            "fastest": each.fastest,
            "reached": each.reached,
            "seeds": [row.seed for row in each.rows],
            "target": [row.target for row in each.rows],
            "rounds": [row.rounds for row in each.rows],
            "payload_mib": [row.payload_mib for row in each.rows],
            "time_s": [row.time_s for row in each.rows],
        }
        for each in candidates
    ]


HEADINGS = ("family", "setting", "rounds", "MiB to target", "time", "best in")


def _cells(each: Candidate) -> tuple[str, ...]:
    rounds, mib, time = _numbers(each)
    best = {"traffic": each.least_traffic, "time": each.fastest}
    choice = ", ".join(name for name, is_so in best.items() if is_so)
    return each.family, each.setting, rounds, mib, time, choice


def _numbers(each: Candidate) -> tuple[str, str, str]:
    """Return rounds, MiB and seconds to the target, or why there are none."""
    return describe_costs(each.rows) if each.rows else ("not run", NOTHING, NOTHING)


def render_tables(candidates: Sequence[Candidate]) -> list[Group]:
    """Return a table a scenario, for a terminal."""
    groups = []
    for name in dict.fromkeys(each.scenario for each in candidates):
        rows = [_cells(each) for each in candidates if each.scenario == name]
        title = find_scenario(name).paper.title
        groups.append(Group(title, FittedTable(HEADINGS, rows), ""))
    return groups


def render_markdown(candidates: Sequence[Candidate]) -> str:
    """Return a table a family as Markdown: a line a scenario, a column a setting."""
    lines = [
        "# Hyperparameters: payload to the target accuracy",
        "",
        "MiB of all clients, up and down, in how many rounds and in which simulated "
        "time on the fast switch, for the settings that the paper chose from (arXiv "
        "2402.03815, Sec. V-A3), and for SwitchML and libra smaller ones. Bold: the "
        "least traffic of those that were run, over the seeds that all of them have; "
        "italics: the least time. Not in the paper are: -recal, with batch norm's "
        "statistics measured anew, as the preset lean has them, and dense lanes for "
        "SwitchML; libra-narrow, where an entry takes b bits and as many as its "
        "index needs, not 32 and 32; fediac-topk, where clients vote for their k "
        "largest entries without drawing numbers; the fediac-shared ones, where they "
        "vote for the groups of 16 neighbours that hold the largest, with a = 3 unless "
        "it says otherwise. The width of fediac is tuned, that of fediac-topk the "
        "paper's, and that of the fediac-shared ones, where none is given, adaptive: "
        "the paper's, and wider after a round that left a client as much as it had. In "
        "fediac-shared-fade a client forgets a tenth of its residual every round. "
        "fediac-lean is the preset lean, and then one setting changed: 3 % agreed on "
        "every round, a = 40 % of the clients, 32 or 64 entries a vote, by their root "
        "mean square, 7 bits, dense lanes, clipped peaks, recalibrated statistics. In "
        "fediac-lean-fixed a client always votes for k, for groups of 32 with the "
        "largest entries. "
        "Several seeds: mean (range). " + NOT_YET,
    ]
    for family in dict.fromkeys(each.family for each in candidates):
        inside = [each for each in candidates if each.family == family]
        settings = list(dict.fromkeys(each.setting for each in inside))
        rows = []
        for name in dict.fromkeys(each.scenario for each in inside):
            cells = [_cell(each) for each in inside if each.scenario == name]
            rows.append([find_scenario(name).paper.title, *cells])
        lines += ["", f"## {family}", "", write_table(["scenario", *settings], rows)]
    return "\n".join([*lines, ""])


def _cell(each: Candidate) -> str:
    rounds, mib, time = _numbers(each)
    if not each.reached:
        return rounds
    mib = f"**{mib}**" if each.least_traffic else mib
    time = f"*{time}*" if each.fastest else time
    return f"{mib} in {rounds}, {time}"
