"""Votes against starving: k grows while clients agree on fewer than k entries.

What only few clients vote for is not sent, stays in their residuals and keeps their
votes, so that clients whose data differ agree on less and less. More votes find more
that others want, too. All clients see how many entries were agreed on, so k is the same
for all who take part in all rounds, without a word.
"""

import math
from dataclasses import dataclass, replace

from array_api_compat import array_namespace, device

from fediac.compressors.protocol import State
from fediac.core.types import Array
from fediac.errors import ArgumentError

_KEY = "votes_to_cast"
"""Where a client keeps for how many entries it votes, between rounds."""

_MOST = 10
"""So many times k at most: where fewer clients take part than the threshold needs, no
number of votes helps, and the first round with enough of them would be a dense one."""


@dataclass(frozen=True, slots=True)
class GrowingVotes:
    """How k follows what was agreed on.

    Attributes:
        n_votes: k, the fewest entries to vote for, and those that shall be agreed on.
        growth: Share by which k grows or shrinks from one round to the next.
        dim: All entries.
    """

    n_votes: int
    growth: float
    dim: int

    def count_votes(self, state: State) -> int:
        """Return how many entries a client votes for."""
        votes = state.extras.get(_KEY)
        kept = 0 if votes is None else int(votes[0])
        return min(max(kept, self.n_votes), self.dim)

    def follow(self, state: State, n_chosen: int, *, like: Array) -> State:
        """Return the state after a round that agreed on so many entries.

        Args:
            state: What this client keeps.
            n_chosen: Entries that were agreed on.
            like: An array of the library and on the device that updates are.
        """
        now, step = self.count_votes(state), 1.0 + self.growth
        is_starving = n_chosen < self.n_votes
        wanted = math.ceil(now * step) if is_starving else int(now / step)
        wanted = min(max(wanted, self.n_votes), _MOST * self.n_votes, self.dim)
        xp = array_namespace(like)
        kept = xp.asarray([wanted], dtype=xp.int64, device=device(like))
        return replace(state, extras={**state.extras, _KEY: kept})


def check_growth(growth: object) -> None:
    """Raise unless ``growth`` is a share that a number of votes may grow by."""
    if isinstance(growth, bool) or not isinstance(growth, int | float):
        raise TypeError(f"growth must be a number, got {growth!r}")
    if not 0.0 <= growth <= 1.0:  # nor is NaN
        raise ArgumentError("growth", f"must be in 0..1, got {growth}")
