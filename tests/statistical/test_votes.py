"""Votes: every entry has the paper's probability q, whatever the law."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fediac.core.bitpack import unpack_bits
from fediac.core.bounds import Setting, consensus_probability, expected_chosen
from fediac.core.consensus import agree
from fediac.core.corrected import correct
from fediac.core.quantize import Grid, stochastic_round
from fediac.core.rng import Stream
from fediac.core.voting import Law, draw_votes
from tests.statistical.tails import counts_are_likely, hoeffding, means_are_likely

Votes = Callable[[NDArray[Any], int, Stream], NDArray[np.bool_]]

MAGNITUDES = np.array([40.0, -20.0, 10.0, 5.0, -2.5, 1.0, 0.1, 0.001, 0.0])
N_COPIES = 10_000
N_VOTES = 2 * N_COPIES
STREAM = Stream(21, 5, 1).purpose("votes")


def by_law(law: Law) -> Votes:
    def vote(values: NDArray[Any], n_votes: int, stream: Stream) -> NDArray[np.bool_]:
        packed = draw_votes(correct(values, None), n_votes, stream, law=law)
        mask: NDArray[np.bool_] = unpack_bits(packed, len(values))
        return mask

    return vote


def without_saturation(
    values: NDArray[Any], n_votes: int, stream: Stream
) -> NDArray[np.bool_]:
    """The wrong law k·p instead of 1 − (1 − p)^k."""
    share = np.abs(values) / np.sum(np.abs(values))
    mask: NDArray[np.bool_] = stream.uniform_at(np.arange(len(values))) < (
        n_votes * share
    )
    return mask


def by_squares(values: NDArray[Any], n_votes: int, stream: Stream) -> NDArray[np.bool_]:
    return by_law("draws")(np.square(values), n_votes, stream)


def vote_counts(vote: Votes) -> NDArray[np.int64]:
    """How many of many equal copies of each magnitude are voted for."""
    values = np.tile(MAGNITUDES, N_COPIES).astype(np.float32)
    counts: NDArray[np.int64] = (
        vote(values, N_VOTES, STREAM).reshape(N_COPIES, -1).sum(axis=0)
    )
    return counts


def probabilities() -> NDArray[np.float64]:
    values = np.abs(MAGNITUDES.astype(np.float32)).astype(np.float64)
    share = values / (N_COPIES * values.sum())
    q: NDArray[np.float64] = -np.expm1(N_VOTES * np.log1p(-share))
    return q


# Must catch a q that is off by 0.053: with 10,000 copies and nine counts the margin is
# 5.3 standard deviations of at most 0.005.
def test_coins_have_probability_q() -> None:
    assert counts_are_likely(
        vote_counts(by_law("bernoulli")), N_COPIES, probabilities()
    )


# The draws of one client are not independent, but negatively associated: Hoeffding's
# bound holds. Must catch a q that is off by 0.058, twice the bound of 0.029.
@pytest.mark.parametrize("law", ["bernoulli", "draws"])
def test_both_random_laws_share_q(law: Law) -> None:
    rates = vote_counts(by_law(law)) / N_COPIES
    assert means_are_likely(rates, probabilities(), N_COPIES)


@pytest.mark.parametrize("wrong", [without_saturation, by_squares])
def test_wrong_probabilities_are_found(wrong: Votes) -> None:
    counts = vote_counts(wrong)
    assert not counts_are_likely(counts, N_COPIES, probabilities())
    assert not means_are_likely(counts / N_COPIES, probabilities(), N_COPIES)


@pytest.mark.parametrize("law", ["bernoulli", "draws"])
def test_q_holds_for_a_handful_of_entries(law: Law) -> None:
    # Must catch a q that is off by 0.145, twice Hoeffding's bound for 1,500 rounds.
    values = np.array([3.0, -2.0, 1.0], dtype=np.float32)
    counts = np.zeros(3)
    for round_number in range(1500):
        stream = Stream(2, round_number, 0).purpose("votes")
        counts += by_law(law)(values, 2, stream)
    share = np.array([3.0, 2.0, 1.0]) / 6.0
    q = 1.0 - (1.0 - share) ** 2
    assert means_are_likely(counts / 1500, q, 1500)
    # The control: one draw instead of two is a q that the check rejects.
    assert not means_are_likely(counts / 1500, share, 1500)


def test_topk_needs_no_chance() -> None:
    counts = vote_counts(by_law("topk"))
    assert counts.tolist() == [N_COPIES, N_COPIES, 0, 0, 0, 0, 0, 0, 0]


SETTING = Setting(dim=300, n_clients=8, n_votes=60, threshold=3, alpha=-0.6)
N_ROUNDS = 250


def chosen_counts(vote: Votes, threshold: int) -> NDArray[np.int64]:
    """How often each rank is agreed on, over many rounds of clients that rank alike."""
    values = (np.arange(1.0, SETTING.dim + 1.0) ** SETTING.alpha).astype(np.float64)
    counts = np.zeros(SETTING.dim, dtype=np.int64)
    for round_number in range(N_ROUNDS):
        votes = [
            np.packbits(
                vote(
                    values, SETTING.n_votes, Stream(3, round_number, i).purpose("votes")
                ),
                bitorder="little",
            )
            for i in range(SETTING.n_clients)
        ]
        counts += unpack_bits(agree(votes, threshold), SETTING.dim)
    return counts


# Must catch a rank's r that is off by 0.38 (250 rounds, 300 counts: the margin is 5.9
# standard deviations of at most 0.032), and a number of entries agreed on that is off
# by 6 of 300: twice Hoeffding's bound on 75,000 coins, independent for this law.
@pytest.fixture(scope="module")
def agreed() -> NDArray[np.int64]:
    return chosen_counts(by_law("bernoulli"), SETTING.threshold)


def are_as_predicted(counts: NDArray[np.int64]) -> bool:
    ranks = np.arange(1.0, SETTING.dim + 1.0)
    if not counts_are_likely(counts, N_ROUNDS, consensus_probability(ranks, SETTING)):
        return False
    total = counts.sum() / N_ROUNDS
    bound = SETTING.dim * hoeffding(N_ROUNDS * SETTING.dim)
    return bool(abs(total - expected_chosen(SETTING)) <= bound)


def test_ranks_are_agreed_on_as_the_theory_predicts(agreed: NDArray[np.int64]) -> None:
    assert are_as_predicted(agreed)


def test_wrong_threshold_is_found() -> None:
    assert not are_as_predicted(chosen_counts(by_law("bernoulli"), 4))


# Must catch a probability that is off by 0.05: among some 9,750 voted entries the
# margin is 4.9 standard deviations of 0.0051.
def is_rounding_blind_to_votes(rounding: Stream) -> bool:
    values = np.full(200_000, 0.5)
    voted = by_law("bernoulli")(values, 10_000, STREAM)
    grid = Grid(scale=1.0, limit=10, bits_up=8, bits_down=8)
    levels = stochastic_round(values, np.arange(len(values)), grid, rounding)
    n_voted = int(np.count_nonzero(voted))
    assert n_voted > 5000
    return counts_are_likely(int(levels[voted].sum()), n_voted, 0.5)


def test_voted_entries_are_rounded_without_bias() -> None:
    assert is_rounding_blind_to_votes(Stream(21, 5, 1).purpose("rounding"))


def test_rounding_with_the_numbers_of_the_votes_is_found() -> None:
    assert not is_rounding_blind_to_votes(STREAM)
