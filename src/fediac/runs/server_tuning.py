"""The paper's way to set threshold and bits: a server looks at the first round.

In round 1 every client sends its whole update to a server (`FedAvg`, on the bill). The
server fits the power law, tries the votes for every threshold on the real updates, and
sets what promises the fewest bytes for the progress made. Then it leaves.
"""

from collections.abc import Sequence
from contextlib import suppress

from fediac.core.bitpack import MAX_LANE_BITS, count_bits, indices_of
from fediac.core.bounds import Setting, min_bits, smallest_bits
from fediac.core.consensus import agree
from fediac.core.corrected import Corrected, correct
from fediac.core.groups import RankBy, draw_group_votes, spread_groups
from fediac.core.powerlaw import PowerLaw, fit_power_law
from fediac.core.quantize import Grid, energy_of, float32_above
from fediac.core.rng import Stream
from fediac.core.tuning import (
    N_WIDTHS,
    Candidate,
    default_thresholds,
    median_law,
    round_payload_bytes,
)
from fediac.core.types import Packed, Update
from fediac.core.voting import Law
from fediac.errors import FediacError


def tune_on_server(
    updates: Sequence[Update],
    *,
    n_votes: int,
    law: Law,
    seed: int,
    entries_per_vote: int = 1,
    rank_by: RankBy = "peak",
) -> list[Candidate]:
    """Return thresholds and widths by what they would have done in this round.

    Args:
        updates: All clients' updates.
        n_votes: Votes of one client.
        law: How clients vote.
        seed: The run's seed; the trial has random numbers of its own.
        entries_per_vote: Neighbouring entries that share a vote.
        rank_by: What makes those large.

    Returns:
        Candidates with γ < 1, the cheapest first; their γ is measured, but for the
        rounding, which has its expected size.

    Raises:
        FediacError: No update can be fitted.
    """
    n_clients = len(updates)
    corrected = [correct(update, None) for update in updates]
    fit = median_law(_fit(corrected))
    votes = [
        draw_group_votes(
            each,
            n_votes,
            Stream(seed, 1, client, "server tuning").purpose("votes"),
            law=law,
            length=entries_per_vote,
            rank_by=rank_by,
        )
        for client, each in enumerate(corrected)
    ]
    peak = float32_above(max(each.peak for each in corrected))
    dim = updates[0].shape[0]
    candidates: list[Candidate] = []
    for threshold in default_thresholds(n_clients):
        gia = spread_groups(agree(votes, threshold), dim, entries_per_vote)
        setting = Setting(dim, n_clients, n_votes, threshold, fit.alpha)
        if min_bits(setting, phi=fit.phi, peak=peak) >= MAX_LANE_BITS:
            continue
        least = smallest_bits(setting, phi=fit.phi, peak=peak)
        widths = range(least, min(least + N_WIDTHS, MAX_LANE_BITS + 1))
        n_chosen = count_bits(gia)
        for bits, gamma in _try(corrected, gia, peak, widths):
            payload = round_payload_bytes(
                dim=dim,
                n_clients=n_clients,
                bits=bits,
                n_chosen=n_chosen,
                entries_per_vote=entries_per_vote,
            )
            candidates.append(Candidate(threshold, bits, n_chosen, payload, gamma))
    return sorted(candidates, key=lambda each: each.cost_bytes)


def _fit(corrected: Sequence[Corrected]) -> list[PowerLaw]:
    """Return the laws of all clients that have one: not of an update of zeros."""
    laws = []
    for each in corrected:
        with suppress(ValueError):
            laws.append(fit_power_law(each.values))
    if not laws:
        raise FediacError(
            "the first round's updates must have at least 2 entries that are not zero "
            "to fit a power law, and no client's has"
        )
    return laws


def _try(
    corrected: Sequence[Corrected], gia: Packed, peak: float, widths: Sequence[int]
) -> list[tuple[int, float]]:
    """Return widths whose error shrinks (γ < 1), each with its γ."""
    n_clients, dim = len(corrected), corrected[0].values.shape[0]
    chosen = indices_of(gia, dim)
    energy = sum(each.energy for each in corrected)
    sent = sum(energy_of(each.values[chosen]) for each in corrected)
    found = []
    for bits in widths:
        grid = Grid.of(peak=peak, bits=bits, n_clients=n_clients)
        # Rounding to one of two neighbours has a variance of at most 1/4 (Prop. 1).
        rounding = n_clients * len(chosen) / (4.0 * grid.scale**2)
        gamma = (energy - sent + rounding) / energy
        if gamma < 1.0:
            found.append((bits, gamma))
    return found
