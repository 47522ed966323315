"""The accuracy to reach, how each stored run got there, and what that saved.

The accuracy is the paper's, or fixed by FedAvg before anybody looks. Tables and sweeps
have a line for each run's way there.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from fediac.paper.entrants import FEDAVG
from fediac.paper.scenarios import Scenario
from fediac.runs.stored import Run

NOTHING = "—"

NOT_YET = "Not yet: the run ends before it had all of its rounds."


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


@dataclass(frozen=True, slots=True)
class Row:
    """One run's way to the target, on one switch.

    Attributes:
        reached: Whether it got there.
        gave_up: Whether it did not in all the rounds that its scenario gives it, or
            cannot go on.
        rounds: To the target; where it was not reached, how many there were.
        payload_mib: All clients' payload, up and down; None where it was not reached.
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


def make_row(run: Run, scenario: Scenario, target: float, switch: str) -> Row:
    """Return how a run got to the target in the rounds that its scenario gives it.

    What it did later, for a figure, must not change a table.
    """
    run = replace(run, rounds=run.rounds[: scenario.paper.rounds])
    at = run.reach(target)
    end = run.last if at is None else at
    return Row(
        scenario=run.scenario,
        switch=switch,
        algorithm=run.entrant,
        seed=run.seed,
        target=target,
        reached=at is not None,
        gave_up=at is None
        and (bool(run.failed) or end.number >= scenario.paper.rounds),
        rounds=end.number,
        payload_mib=None if at is None else at.payload_mib,
        time_s=None if at is None else at.time_s[switch],
        spent_mib=end.payload_mib,
        spent_s=end.time_s[switch],
    )


def describe_rounds(rows: Sequence[Row]) -> str:
    """Return in how many rounds the target was reached, or in how many it was not."""
    missed = [row for row in rows if not row.reached]
    if not missed:
        return _spread_rounds(rows)
    some = f"{len(missed)} of {len(rows)} " if len(rows) > 1 else ""
    yet = "" if all(row.gave_up for row in missed) else "yet "
    return f"{some}not {yet}in {_spread_rounds(missed)}"


def describe_costs(rows: Sequence[Row]) -> tuple[str, str, str]:
    """Return rounds, MiB and seconds to the target; none where it was not reached."""
    rounds = describe_rounds(rows)
    if not all(row.reached for row in rows):
        return rounds, NOTHING, NOTHING
    payload_mib = spread([row.spent_mib for row in rows], "{:,.1f}")
    return rounds, payload_mib, spread([row.spent_s for row in rows], "{:,.1f} s")


def _spread_rounds(rows: Sequence[Row]) -> str:
    """Return numbers of rounds; a mean over seeds has a fraction while it is small."""
    numbers = [row.rounds for row in rows]
    return spread(numbers, "{:,.3g}" if max(numbers) < 1000 else "{:,.0f}")


def spread(values: Sequence[float], form: str) -> str:
    """Return one number, or the mean and range of several."""
    if len(set(values)) == 1:
        return form.format(values[0])
    ends = f"{form.format(min(values))} to {form.format(max(values))}"
    return f"{form.format(fmean(values))} ({ends})"


@dataclass(frozen=True, slots=True)
class Saving:
    """The share by which less was sent than by the best baseline.

    Attributes:
        against: The best baseline's name.
        at_least: Whether the best so far may still get there, with more than it has
            spent already.
    """

    share: float
    against: str
    at_least: bool = False

    def __str__(self) -> str:
        return f"{'at least ' * self.at_least}{100 * self.share:.1f} %"


def find_saving(
    own: Sequence[Row], baselines: Mapping[str, Sequence[Row]]
) -> Saving | None:
    """Return what was saved against the best baseline, as far as it is known.

    The seeds that both have are compared, and a baseline that gave up is left out. If
    the cheapest one so far may still get there, the saving is at least what it is
    against that one, or not known if that is nothing.

    Args:
        own: Rows of one entrant, all seeds.
        baselines: Name -> rows of another one.
    """
    if not own or not all(row.reached for row in own):
        return None
    ours = {row.seed: row.spent_mib for row in own}
    savings = []
    for name, rows in baselines.items():
        theirs = [row for row in rows if row.seed in ours]
        if theirs and not any(row.gave_up for row in theirs):
            spent = sum(row.spent_mib for row in theirs)
            share = 1.0 - sum(ours[row.seed] for row in theirs) / spent
            savings.append((share, all(row.reached for row in theirs), name))
    share, is_known, against = min(savings, default=(0.0, False, ""))
    if is_known:
        return Saving(share, against)
    return Saving(share, against, at_least=True) if share > 0.0 else None
