"""How many votes a client casts, where k follows what was agreed on.

How many entries a number of votes comes to differs between data, and changes while a
model learns. What only few clients vote for is not sent, stays in their residuals and
keeps their votes: clients whose data differ agree on less and less. More votes find
more that others want, too. And where clients agree on much, fewer votes are enough.

All clients see how many entries were agreed on, so k is the same for all who take part
in all rounds, without a word.
"""

import math
from dataclasses import dataclass, replace

from array_api_compat import array_namespace, device

from fediac.compressors.protocol import State
from fediac.core.types import Array
from fediac.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class FollowingVotes:
    """How k follows what was agreed on.

    Attributes:
        n_first: Entries that a client votes for in its first round.
        n_agreed: Entries that a round shall agree on.
        n_least: The fewest to vote for.
        n_most: The most to vote for.
        fastest: How many times as large or small k may be from one round to the next.
        key: Where a client keeps for how many entries it votes, between rounds. What
            follows something else begins anew.
    """

    n_first: int
    n_agreed: int
    n_least: int
    n_most: int
    fastest: float
    key: str

    def count_votes(self, state: State) -> int:
        """Return how many entries a client votes for."""
        votes = state.extras.get(self.key)
        return self._inside(self.n_first if votes is None else int(votes[0]))

    def follow(self, state: State, n_chosen: int, *, like: Array) -> State:
        """Return the state after a round that agreed on so many entries.

        Agreed entries grow faster than votes do, at worst with the power of the
        threshold. The square root keeps k from swinging.

        Args:
            state: What this client keeps.
            n_chosen: Entries that were agreed on.
            like: An array of the library and on the device that updates are.
        """
        now = self.count_votes(state)
        change = math.sqrt(self.n_agreed / max(n_chosen, 1))
        wanted = round(min(max(change, 1.0 / self.fastest), self.fastest) * now)
        if change > 1.0:
            wanted = max(wanted, now + 1)
        elif change < 1.0:
            wanted = min(wanted, now - 1)
        xp = array_namespace(like)
        kept = xp.asarray([self._inside(wanted)], dtype=xp.int64, device=device(like))
        return replace(state, extras={**state.extras, self.key: kept})

    def _inside(self, n_votes: int) -> int:
        return min(max(n_votes, self.n_least), self.n_most)


def check_growth(growth: object) -> None:
    """Raise unless ``growth`` is a share that a number of votes may grow by."""
    if isinstance(growth, bool) or not isinstance(growth, int | float):
        raise TypeError(f"growth must be a number, got {growth!r}")
    if not 0.0 <= growth <= 1.0:  # nor is NaN
        raise ArgumentError("growth", f"must be in 0..1, got {growth}")
