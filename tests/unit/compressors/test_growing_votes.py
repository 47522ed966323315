"""Votes that grow while clients agree on too little."""

from typing import Any

import numpy as np
import pytest

from fediac import FediAC, aggregate
from fediac.compressors import State
from fediac.compressors.forecast import Conditions
from fediac.compressors.growing_votes import GrowingVotes
from tests.support import refuses

DIM = 4000
LIKE = np.zeros(1, dtype=np.float32)


def follow(votes: GrowingVotes, *chosen: int) -> list[int]:
    """Return for how many entries a client votes after each of some rounds."""
    state, counts = State(), []
    for each in chosen:
        state = votes.follow(state, each, like=LIKE)
        counts.append(votes.count_votes(state))
    return counts


def test_a_new_client_votes_for_k_entries() -> None:
    assert GrowingVotes(100, 0.05, DIM).count_votes(State()) == 100


def test_votes_grow_after_rounds_that_agreed_on_fewer_than_k() -> None:
    assert follow(GrowingVotes(100, 0.05, DIM), 99, 0, 50) == [105, 111, 117]


def test_votes_shrink_to_k_when_enough_is_agreed_on_again() -> None:
    counts = follow(GrowingVotes(100, 0.05, DIM), 0, 0, 100, 400, 400, 400)
    assert counts == [105, 111, 105, 100, 100, 100]


def test_votes_are_for_all_entries_at_most() -> None:
    assert follow(GrowingVotes(3900, 0.5, DIM), 0, 0, 0) == [4000, 4000, 4000]


def test_votes_are_for_k_entries_at_least_where_k_was_less_before() -> None:
    state = GrowingVotes(100, 0.05, DIM).follow(State(), 0, like=LIKE)
    assert GrowingVotes(400, 0.05, DIM).count_votes(state) == 400
    assert GrowingVotes(50, 0.05, 60).count_votes(state) == 60


def test_votes_are_ten_times_k_at_most() -> None:
    assert follow(GrowingVotes(100, 1.0, DIM), 0, 0, 0, 0, 0) == [
        *(200, 400, 800, 1000, 1000)
    ]


def test_a_single_vote_grows_too() -> None:
    assert follow(GrowingVotes(1, 0.01, DIM), 0, 0) == [2, 3]


def test_clients_that_agree_on_nothing_vote_for_more_every_round() -> None:
    # Each client's large entries are its own; the others agree to the bit.
    rng = np.random.default_rng(1)
    updates = [rng.normal(0.0, 0.01, DIM).astype(np.float32) for _ in range(4)]
    for i, each in enumerate(updates):
        each[1000 * i : 1000 * i + 200] += 1.0
    growing = FediAC(
        4, n_votes=160, threshold=4, bits=9, law="topk", entries_per_vote=8, growth=0.1
    )
    states: Any = None
    votes = []
    for number in range(1, 5):
        result = aggregate(updates, growing, seed=1, round_number=number, states=states)
        states = result.states
        votes.append(result.facts.votes)
        assert result.facts.chosen < 160
    assert votes == sorted(set(votes))
    assert {growing.count_votes(DIM, state) for state in states} == {236}


def test_votes_do_not_grow_where_there_is_nothing_to_send() -> None:
    lean = FediAC.lean(4, n_votes="2%")
    done = aggregate([np.zeros(DIM, np.float32)] * 4, lean, seed=1, round_number=1)
    assert {lean.count_votes(DIM, each) for each in done.states} == {80}


@pytest.mark.parametrize(("threshold", "n_chosen"), [(10, 200), (1, 1605)])
def test_as_many_are_expected_to_be_agreed_on_as_shall_be(
    threshold: int, n_chosen: int
) -> None:
    growing = FediAC(10, n_votes=200, threshold=threshold, growth=0.05)
    _, (total,) = growing.expect(Conditions(DIM))
    assert total.up == total.down == n_chosen
    assert growing.measured is None


def test_votes_do_not_grow_by_default() -> None:
    result = aggregate([LIKE] * 2, FediAC(2), seed=1, round_number=1)
    assert all(not state.extras for state in result.states)


def test_a_budget_comes_before_growth() -> None:
    state = State(extras={"votes_to_cast": np.array([3000])})
    lean = FediAC.lean(4, budget_mib=0.1)
    assert lean.count_votes(DIM, state) == lean.count_votes(DIM)


@pytest.mark.parametrize("growth", [-0.1, 1.5, float("nan")])
def test_growth_is_a_share(growth: float) -> None:
    with refuses(f"growth must be in 0..1, got {growth}"):
        FediAC(4, growth=growth)


@pytest.mark.parametrize("growth", ["5%", True, None])
def test_growth_is_a_number(growth: Any) -> None:
    with refuses(f"growth must be a number, got {growth!r}", TypeError):
        FediAC(4, growth=growth)
