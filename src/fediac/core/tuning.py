"""Before the rounds: which threshold and width to use, by what the theory predicts.

The votes cost the same for any width, and the error falls fast just above the bound on
``bits``. So candidates are ranked by bytes a round over 1 − γ: the bytes it takes to
get through what one perfect round would. That is the error of a round by itself. Where
what it leaves behind is sent later, as by default, the bound itself took less traffic
in almost all runs (docs/reproduction.md).

The theory takes every client to rank its entries alike. Real clients differ, the more
the less alike their data, so high thresholds promise more than they keep. By default
none above a quarter of the clients is looked at (the paper's best are 5 to 20 %).
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fediac.core.bitpack import MAX_LANE_BITS
from fediac.core.bounds import (
    Setting,
    expected_chosen,
    gamma,
    min_bits,
    smallest_bits,
)
from fediac.core.powerlaw import PowerLaw
from fediac.errors import ArgumentError

N_WIDTHS = 5
"""Widths tried for each threshold: the smallest usable one and four more."""

_MAX_THRESHOLDS = 64


@dataclass(frozen=True, slots=True)
class Candidate:
    """A threshold and a width, and what the theory predicts of a round with them.

    Attributes:
        threshold: a, votes an entry needs.
        bits: b, register width.
        expected_chosen: Σr, entries the clients agree on.
        payload_bytes: What all clients send and receive in a round.
        gamma: Relative squared error of the compression.
    """

    threshold: int
    bits: int
    expected_chosen: float
    payload_bytes: float
    gamma: float

    @property
    def cost_bytes(self) -> float:
        """Bytes for as much progress as one round without error makes: the ranking."""
        return self.payload_bytes / (1.0 - self.gamma)


def round_payload_bytes(
    *, dim: int, n_clients: int, bits: int, n_chosen: float, entries_per_vote: int = 1
) -> float:
    """Return the payload of a round: votes and levels up, gia and totals down."""
    n_vote_bits = -(-dim // entries_per_vote)
    return 2.0 * n_clients * (n_vote_bits + bits * n_chosen) / 8.0


def rank_candidates(
    fit: PowerLaw,
    *,
    dim: int,
    n_clients: int,
    n_votes: int,
    thresholds: Iterable[int] | None = None,
) -> list[Candidate]:
    """Return all candidates whose error shrinks (γ < 1), the cheapest first.

    Args:
        fit: The law of the clients' magnitudes, with the largest peak of all.
        dim: Entries in an update.
        n_clients: Clients in the round.
        n_votes: Votes of one client.
        thresholds: Thresholds to try; `default_thresholds` without.
    """
    if thresholds is None:
        thresholds = default_thresholds(n_clients)
    candidates = [
        candidate
        for threshold in sorted(set(thresholds))
        for candidate in _try_widths(
            Setting(dim, n_clients, n_votes, threshold, fit.alpha),
            phi=fit.phi,
            peak=fit.peak,
        )
    ]
    return sorted(candidates, key=lambda each: each.cost_bytes)


def default_thresholds(n_clients: int) -> list[int]:
    """Return the thresholds worth trying: up to a quarter of the clients, or four."""
    if n_clients < 1:
        raise ArgumentError("n_clients", f"must be at least 1, got {n_clients}")
    top = max(-(-n_clients // 4), min(n_clients, 4))
    step = -(-top // _MAX_THRESHOLDS)
    return list(range(1, top + 1, step))


def best_bits(setting: Setting, *, phi: float, peak: float) -> int:
    """Return the width of the cheapest candidate with this setting.

    Each client may ask it of its own fit with the peak of all of them; the largest
    answer is then used by all.
    """
    candidates = _try_widths(setting, phi=phi, peak=peak)
    if not candidates:
        raise ArgumentError(
            "threshold",
            f"must leave a width of at most {MAX_LANE_BITS} bits with gamma "
            f"below 1, got {setting.threshold}",
        )
    return min(candidates, key=lambda each: each.cost_bytes).bits


def median_law(fits: Sequence[PowerLaw]) -> PowerLaw:
    """Return one law for several clients: medians, but the largest peak of all.

    The peak is what all clients must agree on to quantize alike, hence the maximum.
    """
    if not fits:
        raise ArgumentError("fits", "must have at least 1 law, got 0")
    return PowerLaw(
        alpha=statistics.median(fit.alpha for fit in fits),
        phi=statistics.median(fit.phi for fit in fits),
        peak=max(fit.peak for fit in fits),
        misfit=statistics.median(fit.misfit for fit in fits),
    )


def _try_widths(setting: Setting, *, phi: float, peak: float) -> list[Candidate]:
    n_chosen = expected_chosen(setting)
    if min_bits(setting, phi=phi, peak=peak) >= MAX_LANE_BITS:
        return []
    least = smallest_bits(setting, phi=phi, peak=peak)
    candidates = [
        Candidate(
            threshold=setting.threshold,
            bits=bits,
            expected_chosen=n_chosen,
            payload_bytes=round_payload_bytes(
                dim=setting.dim,
                n_clients=setting.n_clients,
                bits=bits,
                n_chosen=n_chosen,
                entries_per_vote=setting.entries_per_vote,
            ),
            gamma=gamma(setting, phi=phi, peak=peak, bits=bits),
        )
        for bits in range(least, min(least + N_WIDTHS, MAX_LANE_BITS + 1))
    ]
    return [each for each in candidates if each.gamma < 1.0]
