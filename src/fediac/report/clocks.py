"""Switches whose times hardly differ are one clock, so that nothing is shown twice."""

from collections.abc import Sequence
from dataclasses import dataclass

from fediac.number_words import join
from fediac.report.contenders import Contender

SAME = 0.005
"""Relative difference up to which times agree: none of 195 stored runs has 0.0001."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Simulated time with a switch, or with several that agree.

    Attributes:
        name: ``fast``, or ``fast and slow``.
        switch: Whose times are shown.
    """

    name: str
    switch: str

    @property
    def title(self) -> str:
        """The name with its noun."""
        return f"{self.name} switch{'es' * (' and ' in self.name)}"


def list_clocks(contenders: Sequence[Contender]) -> list[Clock]:
    """Return the clocks that anybody was timed with, in their first order."""
    switches = list(dict.fromkeys(key for each in contenders for key in each.switches))
    groups: list[list[str]] = []
    for switch in switches:
        for group in groups:
            if all(_agree(each, group[0], switch) for each in contenders):
                group.append(switch)
                break
        else:
            groups.append([switch])
    return [Clock(join(group), group[0]) for group in groups]


def _agree(contender: Contender, one: str, other: str) -> bool:
    """Return whether a contender's times are as good as the same after every round."""
    if not {one, other} <= set(contender.switches):
        return False
    return all(
        abs(each.time_s[one] - each.time_s[other]) <= SAME * each.time_s[one]
        for each in contender.rounds
    )
