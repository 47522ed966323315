"""The verdict: who needs the least traffic, who is the fastest, and beside whom."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fediac.number_words import (
    about_percent,
    digits,
    mean_count,
    mib,
    percent,
    seconds,
)
from fediac.report.clocks import list_clocks
from fediac.report.contenders import Contender
from fediac.report.target import (
    Cost,
    Standing,
    Target,
    duration,
    find_saving,
    list_rivals,
    rank,
    traffic,
)

N_BESIDE = 2
"""Other algorithms that a verdict names."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Who spent the least of something until it had the target accuracy.

    Attributes:
        title: What is spent, in a few words.
        winner: Who.
        rivals: The best of every other algorithm, the best first; see `list_rivals`.
        cost: What is compared.
        write: Writes it with its unit.
        less: What less of it is called.
    """

    title: str
    winner: Standing
    rivals: tuple[Standing, ...]
    cost: Cost
    write: Callable[[float], str]
    less: str

    @property
    def number(self) -> str:
        """What the winner spent, the mean over its seeds."""
        return self.write(self.winner.cost(self.cost))

    @property
    def spread(self) -> str:
        """How many seeds that is the mean of, and their range; empty for one run."""
        costs = self.winner.costs(self.cost)
        if len(costs) == 1:
            return ""
        return f"{len(costs)} seeds, {digits(min(costs))} to {digits(max(costs))}"

    @property
    def n_rounds(self) -> str:
        """In how many rounds, the mean over seeds."""
        mean = self.winner.cost(lambda each: each.number)
        return f"{mean_count(mean)} round{'s' * (mean != 1.0)}"

    @property
    def compared(self) -> str:
        """How much less that was than others spent; empty where there are none."""
        shown = self.rivals[:N_BESIDE]
        parts = [
            self._compare(each, is_best=place == 0) for place, each in enumerate(shown)
        ]
        return ", and ".join(each for each in parts if each)

    def _compare(self, other: Standing, *, is_best: bool) -> str:
        saving = find_saving(self.winner, other, self.cost)
        if saving is None:
            return ""
        spent = f"{other.contender.name} ({self.write(other.cost(self.cost))})"
        # Means of all seeds decide who wins; with those that both have it may not.
        more = self.less.replace("less", "more")
        words = f"{about_percent(abs(saving))} {self.less if saving >= 0.0 else more}"
        is_other = other.contender.algorithm != self.winner.contender.algorithm
        kind = "algorithm" if is_other else "setting"
        return f"{words} than {spent}" + f", the best other {kind}" * is_best


def judge(contenders: Sequence[Contender], target: Target) -> list[Verdict]:
    """Return the verdicts; none where nobody reached the target."""
    goal = percent(target.accuracy)
    clocks = list_clocks(contenders)
    kinds = [(f"Least traffic to {goal}", traffic("payload"), mib, "less")]
    for clock in clocks:
        which = f", {clock.title}" if len(clocks) > 1 else ""
        cost = duration(clock.switch)
        kinds.append((f"Fastest to {goal}{which}", cost, seconds, "less time"))
    verdicts = []
    for title, cost, write, less in kinds:
        winner, *others = rank(contenders, target, cost)
        if winner.reached:
            rivals = tuple(list_rivals([winner, *others]))
            verdicts.append(Verdict(title, winner, rivals, cost, write, less))
    return verdicts
