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


@dataclass(frozen=True, slots=True)
class Row:
    """One run's way to the target, on one switch.

    Attributes:
        rounds: To the target; where it was not reached, how many there were.
        payload_mib: Of all clients, up and down; None where it was not reached.
        time_s: Simulated; None where it was not reached.
    """

    scenario: str
    switch: str
    algorithm: str
    seed: int
    target: float
    reached: bool
    rounds: int
    payload_mib: float | None
    time_s: float | None


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
        """Of all seeds; they differ where FedAvg fixes them."""
        return sorted({row.target for line in self.lines for row in line.rows})


def list_rows(runs: Sequence[StoredRun], switch: str) -> list[Row]:
    """Return the rows of a table: all main entrants whose target is known."""
    rows = []
    for scenario in (find_scenario(name) for name in NAMES):
        for entrant in MAIN:
            for run in runs:
                if (run.scenario, run.entrant) == (scenario.name, entrant.name):
                    target = find_target(scenario, run.seed, runs)
                    if target is not None and switch in run.last["time_s"]:
                        rows.append(make_row(run, target, switch))
    return rows


def make_row(run: StoredRun, target: float, switch: str) -> Row:
    """Return how a run got to the target."""
    at = run.reach(target)
    return Row(
        scenario=run.scenario,
        switch=switch,
        algorithm=run.entrant,
        seed=run.seed,
        target=target,
        reached=at is not None,
        rounds=(run.last if at is None else at)["round"],
        payload_mib=None if at is None else at["payload_mib"],
        time_s=None if at is None else at["time_s"][switch],
    )


def make_blocks(rows: Sequence[Row]) -> list[Block]:
    """Return rows by scenario, a line an entrant."""
    blocks = []
    for name in dict.fromkeys(row.scenario for row in rows):
        own = [row for row in rows if row.scenario == name]
        least = _best_baseline(own)
        lines = []
        for entrant in dict.fromkeys(row.algorithm for row in own):
            seeds = tuple(row for row in own if row.algorithm == entrant)
            is_ours = entrant in FEDIAC and least is not None
            mib = _mean_mib(seeds)
            saving = 1.0 - mib / least if is_ours and mib and least else None
            lines.append(Line(entrant, seeds, saving))
        blocks.append(Block(find_scenario(name), own[0].switch, tuple(lines)))
    return blocks


def _mean_mib(rows: Sequence[Row]) -> float | None:
    """Return the mean traffic to the target, None unless every seed got there."""
    values = [row.payload_mib for row in rows if row.payload_mib is not None]
    return fmean(values) if rows and len(values) == len(rows) else None


def _best_baseline(rows: Sequence[Row]) -> float | None:
    names = {row.algorithm for row in rows} - set(FEDIAC)
    means = [_mean_mib([row for row in rows if row.algorithm == n]) for n in names]
    return min((each for each in means if each is not None), default=None)


def as_documents(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return rows as JSON has them."""
    return [asdict(row) for row in rows]


HEADINGS = ("algorithm", "rounds", "payload MiB", "time", "saving")


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
    rounds = spread(line.values("rounds"), "{:,.0f}")
    if not line.reached:
        n_missed = sum(not row.reached for row in line.rows)
        some = f"{n_missed} of {len(line.rows)} " if len(line.rows) > 1 else ""
        return line.entrant, f"{some}not in {rounds}", NOTHING, NOTHING, NOTHING
    mib = spread(line.values("payload_mib"), "{:,.1f}")
    time = spread(line.values("time_s"), "{:,.1f} s")
    return line.entrant, rounds, mib, time, saving


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
        "the best entrant that is not FediAC. Several seeds: mean (range).",
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
