"""Tables I and II: rounds, traffic and time to the target, beside the paper's."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from rich.console import Group

from fediac.experiments.output import FittedTable
from fediac.experiments.paper.entrants import FEDIAC, MAIN
from fediac.experiments.paper.published import SOURCE, TABLES, find_row
from fediac.experiments.paper.scenarios import NAMES, Scenario, find_scenario
from fediac.experiments.paper.stored import StoredRun
from fediac.experiments.paper.targets import find_target

NOTHING = "—"

ROUNDS = "{:,.3g}"
"""Form of a number of rounds, which has a mean over seeds."""

MIB, SECONDS = "{:,.1f}", "{:,.1f} s"

NOT_YET = "Not yet: the run ends before it had all of its rounds."


@dataclass(frozen=True, slots=True)
class Row:
    """One run's way to the target, on one switch.

    Attributes:
        reached: Whether it got there.
        gave_up: Whether it did not in all the rounds that its scenario gives it.
        rounds: To the target; where it was not reached, how many there were.
        payload_mib: Of all clients, up and down; None where it was not reached.
        time_s: Simulated; None where it was not reached.
        spent_mib: Payload of these rounds.
        spent_s: Simulated time of these rounds.
    """

    scenario: str
    switch: str
    algorithm: str
    seed: int
    target: float
    reached: bool
    gave_up: bool
    rounds: int
    payload_mib: float | None
    time_s: float | None
    spent_mib: float
    spent_s: float


@dataclass(frozen=True, slots=True)
class Line:
    """An entrant's rows of all seeds, and what it saved against the best baseline."""

    entrant: str
    rows: tuple[Row, ...]
    saving: float | None

    @property
    def reached(self) -> bool:
        """Whether the target was reached with every seed."""
        return all(row.reached for row in self.rows)

    def values(self, name: str) -> list[float]:
        """Return one number of all seeds."""
        return [getattr(row, name) for row in self.rows]


@dataclass(frozen=True, slots=True)
class Block:
    """A scenario's part of a table: its lines in the order of the entrants."""

    scenario: Scenario
    switch: str
    lines: tuple[Line, ...]

    @property
    def targets(self) -> list[float]:
        """One for each seed; they differ where FedAvg fixes them."""
        rows = [row for line in self.lines for row in line.rows]
        return list({row.seed: row.target for row in rows}.values())


def list_rows(runs: Sequence[StoredRun], switch: str) -> list[Row]:
    """Return the rows of a table: all main entrants whose target is known."""
    rows = []
    for scenario in (find_scenario(name) for name in NAMES):
        for entrant in MAIN:
            for run in runs:
                if (run.scenario, run.entrant) == (scenario.name, entrant.name):
                    target = find_target(scenario, run.seed, runs)
                    if target is not None and switch in run.last["time_s"]:
                        rows.append(make_row(run, scenario, target, switch))
    return rows


def make_row(run: StoredRun, scenario: Scenario, target: float, switch: str) -> Row:
    """Return how a run got to the target."""
    at = run.reach(target)
    end = run.last if at is None else at
    return Row(
        scenario=run.scenario,
        switch=switch,
        algorithm=run.entrant,
        seed=run.seed,
        target=target,
        reached=at is not None,
        gave_up=at is None and end["round"] >= scenario.paper.rounds,
        rounds=end["round"],
        payload_mib=None if at is None else at["payload_mib"],
        time_s=None if at is None else at["time_s"][switch],
        spent_mib=end["payload_mib"],
        spent_s=end["time_s"][switch],
    )


def make_blocks(rows: Sequence[Row]) -> list[Block]:
    """Return rows by scenario, a line an entrant."""
    blocks = []
    for name in dict.fromkeys(row.scenario for row in rows):
        entrants: dict[str, list[Row]] = {}
        for row in rows:
            if row.scenario == name:
                entrants.setdefault(row.algorithm, []).append(row)
        baselines = [own for each, own in entrants.items() if each not in FEDIAC]
        lines = [
            Line(each, tuple(own), _saving(own, baselines) if each in FEDIAC else None)
            for each, own in entrants.items()
        ]
        blocks.append(Block(find_scenario(name), rows[0].switch, tuple(lines)))
    return blocks


def _saving(own: Sequence[Row], baselines: Sequence[Sequence[Row]]) -> float | None:
    """Return by which share less was sent than by the best baseline, if it is known.

    The seeds that both have are compared. Whoever gave up is not the best. But nobody
    is while another one has spent less and may still get there.
    """
    if not all(row.reached for row in own):
        return None
    ours = {row.seed: row.spent_mib for row in own}
    savings = []
    for rows in baselines:
        theirs = [row for row in rows if row.seed in ours]
        if theirs and not any(row.gave_up for row in theirs):
            spent = sum(row.spent_mib for row in theirs)
            share = sum(ours[row.seed] for row in theirs) / spent
            savings.append((1.0 - share, all(row.reached for row in theirs)))
    least, is_known = min(savings, default=(0.0, False))
    return least if is_known else None


def as_documents(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return rows as JSON has them."""
    return [asdict(row) for row in rows]


HEADINGS = ("algorithm", "seeds", "rounds", "payload MiB", "time", "saving")


def render_block(block: Block) -> Group:
    """Return a scenario's part as a table for a terminal, the paper's values below."""
    title = f"{block.scenario.paper.title}: {_targets(block)}, {block.switch} switch"
    parts: list[str | FittedTable] = [title]
    parts.append(FittedTable(HEADINGS, [_cells(line) for line in block.lines]))
    paper = _published(block)
    if paper:
        parts.append(f"In the paper, {paper}")
    return Group(*parts, "")


def _cells(line: Line) -> tuple[str, ...]:
    saving = NOTHING if line.saving is None else f"{100 * line.saving:.1f} %"
    rounds = describe_rounds(line.rows)
    head = line.entrant, str(len(line.rows)), rounds
    if not line.reached:
        return *head, NOTHING, NOTHING, NOTHING
    mib = spread(line.values("payload_mib"), MIB)
    time = spread(line.values("time_s"), SECONDS)
    return *head, mib, time, saving


def describe_rounds(rows: Sequence[Row]) -> str:
    """Return in how many rounds the target was reached, or in how many it was not."""
    missed = [row for row in rows if not row.reached]
    if not missed:
        return spread([row.rounds for row in rows], ROUNDS)
    some = f"{len(missed)} of {len(rows)} " if len(rows) > 1 else ""
    yet = "" if all(row.gave_up for row in missed) else "yet "
    return f"{some}not {yet}in {spread([row.rounds for row in missed], ROUNDS)}"


def spread(values: Sequence[float], form: str) -> str:
    """Return one number, or the mean and range of several."""
    if len(set(values)) == 1:
        return form.format(values[0])
    ends = f"{form.format(min(values))} to {form.format(max(values))}"
    return f"{form.format(fmean(values))} ({ends})"


def _targets(block: Block) -> str:
    return spread(block.targets, "{:.2%}").replace("%", " %").replace(".00 %", " %")


def _published(block: Block) -> str:
    beside = block.scenario.paper.beside
    row = find_row(block.switch, beside)
    if row is None:
        return ""
    return (
        f"{beside} to {100 * row.target:g} %: FediAC {row.fediac_mb:,} MB, "
        f"{row.second} {row.second_mb:,} MB ({100 * row.saving:.2f} % less)"
    )


def render_markdown(blocks: Sequence[Block], switch: str) -> str:
    """Return a table as Markdown."""
    lines = [
        f"# {TABLES[switch]}: traffic to the target accuracy, {switch} switch",
        "",
        "Payload of all clients, up and down; 1 MiB is 2^20 bytes. Saving: less than "
        "the best entrant that is not FediAC, with the seeds that both have; none "
        "while a better one may still get there. Baselines have the settings of "
        "their scenario's file: the paper's best, or ours where a sweep found less "
        "traffic in no more time; sweeps.md has what was tried, and what was not. "
        f"Several seeds: mean (range). {NOT_YET}",
        "",
        "| scenario | target | " + " | ".join(HEADINGS) + " | in the paper |",
        "| --- " * (len(HEADINGS) + 3) + "|",
    ]
    for block in blocks:
        head = (block.scenario.paper.title, _targets(block))
        paper = _published(block) or NOTHING
        for line in block.lines:
            beside = paper if line.entrant == FEDIAC[0] else ""
            lines.append("| " + " | ".join((*head, *_cells(line), beside)) + " |")
    return "\n".join([*lines, "", f"The paper's values: {SOURCE}.", ""])
