"""How many votes a budget of bytes pays for: k follows what was agreed on.

Votes and their outcome cost the same whatever k is. What is left pays for a number of
agreed entries, and how many k votes come to shows in every round: a client casts more
or fewer in its next one. It begins with so few that they cannot be too many.
"""

import math
from dataclasses import dataclass, replace
from numbers import Real

from array_api_compat import array_namespace, device

from fediac.compressors.protocol import State
from fediac.core.groups import count_groups
from fediac.core.ledger import MIB
from fediac.core.types import Array
from fediac.core.widths import Widths
from fediac.errors import ArgumentError

_KEY = "votes_in_budget"
"""Where a client keeps the number of votes to cast, between rounds."""

_FASTEST = 2.0
"""How much k may grow or shrink from one round to the next."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What a budget pays for in a round.

    Attributes:
        n_entries: Agreed entries.
        n_sure: Votes of a client with which no more can be agreed on.
        n_least: The fewest votes there may be: one group.
        dim: All entries.
    """

    n_entries: int
    n_sure: int
    n_least: int
    dim: int

    def count_votes(self, state: State) -> int:
        """Return how many entries a client votes for."""
        votes = state.extras.get(_KEY)
        n_votes = self.n_sure if votes is None else int(votes[0])
        return min(max(n_votes, self.n_least), self.dim)

    def follow(self, state: State, n_chosen: int, *, like: Array) -> State:
        """Return the state after a round that agreed on so many entries.

        Agreed entries grow faster than votes do, at worst with the power of the
        threshold. The square root keeps k from swinging with thresholds up to 3.

        Args:
            state: What this client keeps.
            n_chosen: Entries that were agreed on.
            like: An array of the library and on the device that updates are.
        """
        n_votes = self.count_votes(state)
        change = math.sqrt(self.n_entries / max(n_chosen, 1))
        change = min(max(change, 1.0 / _FASTEST), _FASTEST)
        wanted = min(max(round(change * n_votes), self.n_sure), self.dim)
        xp = array_namespace(like)
        kept = xp.asarray([wanted], dtype=xp.int64, device=device(like))
        return replace(state, extras={**state.extras, _KEY: kept})


def check_budget(budget_mib: object) -> None:
    """Raise unless ``budget_mib`` is a positive number, or None for no budget."""
    if budget_mib is None:
        return
    if isinstance(budget_mib, bool) or not isinstance(budget_mib, Real):
        raise TypeError(f"budget_mib must be a number or None, got {budget_mib!r}")
    if not 0.0 < float(budget_mib) < math.inf:  # nor is NaN
        raise ArgumentError(
            "budget_mib", f"must be finite and above 0, got {budget_mib}"
        )


def make_budget(
    mib: float,
    *,
    dim: int,
    n_clients: int,
    threshold: int,
    entries_per_vote: int,
    widths: Widths,
) -> Budget:
    """Return what ``mib`` of payload pay for, of all clients and both ways.

    Args:
        mib: For a round.
        dim: Entries in an update.
        n_clients: Clients in a round.
        threshold: Votes that an entry needs.
        entries_per_vote: Neighbouring entries that share a vote.
        widths: Bits of a lane up and down.

    Raises:
        ArgumentError: Not even the votes can be paid.
    """
    bits_of_client = 8.0 * MIB * mib / n_clients
    for_votes = 2 * count_groups(dim, entries_per_vote)
    n_entries = int((bits_of_client - for_votes) / sum(widths))
    if n_entries < entries_per_vote:
        least = (for_votes + entries_per_vote * sum(widths)) * n_clients / (8.0 * MIB)
        raise ArgumentError(
            "budget_mib",
            f"must be at least {least:.2g} (votes and one group of {n_clients} "
            f"clients), got {mib:g}",
        )
    # Every agreed group has the votes of as many clients as the threshold says.
    n_sure = n_entries * threshold // n_clients // entries_per_vote * entries_per_vote
    return Budget(min(n_entries, dim), n_sure, entries_per_vote, dim)
