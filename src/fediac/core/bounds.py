"""Before the rounds: what the paper's theory predicts, as functions (Sec. IV-B, IV-C).

Magnitudes are taken to follow |U{l}| = φ·l^α over the ranks l = 1..dim (Definition 1).
Every prediction is then a sum over ranks. Sums have millions of terms or more, so the
first ranks are added as they are and the rest, where the terms hardly change from one
rank to the next, by Gauss-Legendre quadrature; `_rank_weights` says how well.

The paper's votes are drawn, one an entry. Two more kinds are predicted in its spirit,
every client ranking alike: votes for the k largest (r_l is 1 up to rank k and 0 beyond)
and votes that ``entries_per_vote`` neighbours share. There a group votes by its largest
entry. The largest entries of all are taken to lie in groups of their own, so the leader
of group l has rank l, and the others of a group to be any of those that lead none.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fediac.core.quantize import level_limit
from fediac.errors import ArgumentError, say_count

Floats: TypeAlias = NDArray[np.float64]

MAX_BITS = 64
"""Widths beyond this are refused as typing errors; no switch adds wider integers."""

MIN_ALPHA = -1_000_000
"""A smaller decay is taken for a typing error: floats end far above 2**MIN_ALPHA."""

_N_HEAD = 1 << 16
_N_NODES = 16
_MAX_PER_OCTAVE = 1000  # reached from a million clients on; some digits go then


@dataclass(frozen=True, slots=True)
class Setting:
    """The numbers that determine which ranks clients agree on.

    Attributes:
        dim: d, entries in an update.
        n_clients: N.
        n_votes: k, votes of one client.
        threshold: a, votes an entry needs.
        alpha: α < 0, the decay of magnitudes over ranks.
        is_drawn: Whether votes are drawn (the paper's); the k largest have them if not.
        entries_per_vote: Neighbours that share a vote; the paper's is 1.
    """

    dim: int
    n_clients: int
    n_votes: int
    threshold: int
    alpha: float
    is_drawn: bool = True
    entries_per_vote: int = 1

    def __post_init__(self) -> None:
        _check_count("dim", self.dim)
        _check_count("n_clients", self.n_clients)
        if not 1 <= self.n_votes <= self.dim:
            raise ArgumentError(
                "n_votes", f"must be in 1..{self.dim} (dim), got {self.n_votes}"
            )
        if not 1 <= self.threshold <= self.n_clients:
            raise ArgumentError(
                "threshold",
                f"must be in 1..{self.n_clients} (n_clients), got {self.threshold}",
            )
        if not -math.inf < self.alpha < 0:
            raise ArgumentError(
                "alpha", f"must be finite and below 0, got {self.alpha}"
            )
        if self.alpha < MIN_ALPHA:
            raise ArgumentError(
                "alpha",
                f"must be at least {MIN_ALPHA:,} (rank 2 has nothing then), "
                f"got {self.alpha:g}",
            )
        _check_count("entries_per_vote", self.entries_per_vote)

    @property
    def n_leaders(self) -> int:
        """Entries that a vote may be for: all of them, or one a group."""
        return -(-self.dim // self.entries_per_vote)

    @property
    def n_leaders_voted(self) -> int:
        """How many of these a client votes for."""
        return -(-self.n_votes // self.entries_per_vote)


@dataclass(frozen=True, slots=True)
class Sums:
    """The four sums over ranks that the predictions are made of.

    Attributes:
        mass: Σ l^α over those that a vote may be for.
        energy: Σ l^{2α} over all.
        chosen: Σ r_l, the expected number of entries agreed on.
        chosen_energy: Σ r_l·l^{2α}.
    """

    mass: float
    energy: float
    chosen: float
    chosen_energy: float


@lru_cache(maxsize=256)
def rank_sums(setting: Setting) -> Sums:
    """Return the sums over all ranks, to about ten digits, in milliseconds."""
    mass, energy = _power_sums(setting, setting.n_leaders)
    chosen, chosen_energy = _chosen_sums(setting, mass)
    n_others = setting.dim - setting.n_leaders
    if not n_others:
        return Sums(mass, energy, chosen, chosen_energy)
    _, all_energy = _power_sums(setting, setting.dim)
    # Every leader brings its share of those that lead no group.
    others = chosen * n_others / setting.n_leaders
    others_energy = others * (all_energy - energy) / n_others
    return Sums(mass, all_energy, chosen + others, chosen_energy + others_energy)


def _power_sums(setting: Setting, n_ranks: int) -> tuple[float, float]:
    """Return Σ l^α and Σ l^{2α} over the ranks 1..n_ranks."""
    ranks, weights = _ranks_of(setting, n_ranks)
    magnitudes = ranks**setting.alpha
    mass: float = np.sum(weights * magnitudes)
    energy: float = np.sum(weights * (magnitudes * magnitudes))
    return float(mass), float(energy)


def _chosen_sums(setting: Setting, mass: float) -> tuple[float, float]:
    """Return Σ r_l and Σ r_l·l^{2α} over those that a vote may be for."""
    if not setting.is_drawn:  # all vote for the same ones
        n_voted = setting.n_leaders_voted
        return float(n_voted), _power_sums(setting, n_voted)[1]
    ranks, weights = _ranks_of(setting, setting.n_leaders)
    magnitudes = ranks**setting.alpha
    chosen = weights * _consensus(magnitudes / mass, setting)
    n_chosen: float = np.sum(chosen)
    energy: float = np.sum(chosen * (magnitudes * magnitudes))
    return float(n_chosen), float(energy)


def _ranks_of(setting: Setting, n_ranks: int) -> tuple[Floats, Floats]:
    # The share of clients that vote for a rank spreads by about 1/sqrt(N) around its
    # mean, so r rises over as much of log q, and |alpha| times as fast in log l.
    n_per_octave = math.ceil(1.0 + abs(setting.alpha) * math.sqrt(setting.n_clients))
    return _rank_weights(n_ranks, min(n_per_octave, _MAX_PER_OCTAVE))


def vote_probability(ranks: Floats, setting: Setting) -> Floats:
    """Return q_l = 1 − (1 − p_l)^k, p_l = l^α / Σl'^α, for each rank (eq. 2 and 3).

    That is the law of drawn votes; it knows nothing of votes for the k largest.
    """
    return _votes(ranks**setting.alpha / rank_sums(setting).mass, setting)


def consensus_probability(ranks: Floats, setting: Setting) -> Floats:
    """Return r_l = P[Binomial(N, q_l) ≥ a], that a rank is agreed on (eq. 4)."""
    return _consensus(ranks**setting.alpha / rank_sums(setting).mass, setting)


def expected_chosen(setting: Setting) -> float:
    """Return Σ r_l, how many entries the clients agree on, on average (Sec. IV-B)."""
    return rank_sums(setting).chosen


def gamma(setting: Setting, *, phi: float, peak: float, bits: int) -> float:
    """Return the relative squared error of one compression (eq. 5).

    What is not chosen is lost for the round, and each chosen entry is off by a variance
    of at most 1/(4f²) after rounding. Training converges when this is below 1.

    Args:
        setting: Who votes for how much.
        phi: φ, the magnitude of rank 1 by the fit.
        peak: m, the largest magnitude there is; with φ it decides the resolution.
        bits: b, the register width.
    """
    _check_positive("phi", phi)
    _check_positive("peak", peak)
    if bits > MAX_BITS:
        raise ArgumentError("bits", f"must be at most {MAX_BITS}, got {bits}")
    level_limit(bits=bits, n_clients=setting.n_clients)
    sums = rank_sums(setting)
    n_clients = setting.n_clients
    # 1 / (f·φ); peak / phi first, since each alone may be near the ends of floats.
    step = n_clients * (peak / phi) / (2.0 ** (bits - 1) - n_clients)
    rounding = sums.chosen * (step * step) / 4.0
    return 1.0 - (sums.chosen_energy - rounding) / sums.energy


def min_bits(setting: Setting, *, phi: float, peak: float) -> float:
    """Return the real number that ``bits`` must exceed for γ < 1 (eq. 6).

    Infinity when the threshold lets nothing through: then no width helps.
    """
    _check_positive("phi", phi)
    _check_positive("peak", peak)
    sums = rank_sums(setting)
    if sums.chosen_energy == 0.0:
        return math.inf
    spread = math.sqrt(sums.chosen / sums.chosen_energy)
    n_clients = setting.n_clients
    return math.log2(n_clients * (peak / phi) * spread / 2.0 + n_clients) + 1.0


def smallest_bits(setting: Setting, *, phi: float, peak: float) -> int:
    """Return the smallest integer above `min_bits`: a lower bound, rarely the best."""
    bound = min_bits(setting, phi=phi, peak=peak)
    if bound == math.inf:
        raise ArgumentError(
            "threshold",
            f"{setting.threshold} lets no entry through with "
            f"{say_count(setting.n_votes, 'vote')} per client; lower it",
        )
    # Rounding in the bound must not cost the room that level_limit asks for.
    return max(math.floor(bound) + 1, setting.n_clients.bit_length() + 1)


@dataclass(frozen=True, slots=True)
class Training:
    """The constants of the convergence theorem's assumptions (Sec. IV-C).

    Attributes:
        local_steps: E, local iterations a round.
        smoothness: L of every client's loss.
        gradient_bound: G; squared, it bounds the mean squared norm of gradients.
        noise: σ; squared, it bounds the variance of stochastic gradients.
        heterogeneity: Γ; squared, it bounds how far local gradients are from global.
        start_gap: F(w₁) − F*, how much loss there is to lose.
        rate_shift: q in the learning rate 1/√(t + q) of round t.
    """

    local_steps: int
    smoothness: float
    gradient_bound: float
    noise: float
    heterogeneity: float
    start_gap: float
    rate_shift: float

    def __post_init__(self) -> None:
        _check_count("local_steps", self.local_steps)
        _check_positive("smoothness", self.smoothness)
        _check_positive("rate_shift", self.rate_shift)
        for name in ("gradient_bound", "noise", "heterogeneity", "start_gap"):
            value = getattr(self, name)
            if not 0.0 <= value < math.inf:
                raise ArgumentError(name, f"must be finite and at least 0, got {value}")
        least = 30.0 * (self.local_steps * self.smoothness) ** 2 - 1.0
        if self.rate_shift <= least:
            raise ArgumentError(
                "rate_shift",
                "must be above 30 * (local_steps * smoothness)**2 - 1 = "
                f"{least:g}, got {self.rate_shift}",
            )


def convergence_bound(training: Training, *, n_rounds: int, gamma: float) -> float:
    """Return Theorem 1's bound on the expected squared gradient norm after T rounds.

    The theorem's c depends on the round through the learning rate; its smallest value,
    that of round 1, is used for all.
    """
    _check_count("n_rounds", n_rounds)
    if not 0.0 < gamma < 1.0:
        raise ArgumentError("gamma", f"must be between 0 and 1, got {gamma}")
    steps, smooth = training.local_steps, training.smoothness
    moved = (steps * training.gradient_bound) ** 2
    first_rate_squared = 1.0 / (1.0 + training.rate_shift)
    c = 0.5 - 15.0 * (steps * smooth) ** 2 * first_rate_squared
    drift = training.noise**2 + 6.0 * steps * training.heterogeneity**2
    delta = (smooth + 1.0) / 2.0 * moved + 2.5 * (steps * smooth) ** 2 * drift
    unsent = gamma / (1.0 - math.sqrt(gamma)) ** 2
    optimisation = (training.start_gap + delta) / steps
    compression = smooth**2 * moved / steps * unsent / 2.0
    return (optimisation + compression) / (c * math.sqrt(n_rounds))


def register_fills(
    dim: int, *, value_bytes: int = 4, register_bytes: int = 10**6
) -> int:
    """Return how many times one dense round fills a switch's registers (Sec. I)."""
    _check_count("dim", dim)
    _check_count("value_bytes", value_bytes)
    if register_bytes < value_bytes:
        raise ArgumentError(
            "register_bytes",
            f"must hold a value of {say_count(value_bytes, 'byte')}, "
            f"got {register_bytes}",
        )
    return -(-dim // (register_bytes // value_bytes))


def _votes(shares: Floats, setting: Setting) -> Floats:
    # A share of 1 (dim = 1, or a steep law) has log1p(-1) = -inf, and q = 1.
    with np.errstate(divide="ignore"):
        probability: Floats = -np.expm1(setting.n_leaders_voted * np.log1p(-shares))
    return probability


def _consensus(shares: Floats, setting: Setting) -> Floats:
    # Takes longer to import than NumPy, and most rounds predict nothing.
    from scipy.special import betainc

    n_clients, threshold = setting.n_clients, setting.threshold
    probability: Floats = betainc(
        threshold, n_clients - threshold + 1, _votes(shares, setting)
    )
    return probability


@lru_cache(maxsize=16)
def _rank_weights(dim: int, n_per_octave: int) -> tuple[Floats, Floats]:
    """Return ranks and weights such that Σ w·g(l) stands for the sum of g over 1..dim.

    The first 2^16 ranks have weight 1. A later term g(l) is the integral of g from
    l − ½ to l + ½, but for g''/24 (the midpoint rule read backwards). Together these
    are g'/24 at 2^16: for g = l^s at most |s|/(24·2^32) of the sum. The integral, in
    log l, is cut into panels of 16 Gauss-Legendre nodes each.
    """
    n_head = min(dim, _N_HEAD)
    head = np.arange(1.0, n_head + 1.0)
    if dim == n_head:
        return head, np.ones(n_head)
    start, stop = math.log(n_head + 0.5), math.log(dim + 0.5)
    n_panels = math.ceil((stop - start) / math.log(2.0) * n_per_octave)
    edges = np.linspace(start, stop, n_panels + 1)
    middles, half = (edges[1:] + edges[:-1]) / 2.0, (stop - start) / n_panels / 2.0
    nodes, node_weights = np.polynomial.legendre.leggauss(_N_NODES)
    tail = np.exp(middles[:, None] + half * nodes[None, :])
    weights = tail * (half * node_weights[None, :])
    return (
        np.concatenate([head, tail.ravel()]),
        np.concatenate([np.ones(n_head), weights.ravel()]),
    )


def _check_count(name: str, value: int) -> None:
    if value < 1:
        raise ArgumentError(name, f"must be at least 1, got {value}")


def _check_positive(name: str, value: float) -> None:
    if not 0.0 < value < math.inf:
        raise ArgumentError(name, f"must be finite and above 0, got {value}")
