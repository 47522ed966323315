from dataclasses import replace
from typing import Any

import pytest

from fediac.core.bounds import Setting, expected_chosen, gamma, min_bits, smallest_bits
from fediac.core.powerlaw import PowerLaw
from fediac.core.tuning import (
    Candidate,
    best_bits,
    default_thresholds,
    median_law,
    rank_candidates,
    round_payload_bytes,
)
from tests.support import refuses

FIT = PowerLaw(alpha=-0.37, phi=0.32, peak=0.15)
RESNET18: dict[str, Any] = {"dim": 11_173_962, "n_clients": 20, "n_votes": 558_698}
SMALL: dict[str, Any] = {"dim": 10_000, "n_clients": 20, "n_votes": 500}


def test_candidates_come_cheapest_first() -> None:
    costs = [each.cost_bytes for each in rank_candidates(FIT, **RESNET18)]
    assert costs == sorted(costs)


def test_every_threshold_is_tried_with_five_widths_from_the_bound_on() -> None:
    candidates = rank_candidates(FIT, **RESNET18, thresholds=[3, 2])
    for threshold, least in ((2, 11), (3, 10)):
        widths = {each.bits for each in candidates if each.threshold == threshold}
        assert widths == set(range(least, least + 5))


def test_a_candidate_says_what_the_theory_predicts() -> None:
    setting = Setting(**RESNET18, threshold=3, alpha=FIT.alpha)
    found = {
        each.bits: each for each in rank_candidates(FIT, **RESNET18, thresholds=[3])
    }
    assert found[12].gamma == gamma(setting, phi=0.32, peak=0.15, bits=12)
    n_chosen = found[12].expected_chosen
    assert n_chosen / setting.dim == pytest.approx(0.0815, abs=5e-5)
    assert found[12].payload_bytes == 2 * 20 * (setting.dim + 12 * n_chosen) / 8
    assert found[12].cost_bytes == found[12].payload_bytes / (1.0 - found[12].gamma)


def test_votes_alone_cost_what_phase_1_does() -> None:
    payload = round_payload_bytes(dim=11_173_962, n_clients=20, bits=10, n_chosen=0.0)
    assert payload / 2**20 == pytest.approx(53.3, abs=0.05)


def test_the_smallest_width_is_not_the_best() -> None:
    setting = Setting(**RESNET18, threshold=3, alpha=FIT.alpha)
    assert smallest_bits(setting, phi=FIT.phi, peak=FIT.peak) == 10
    assert best_bits(setting, phi=FIT.phi, peak=FIT.peak) == 12


def test_cheaper_votes_make_narrow_lanes_worth_more() -> None:
    # What votes cost no longer hides what levels do, so the best width goes down.
    setting = Setting(**RESNET18, threshold=3, alpha=FIT.alpha, is_drawn=False)
    shared = replace(setting, entries_per_vote=16)
    for each in (setting, shared):
        least = smallest_bits(each, phi=FIT.phi, peak=FIT.peak)
        costs = {
            bits: round_payload_bytes(
                dim=each.dim,
                n_clients=20,
                bits=bits,
                n_chosen=expected_chosen(each),
                entries_per_vote=each.entries_per_vote,
            )
            / (1.0 - gamma(each, phi=FIT.phi, peak=FIT.peak, bits=bits))
            for bits in range(least, least + 5)
        }
        best = min(costs, key=lambda bits: costs[bits])
        assert best_bits(each, phi=FIT.phi, peak=FIT.peak) == best


def test_best_bits_is_the_best_candidate_of_its_threshold() -> None:
    best = rank_candidates(FIT, **SMALL, thresholds=[4])[0]
    setting = Setting(**SMALL, threshold=4, alpha=FIT.alpha)
    assert best_bits(setting, phi=FIT.phi, peak=FIT.peak) == best.bits


def test_repeated_thresholds_are_tried_once() -> None:
    once = rank_candidates(FIT, **SMALL, thresholds=[2, 3])
    assert rank_candidates(FIT, **SMALL, thresholds=[3, 2, 3]) == once


def test_without_thresholds_the_default_ones_are_tried() -> None:
    tried = {each.threshold for each in rank_candidates(FIT, **SMALL)}
    assert tried == {1, 2, 3, 4, 5}


@pytest.mark.parametrize(
    ("n_clients", "thresholds"),
    [
        (1, [1]),
        (3, [1, 2, 3]),
        (10, [1, 2, 3, 4]),
        (20, [1, 2, 3, 4, 5]),
        (1000, list(range(1, 251, 4))),
    ],
)
def test_default_thresholds_end_at_a_quarter_of_the_clients(
    n_clients: int, thresholds: list[int]
) -> None:
    assert default_thresholds(n_clients) == thresholds


def test_a_threshold_nobody_reaches_leaves_no_candidates() -> None:
    setting: dict[str, Any] = {"dim": 10**6, "n_clients": 200, "n_votes": 1}
    assert rank_candidates(FIT, **setting, thresholds=[200]) == []
    with refuses(
        "threshold must leave a width of at most 32 bits with gamma below 1, got 200"
    ):
        best_bits(
            Setting(**setting, threshold=200, alpha=FIT.alpha),
            phi=FIT.phi,
            peak=FIT.peak,
        )


def test_widths_end_where_lanes_do() -> None:
    # A peak far above the law needs a fine grid: here the bound lies in 30..31.
    fit = PowerLaw(alpha=-0.37, phi=1.0, peak=1e7)
    setting = Setting(**SMALL, threshold=3, alpha=fit.alpha)
    assert 30 < min_bits(setting, phi=fit.phi, peak=fit.peak) < 31
    candidates = rank_candidates(fit, **SMALL, thresholds=[3])
    assert sorted(each.bits for each in candidates) == [31, 32]


def test_a_threshold_out_of_range_is_refused() -> None:
    with refuses("threshold must be in 1..20 (n_clients), got 21"):
        rank_candidates(FIT, **SMALL, thresholds=[21])


def test_several_fits_become_medians_with_the_largest_peak() -> None:
    fits = [
        PowerLaw(alpha=-0.3, phi=1.0, peak=5.0, misfit=0.1),
        PowerLaw(alpha=-0.5, phi=3.0, peak=2.0, misfit=0.3),
        PowerLaw(alpha=-0.4, phi=2.0, peak=1.0, misfit=0.5),
    ]
    assert median_law(fits) == PowerLaw(alpha=-0.4, phi=2.0, peak=5.0, misfit=0.3)


def test_no_fits_are_refused() -> None:
    with refuses("fits must have at least 1 law, got 0"):
        median_law([])


def test_cost_is_bytes_over_what_the_error_leaves() -> None:
    assert Candidate(3, 10, 5.0, 100.0, 0.75).cost_bytes == 400.0
