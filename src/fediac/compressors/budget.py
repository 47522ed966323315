"""How many votes a budget of bytes pays for.

Votes and their outcome cost the same whatever k is. What is left pays for a number of
agreed entries, and k follows what votes come to (`FollowingVotes`). A client begins
with so few that they cannot be too many.
"""

import math
from numbers import Real

from fediac.compressors.following_votes import FollowingVotes
from fediac.core.groups import count_groups
from fediac.core.ledger import MIB
from fediac.core.widths import Widths
from fediac.errors import ArgumentError

_FASTEST = 2.0
"""How much k may grow or shrink from one round to the next."""


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
) -> FollowingVotes:
    """Return how k follows what ``mib`` of payload, of all and both ways, pay for.

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
    n_sure = min(max(n_sure, entries_per_vote), dim)  # one group at least
    return FollowingVotes(
        n_first=n_sure,
        n_agreed=min(n_entries, dim),
        n_least=n_sure,
        n_most=dim,
        fastest=_FASTEST,
        key="votes_in_budget",
    )
