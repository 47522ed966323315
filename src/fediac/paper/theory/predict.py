"""What theory predicts for a round, giving up one assumption after the other.

``law`` is the paper's (Sec. IV-B): magnitudes follow a power law, and all clients rank
their entries alike. ``alike`` takes the magnitudes that clients really have, but still
lets all rank alike. ``own`` takes every entry with the magnitudes that clients really
have for it. So the step from ``law`` to ``alike`` is what the fit costs, and that from
``alike`` to ``own`` what it costs that clients find different entries important.

All three bound the variance of rounding by 1/(4f²), as the paper does.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from array_api_compat import array_namespace

from fediac.core.bounds import (
    Setting,
    consensus_probability,
    expected_chosen,
    gamma,
    vote_probability,
)
from fediac.core.chunks import chunks
from fediac.core.corrected import Corrected
from fediac.core.powerlaw import PowerLaw
from fediac.core.quantize import Grid
from fediac.core.types import Array
from fediac.paper.theory.ranks import Floats, RankGrid


@dataclass(frozen=True, slots=True)
class Prediction:
    """What theory predicts for a round.

    Attributes:
        chosen: Entries that the clients agree on.
        gamma: Relative squared error of the compression.
        chances: Chances of being agreed on, by step of ranks for ``law`` and
            ``alike``, by entry for ``own``.
    """

    chosen: float
    gamma: float
    chances: Array


@dataclass(frozen=True, slots=True)
class ClientRanks:
    """One client's magnitudes by rank: means over the steps of a `RankGrid`.

    Attributes:
        mass: Σ|U|.
        magnitudes: Mean of |U{l}| over each step.
        squares: Mean of U{l}² over each step.
    """

    mass: float
    magnitudes: Floats
    squares: Floats

    def voting_chances(self, n_votes: int) -> Floats:
        """Return q of every step."""
        chances: Floats = voting_chance(self.magnitudes, self.mass, n_votes)
        return chances


def predict_by_law(
    law: PowerLaw, setting: Setting, ranks: RankGrid, *, peak: float, bits: int
) -> Prediction:
    """Return what the paper's formulas give for a fitted law (eq. 4 and 5).

    Args:
        law: Its alpha is that of ``setting``.
        setting: Who votes for how much.
        ranks: Where chances are wanted.
        peak: The largest magnitude there really is.
        bits: Width of a level.
    """
    return Prediction(
        chosen=expected_chosen(setting),
        gamma=gamma(setting, phi=law.phi, peak=peak, bits=bits),
        chances=consensus_probability(ranks.middles, setting),
    )


def votes_by_law(setting: Setting, ranks: RankGrid) -> Floats:
    """Return q of every step by the law (eq. 3)."""
    return vote_probability(ranks.middles, setting)


def predict_with_equal_ranks(
    clients: Sequence[ClientRanks], ranks: RankGrid, setting: Setting, grid: Grid
) -> Prediction:
    """Return what real magnitudes give when rank l is the same entry for everyone."""
    chances: Floats = chance_of_consensus(
        (each.voting_chances(setting.n_votes) for each in clients),
        threshold=setting.threshold,
    )
    energies = np.sum([each.squares for each in clients], axis=0) * ranks.lengths
    energy: float = np.sum(energies)
    left: float = np.sum(energies * (1.0 - chances))
    chosen = float(np.sum(chances * ranks.lengths))
    lost = left + _rounding(chosen, setting, grid)
    return Prediction(chosen, float(lost / energy), chances)


def predict_by_entry(
    clients: Sequence[Corrected], setting: Setting, grid: Grid
) -> Prediction:
    """Return what every entry's real magnitudes give, whatever their ranks are."""
    xp = array_namespace(clients[0].values)
    parts, chosen, left = [], 0.0, 0.0
    for start, stop in chunks(setting.dim, clients[0].values):
        # Made once for the chances and once more for the energies: kept, they would
        # take twice the room of all updates.
        chances = chance_of_consensus(
            (
                voting_chance(
                    _magnitudes(each, start, stop), each.mass, setting.n_votes
                )
                for each in clients
            ),
            threshold=setting.threshold,
        )
        energies = sum(_magnitudes(each, start, stop) ** 2 for each in clients)
        chosen += float(xp.sum(chances))
        left += float(xp.sum(energies * (1.0 - chances)))
        parts.append(chances)
    energy = sum(each.energy for each in clients)
    lost = left + _rounding(chosen, setting, grid)
    return Prediction(chosen, lost / energy, xp.concat(parts))


def voting_chance(magnitudes: Array, mass: float, n_votes: int) -> Array:
    """Return q = 1 − (1 − |U|/Σ|U|)^k for each magnitude, float64 (eq. 3)."""
    xp = array_namespace(magnitudes)
    # Means over steps may exceed the whole mass by a rounding error.
    shares = xp.clip(magnitudes / mass, 0.0, 1.0)
    with np.errstate(divide="ignore"):  # a share of 1 has log1p(-1) = -inf, and q = 1
        return -xp.expm1(n_votes * xp.log1p(-shares))


def chance_of_consensus(chances: Iterable[Array], *, threshold: int) -> Array:
    """Return the chance that at least ``threshold`` clients vote, entry by entry.

    Every client votes on its own with its own chance, so the count is Poisson binomial:
    exact, by adding one client after the other to the chances of 0, 1, … votes. What
    reaches the threshold leaves, so nothing is subtracted and small chances stay exact.

    Args:
        chances: Chances of a vote; one array a client.
        threshold: Votes an entry needs.
    """
    exactly: list[Array] = []
    reached: Array = 0.0
    for chance in chances:
        if not exactly:
            xp = array_namespace(chance)
            exactly = [xp.ones_like(chance)]
            exactly += [xp.zeros_like(chance) for _ in range(threshold - 1)]
        reached = reached + exactly[-1] * chance
        for n_votes in range(threshold - 1, 0, -1):
            gained = exactly[n_votes - 1] * chance
            exactly[n_votes] = exactly[n_votes] * (1.0 - chance) + gained
        exactly[0] = exactly[0] * (1.0 - chance)
    return reached


def _magnitudes(client: Corrected, start: int, stop: int) -> Array:
    xp = array_namespace(client.values)
    return xp.astype(xp.abs(client.values[start:stop]), xp.float64)


def _rounding(chosen: float, setting: Setting, grid: Grid) -> float:
    """Return the most that rounding adds to the squared errors of all clients."""
    return setting.n_clients * chosen / (4.0 * grid.scale**2)
