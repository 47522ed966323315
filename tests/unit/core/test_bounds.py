import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import betainc

from fediac.core.bounds import (
    Setting,
    Training,
    consensus_probability,
    convergence_bound,
    expected_chosen,
    gamma,
    min_bits,
    rank_sums,
    register_fills,
    smallest_bits,
    vote_probability,
)
from tests.support import refuses

RESNET18 = Setting(
    dim=11_173_962, n_clients=20, n_votes=558_698, threshold=3, alpha=-0.37
)
SMALL = Setting(dim=40, n_clients=5, n_votes=8, threshold=2, alpha=-0.8)
TRAINING = Training(
    local_steps=1,
    smoothness=1.0,
    gradient_bound=1.0,
    noise=1.0,
    heterogeneity=1.0,
    start_gap=1.0,
    rate_shift=59.0,
)


def plain_probabilities(setting: Setting) -> tuple[list[float], list[float]]:
    """Return q and r of every rank, as the paper writes them down."""
    total = sum(rank**setting.alpha for rank in range(1, setting.dim + 1))
    shares = [rank**setting.alpha / total for rank in range(1, setting.dim + 1)]
    n_clients = setting.n_clients
    q = [1.0 - (1.0 - share) ** setting.n_votes for share in shares]
    r = [
        sum(
            math.comb(n_clients, j) * each**j * (1.0 - each) ** (n_clients - j)
            for j in range(setting.threshold, n_clients + 1)
        )
        for each in q
    ]
    return q, r


def plain_sums(setting: Setting) -> NDArray[np.float64]:
    ranks = np.arange(1.0, setting.dim + 1.0)
    magnitudes = ranks**setting.alpha
    mass: float = magnitudes.sum()
    q = -np.expm1(setting.n_votes * np.log1p(-magnitudes / mass))
    a, n_clients = setting.threshold, setting.n_clients
    r: NDArray[np.float64] = betainc(a, n_clients - a + 1, q)
    squares = magnitudes**2
    return np.array([mass, squares.sum(), r.sum(), (r * squares).sum()])


# A sum, a power and a handful of products of numbers near 1, each off by at most
# 2^-53, and at most 40 votes' worth of it in the power: far below 1e-12.
ROUNDING = 1e-12


class TestProbabilities:
    ranks = np.arange(1.0, SMALL.dim + 1.0)

    def test_votes_follow_draws_with_replacement(self) -> None:
        q, _ = plain_probabilities(SMALL)
        assert vote_probability(self.ranks, SMALL) == pytest.approx(q, rel=ROUNDING)

    @pytest.mark.parametrize("threshold", [1, 2, 5])
    def test_consensus_is_a_binomial_tail(self, threshold: int) -> None:
        setting = replace(SMALL, threshold=threshold)
        _, r = plain_probabilities(setting)
        found = consensus_probability(self.ranks, setting)
        assert found == pytest.approx(r, rel=ROUNDING)

    def test_a_single_entry_is_always_chosen(self) -> None:
        setting = Setting(dim=1, n_clients=3, n_votes=1, threshold=3, alpha=-0.5)
        assert vote_probability(np.ones(1), setting).tolist() == [1.0]
        assert expected_chosen(setting) == 1.0


class TestSums:
    @pytest.mark.parametrize(
        ("n_clients", "n_votes", "threshold", "alpha"),
        [
            (20, 50_000, 3, -0.5),
            (20, 50_000, 20, -0.1),
            (20, 50_000, 1, -1.5),
            (1000, 50_000, 100, -0.7),
            (1000, 500_000, 999, -0.9),
            (100_000, 50_000, 5_000, -0.5),
        ],
    )
    def test_quadrature_agrees_with_adding_a_million_ranks(
        self, n_clients: int, n_votes: int, threshold: int, alpha: float
    ) -> None:
        setting = Setting(10**6, n_clients, n_votes, threshold, alpha)
        sums = rank_sums(setting)
        found = [sums.mass, sums.energy, sums.chosen, sums.chosen_energy]
        # What the midpoint rule leaves out is |g'|/24 at 2^16, and a falling g sums to
        # at least 2^16·g there: relative to the sum, |d log g / d log l| / (24·2^32).
        # That derivative is at most |α|·a for r and 2|α| for l^2α. For rounding: a
        # million terms added in pairs, and log l up to 14 turned into l and back.
        left_out = abs(alpha) * (threshold + 2) / (24.0 * 2.0**32)
        tolerance = left_out + 100 * 2.0**-53
        assert found == pytest.approx(plain_sums(setting), rel=tolerance, abs=0.0)

    @pytest.mark.parametrize("dim", [2**16 - 1, 2**16, 2**16 + 1, 2**16 + 2, 70_000])
    def test_the_head_joins_the_tail_without_a_gap(self, dim: int) -> None:
        setting = Setting(dim, 20, dim // 20, 3, -0.5)
        sums = rank_sums(setting)
        found = [sums.mass, sums.energy, sums.chosen, sums.chosen_energy]
        tolerance = 0.5 * 5 / (24.0 * 2.0**32) + 100 * 2.0**-53
        assert found == pytest.approx(plain_sums(setting), rel=tolerance, abs=0.0)

    def test_ten_billion_ranks_follow_the_integral(self) -> None:
        setting = Setting(10**10, 20, 5 * 10**8, 3, -0.5)
        # Euler-Maclaurin from the closed form: Σ l^-½ = 2√d + ζ(½) + 1/(2√d) + …,
        # where the next term is below d^-1.5.
        zeta_half = -1.4603545088095868
        expected = 2.0 * 1e5 + zeta_half + 0.5e-5
        left_out = 0.5 / (24.0 * 2.0**32)
        assert rank_sums(setting).mass == pytest.approx(
            expected, rel=left_out + 100 * 2.0**-53
        )


class TestOtherVotes:
    def test_the_largest_are_chosen_where_all_vote_for_them(self) -> None:
        setting = replace(RESNET18, is_drawn=False)
        ranks = np.arange(1.0, setting.n_votes + 1.0)
        sums = rank_sums(setting)
        assert sums.chosen == setting.n_votes
        energy: float = np.sum(ranks ** (2 * setting.alpha))
        assert sums.chosen_energy == pytest.approx(energy, rel=1e-9)
        assert sums.energy == rank_sums(RESNET18).energy

    @pytest.mark.parametrize("is_drawn", [True, False])
    def test_groups_bring_entries_that_lead_none(self, is_drawn: bool) -> None:  # noqa: FBT001 - a parameter of pytest's
        setting = Setting(1003, 5, 80, 2, -0.4, is_drawn, entries_per_vote=8)
        leaders = Setting(126, 5, 10, 2, -0.4, is_drawn)
        sums, alone = rank_sums(setting), rank_sums(leaders)
        energies = np.arange(1.0, 1004.0) ** -0.8
        others = alone.chosen * (1003 - 126) / 126
        assert sums.mass == alone.mass
        assert sums.energy == pytest.approx(energies.sum(), rel=1e-12)
        assert sums.chosen == pytest.approx(alone.chosen + others, rel=1e-12)
        expected = alone.chosen_energy + others * energies[126:].mean()
        assert sums.chosen_energy == pytest.approx(expected, rel=1e-9)

    def test_everything_is_chosen_when_everybody_votes_for_everything(self) -> None:
        setting = Setting(1000, 5, 1000, 2, -0.4, is_drawn=False, entries_per_vote=8)
        sums = rank_sums(setting)
        assert sums.chosen == pytest.approx(1000)
        assert sums.chosen_energy == pytest.approx(sums.energy)

    def test_shared_votes_need_wider_lanes_than_single_ones(self) -> None:
        # Fifteen of sixteen entries are there by chance, and small.
        setting = replace(RESNET18, n_votes=RESNET18.dim // 50, is_drawn=False)
        shared = replace(setting, entries_per_vote=16)
        bounds = [min_bits(each, phi=0.32, peak=0.15) for each in (setting, shared)]
        assert bounds[0] + 0.4 < bounds[1]

    def test_a_group_has_entries(self) -> None:
        with refuses("entries_per_vote must be at least 1, got 0"):
            replace(SMALL, entries_per_vote=0)


class TestCheckValues:
    @pytest.mark.parametrize(
        ("alpha", "threshold", "share", "bound"),
        [
            (-0.3, 3, 0.0791, 9.97),
            (-0.5, 3, 0.0826, 12.37),
            (-0.5, 4, 0.0340, 11.77),
            (-0.7, 2, 0.1705, 13.94),
        ],
    )
    def test_resnet18_with_twenty_clients(
        self, alpha: float, threshold: int, share: float, bound: float
    ) -> None:
        setting = replace(RESNET18, alpha=alpha, threshold=threshold)
        # The values are printed to four and two decimals.
        assert expected_chosen(setting) / setting.dim == pytest.approx(share, abs=5e-5)
        assert min_bits(setting, phi=1.0, peak=1.0) == pytest.approx(bound, abs=5e-3)

    @pytest.mark.parametrize(("bits", "error"), [(10, 0.93), (11, 0.69), (12, 0.63)])
    def test_the_error_of_a_fitted_resnet18_falls_fast(
        self, bits: int, error: float
    ) -> None:
        found = gamma(RESNET18, phi=0.32, peak=0.15, bits=bits)
        assert found == pytest.approx(error, abs=5e-3)

    def test_a_fitted_resnet18_needs_ten_bits(self) -> None:
        assert smallest_bits(RESNET18, phi=0.32, peak=0.15) == 10

    def test_a_billion_parameters_fill_the_registers_four_thousand_times(self) -> None:
        assert register_fills(10**9) == 4000


class TestErrorAndWidth:
    def test_gamma_is_the_formula_of_the_paper(self) -> None:
        _, r = plain_probabilities(SMALL)
        squares = [rank ** (2 * SMALL.alpha) for rank in range(1, SMALL.dim + 1)]
        phi, peak, bits = 0.5, 0.7, 7
        scale = (2 ** (bits - 1) - 5) / (5 * peak)
        energy = sum(squares)
        chosen_energy = sum(a * b for a, b in zip(r, squares, strict=True))
        expected = (
            1.0 - chosen_energy / energy + sum(r) / (4.0 * scale**2 * phi**2 * energy)
        )
        found = gamma(SMALL, phi=phi, peak=peak, bits=bits)
        assert found == pytest.approx(expected, rel=ROUNDING)

    @pytest.mark.parametrize("alpha", [-0.2, -0.5, -1.1])
    @pytest.mark.parametrize("threshold", [1, 3, 10])
    @pytest.mark.parametrize("peak", [0.3, 1.0, 40.0])
    def test_the_bound_separates_errors_below_one_from_above(
        self, alpha: float, threshold: int, peak: float
    ) -> None:
        setting = Setting(5000, 20, 250, threshold, alpha)
        bits = smallest_bits(setting, phi=1.0, peak=peak)
        bound = min_bits(setting, phi=1.0, peak=peak)
        assert bound < bits <= bound + 1
        assert gamma(setting, phi=1.0, peak=peak, bits=bits) < 1.0
        if 2 ** (bits - 2) > setting.n_clients:
            assert gamma(setting, phi=1.0, peak=peak, bits=bits - 1) >= 1.0

    def test_a_whole_bound_is_exceeded_and_not_met(self) -> None:
        # One entry, always chosen: the bound is log2(N·m/(2φ) + N) + 1, and N = 4 with
        # m = 2φ makes it log2(8) + 1.
        setting = Setting(dim=1, n_clients=4, n_votes=1, threshold=1, alpha=-1.0)
        assert min_bits(setting, phi=1.0, peak=2.0) == 4.0
        assert smallest_bits(setting, phi=1.0, peak=2.0) == 5

    def test_the_smallest_width_leaves_room_for_all_clients(self) -> None:
        setting = Setting(dim=1, n_clients=16, n_votes=1, threshold=1, alpha=-1.0)
        # The exact bound is just above 5; in floats it is 5 or less.
        assert min_bits(setting, phi=1e30, peak=1.0) == 5.0
        assert smallest_bits(setting, phi=1e30, peak=1.0) == 6
        assert gamma(setting, phi=1e30, peak=1.0, bits=6) < 1.0

    def test_no_width_helps_when_nothing_is_ever_chosen(self) -> None:
        setting = Setting(10**6, 200, 1, 200, -0.1)
        assert min_bits(setting, phi=1.0, peak=1.0) == math.inf
        assert gamma(setting, phi=1.0, peak=1.0, bits=20) == 1.0
        with refuses(
            "threshold 200 lets no entry through with 1 vote per client; lower it"
        ):
            smallest_bits(setting, phi=1.0, peak=1.0)


class TestConvergence:
    def test_a_case_worked_by_hand(self) -> None:
        # η₁² = 1/60, c = ½ − 15/60 = ¼, δ = 1 + 2.5·(1 + 6) = 18.5 and
        # γ/(1−√γ)² = 1, so (1 + 18.5)/(¼·2) + 1/(2·¼·2) = 39 + 1.
        found = convergence_bound(TRAINING, n_rounds=4, gamma=0.25)
        assert found == pytest.approx(40.0, rel=ROUNDING)

    def test_every_constant_stands_where_the_theorem_has_it(self) -> None:
        training = Training(
            local_steps=3,
            smoothness=0.5,
            gradient_bound=2.0,
            noise=0.7,
            heterogeneity=0.3,
            start_gap=5.0,
            rate_shift=100.0,
        )
        c = 0.5 - 15 * 9 / 101 * 0.25
        delta = 1.5 / 2 * 9 * 4 + 5 * 9 * 0.25 / 2 * (0.49 + 6 * 3 * 0.09)
        first = (5.0 + delta) / (c * 3 * 10.0)
        ratio = 0.6 / (1 - math.sqrt(0.6)) ** 2
        second = 0.25 * 3 * 4 * ratio / (2 * c * 10.0)
        found = convergence_bound(training, n_rounds=100, gamma=0.6)
        assert found == pytest.approx(first + second, rel=ROUNDING)

    def test_more_rounds_and_less_error_bring_it_down(self) -> None:
        base = convergence_bound(TRAINING, n_rounds=100, gamma=0.5)
        assert convergence_bound(TRAINING, n_rounds=200, gamma=0.5) < base
        assert convergence_bound(TRAINING, n_rounds=100, gamma=0.4) < base

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"local_steps": 0}, "local_steps must be at least 1, got 0"),
            ({"smoothness": 0.0}, "smoothness must be finite and above 0, got 0.0"),
            ({"noise": -1.0}, "noise must be finite and at least 0, got -1.0"),
            (
                {"start_gap": math.inf},
                "start_gap must be finite and at least 0, got inf",
            ),
            (
                {"rate_shift": 29.0},
                "rate_shift must be above 30 * (local_steps * smoothness)**2 - 1 = 29, "
                "got 29.0",
            ),
        ],
    )
    def test_constants_outside_the_theorem_are_refused(
        self, change: dict[str, Any], message: str
    ) -> None:
        with refuses(message):
            replace(TRAINING, **change)

    @pytest.mark.parametrize("error", [0.0, 1.0, 1.5, math.nan])
    def test_an_error_that_does_not_shrink_is_refused(self, error: float) -> None:
        with refuses(f"gamma must be between 0 and 1, got {error}"):
            convergence_bound(TRAINING, n_rounds=4, gamma=error)

    def test_no_rounds_are_refused(self) -> None:
        with refuses("n_rounds must be at least 1, got 0"):
            convergence_bound(TRAINING, n_rounds=0, gamma=0.5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dim": 0}, "dim must be at least 1, got 0"),
        ({"n_clients": 0}, "n_clients must be at least 1, got 0"),
        ({"n_votes": 0}, "n_votes must be in 1..40 (dim), got 0"),
        ({"n_votes": 41}, "n_votes must be in 1..40 (dim), got 41"),
        ({"threshold": 0}, "threshold must be in 1..5 (n_clients), got 0"),
        ({"threshold": 6}, "threshold must be in 1..5 (n_clients), got 6"),
        ({"alpha": 0.0}, "alpha must be finite and below 0, got 0.0"),
        ({"alpha": math.nan}, "alpha must be finite and below 0, got nan"),
        ({"alpha": -math.inf}, "alpha must be finite and below 0, got -inf"),
        (
            {"alpha": -1e308},
            "alpha must be at least -1,000,000 (rank 2 has nothing then), got -1e+308",
        ),
    ],
)
def test_a_setting_out_of_range_is_refused(
    change: dict[str, Any], message: str
) -> None:
    with refuses(message):
        replace(SMALL, **change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"phi": 0.0}, "phi must be finite and above 0, got 0.0"),
        ({"peak": math.inf}, "peak must be finite and above 0, got inf"),
        ({"bits": 3}, "bits must leave room for 5 clients (at least 4), got 3"),
        ({"bits": 65}, "bits must be at most 64, got 65"),
    ],
)
def test_gamma_refuses_what_is_out_of_range(
    change: dict[str, Any], message: str
) -> None:
    with refuses(message):
        gamma(SMALL, **({"phi": 1.0, "peak": 1.0, "bits": 8} | change))


def test_register_fills_round_up() -> None:
    assert register_fills(11, value_bytes=2, register_bytes=9) == 3


def test_registers_that_hold_nothing_are_refused() -> None:
    with refuses("register_bytes must hold a value of 4 bytes, got 3"):
        register_fills(10, value_bytes=4, register_bytes=3)
