"""Tables I and II: rounds, traffic and time to the target, beside the paper's."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Group

from fediac.console import FittedTable
from fediac.paper.entrants import (
    CANDIDATES,
    MAIN,
    Entrant,
    find_known,
    is_ours,
)
from fediac.paper.published import (
    SOURCE,
    TABLES,
    find_row,
)
from fediac.paper.scenarios import NAMES, Scenario, find_scenario
from fediac.paper.sweeps import find_leaders
from fediac.paper.targets import (
    NOT_YET,
    NOTHING,
    Row,
    Saving,
    describe_costs,
    find_saving,
    find_target,
    make_row,
    spread,
)
from fediac.report.markdown import write_table
from fediac.runs.settings import RunSettings
from fediac.runs.stored import Run

_GIVEN = tuple(entrant.name for entrant in MAIN)
"""Entrants with the settings of their scenario's file."""


_LEGEND = (
    "FediAC's width is the paper's in `fediac` and tuned by its clients in "
    "`fediac-tuned`. `-a4`: threshold 4; `-k1`: k = 1 % of the entries; `-bits8`: 8 "
    "bits; `-narrow`: indices have as many bits as they need; `-topk`: votes for "
    "the k largest, `-shared`: and 16 entries share one, with "
    "threshold 3 and an adaptive width unless one of them is given; `-fade0.1`: a "
    "client forgets a tenth of its residual every round; `-lean`: the preset lean, and "
    "what differs from it, with recalibrated statistics where there is batch norm."
)
"""What entrants' names mean, for who has not read sweeps.md."""


@dataclass(frozen=True, slots=True)
class Line:
    """An entrant's rows of all seeds, and what it saved against the best baseline.

    Attributes:
        saving: Baselines with their scenario's settings.
        swept: And with every other setting that was tried.
    """

    entrant: str
    rows: tuple[Row, ...]
    saving: Saving | None
    swept: Saving | None

    @property
    def reached(self) -> bool:
        """Whether the target was reached with every seed."""
        return all(row.reached for row in self.rows)

    @property
    def savings(self) -> tuple[Saving | None, Saving | None]:
        """Both, in the order of the headings."""
        return self.saving, self.swept

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


def list_rows(runs: Sequence[Run], switch: str) -> list[Row]:
    """Return the rows of a table: everybody in it whose target is known."""
    return _rows(runs, switch, list_compared)


def list_tried(runs: Sequence[Run], switch: str) -> list[Row]:
    """Return a row of every run with a setting that was tried, in a table or not."""
    return _rows(runs, switch, lambda scenario, _: _list_settings(scenario))


def _rows(
    runs: Sequence[Run],
    switch: str,
    choose: Callable[[Scenario, Sequence[Run]], list[Entrant]],
) -> list[Row]:
    rows = []
    names = {run.scenario for run in runs}
    for scenario in (find_scenario(name) for name in NAMES if name in names):
        for entrant in choose(scenario, runs):
            for run in runs:
                if (run.scenario, run.entrant) == (scenario.name, entrant.name):
                    target = find_target(scenario, run.seed, runs)
                    if target is not None and switch in run.last.time_s:
                        rows.append(make_row(run, scenario, target, switch))
    return rows


def _list_settings(scenario: Scenario) -> list[Entrant]:
    """Return everybody whom tables and sweeps may compare, once."""
    swept = [each for family in CANDIDATES.values() for each in family]
    known = [*MAIN, *(find_known(each, scenario.settings) for each in swept)]
    return list({each.name: each for each in known}.values())


def list_compared(scenario: Scenario, runs: Sequence[Run]) -> list[Entrant]:
    """Return the main entrants, each algorithm's followed by what a sweep found.

    A setting that needs less traffic or time than the scenario's has a row of its own:
    who looks for the best baseline must find it here.
    """
    swept = [each for each in find_leaders(scenario, runs) if each.name not in _GIVEN]
    return [
        each
        for algorithm in dict.fromkeys(each.algorithm for each in MAIN)
        for each in (*MAIN, *swept)
        if each.algorithm == algorithm
    ]


def make_blocks(rows: Sequence[Row], tried: Sequence[Row]) -> list[Block]:
    """Return rows by scenario, a line an entrant.

    Args:
        rows: Those of the table.
        tried: Those of everybody that savings are to be against.
    """
    blocks = []
    for name in dict.fromkeys(row.scenario for row in rows):
        entrants = _by_entrant(rows, name)
        baselines = {
            each: own
            for each, own in _by_entrant(tried, name).items()
            if not is_ours(each)
        }
        given = {each: own for each, own in baselines.items() if each in _GIVEN}
        lines = []
        for each, own in entrants.items():
            ours = own if is_ours(each) else []
            saving = find_saving(ours, given)
            swept = find_saving(ours, baselines)
            lines.append(Line(each, tuple(own), saving, swept))
        blocks.append(Block(find_scenario(name), rows[0].switch, tuple(lines)))
    return blocks


def _by_entrant(rows: Sequence[Row], scenario: str) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row.scenario == scenario:
            found.setdefault(row.algorithm, []).append(row)
    return found


def as_documents(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return rows as JSON has them."""
    return [asdict(row) for row in rows]


HEADINGS = ("algorithm", "seeds", "rounds", "payload MiB", "time", "saving", "swept")


def render_block(block: Block) -> Group:
    """Return a scenario's part as a table for a terminal, the paper's values below."""
    title = f"{block.scenario.paper.title}: {_targets(block)}, {block.switch} switch"
    parts: list[str | FittedTable] = [title]
    rows = [(*_cells(line), *map(_share, line.savings)) for line in block.lines]
    parts.append(FittedTable(HEADINGS, rows))
    parts += _say_rivals(block)
    paper = _published(block)
    if paper:
        parts.append(f"In the paper, {paper}")
    return Group(*parts, "")


def _cells(line: Line) -> tuple[str, ...]:
    return line.entrant, str(len(line.rows)), *describe_costs(line.rows)


def _share(saving: Saving | None) -> str:
    return str(saving or NOTHING)


def _share_and_rival(saving: Saving | None) -> str:
    return NOTHING if saving is None else f"{saving} ({saving.against})"


def _say_rivals(block: Block) -> list[str]:
    """Return whom the two savings are against: without a name, a share says little."""
    said = []
    kinds = ("Saving", "with its scenario's settings"), ("swept", "of all tried")
    for place, (kind, which) in enumerate(kinds):
        found = [line.savings[place] for line in block.lines]
        names = list(dict.fromkeys(each.against for each in found if each))
        if names:
            said.append(f"{kind}: less than the best {which}, {' or '.join(names)}")
    return [f"{'; '.join(said)}."] if said else []


def _targets(block: Block) -> str:
    return spread(block.targets, "{:.2%}").replace("%", " %").replace(".00 %", " %")


def _published(block: Block) -> str:
    beside = block.scenario.paper.beside
    row = find_row(block.switch, beside)
    if beside is None or row is None:
        return ""
    return (
        f"{beside.replace('_', ' ')} to {100 * row.target:g} %: FediAC "
        f"{row.fediac_mb:,} MB, {row.second} {row.second_mb:,} MB "
        f"({100 * row.saving:.2f} % less)"
    )


def _say_widths(blocks: Sequence[Block]) -> str:
    """Return in what scenarios' settings of baselines differ from the paper's.

    These are the defaults of the algorithms.
    """
    titles: dict[int, list[str]] = {}
    for block in blocks:
        bits = block.scenario.settings.of("switchml").bits
        titles.setdefault(bits, []).append(block.scenario.paper.title)
    own = [bits for bits in titles if bits != RunSettings().of("switchml").bits]
    if len(titles) == 1:
        return f", but for SwitchML's {own[0]} bits" if own else ""
    return "".join(
        f", but for SwitchML's {bits} bits ({'; '.join(titles[bits])})" for bits in own
    )


def render_markdown(blocks: Sequence[Block], switch: str) -> str:
    """Return a table as Markdown."""
    lines = [
        f"# {TABLES[switch]}: traffic to the target accuracy, {switch} switch",
        "",
        "Payload of all clients, up and down; 1 MiB is 2^20 bytes. Saving: less than "
        "the best baseline (in brackets) with the settings of its scenario's file, "
        f"which are the paper's{_say_widths(blocks)}; swept: less than the best of all "
        "settings that were tried. Each family's cheapest and fastest in sweeps.md "
        "have rows, and so has whoever is better so far and may still get there. Both "
        "savings are over the seeds that both have. While a better one may still get "
        "there, they are unknown or at least what they are against the payload it has "
        f"spent already. Several seeds: mean (range). {NOT_YET}",
        "",
        _LEGEND,
        "",
    ]
    rows = []
    for block in blocks:
        head = (block.scenario.paper.title, _targets(block))
        paper = _published(block) or NOTHING
        for line in block.lines:
            beside = paper if line is block.lines[0] else ""
            savings = map(_share_and_rival, line.savings)
            rows.append((*head, *_cells(line), *savings, beside))
    columns = ("scenario", "target", *HEADINGS, "in the paper")
    lines += [write_table(columns, rows), "", f"The paper's values: {SOURCE}.", ""]
    return "\n".join(lines)
