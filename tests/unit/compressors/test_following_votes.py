"""Votes that follow what was agreed on."""

from typing import Any

import numpy as np
import pytest

from fediac import FediAC, aggregate
from fediac.compressors import State
from fediac.compressors.following_votes import FollowingVotes
from fediac.compressors.forecast import Conditions
from tests.support import refuses

DIM = 4000
LIKE = np.zeros(1, dtype=np.float32)


def following(n_votes: int = 100, **changes: Any) -> FollowingVotes:
    """Return votes that begin with as many entries as shall be agreed on."""
    settings = {"n_least": 1, "n_most": DIM, "fastest": 1.1, "key": "k", **changes}
    return FollowingVotes(n_first=n_votes, n_agreed=n_votes, **settings)


def follow(votes: FollowingVotes, *chosen: int) -> list[int]:
    """Return for how many entries a client votes after each of some rounds."""
    state, counts = State(), []
    for each in chosen:
        state = votes.follow(state, each, like=LIKE)
        counts.append(votes.count_votes(state))
    return counts


def test_a_new_client_votes_for_as_many_as_it_begins_with() -> None:
    assert following().count_votes(State()) == 100


def test_votes_grow_by_the_share_at_most() -> None:
    assert follow(following(), 99, 0, 50) == [101, 111, 122]


def test_votes_shrink_by_the_share_at_most() -> None:
    assert follow(following(), 101, 400, 100_000) == [99, 90, 82]


def test_votes_stay_where_as_many_are_agreed_on_as_shall_be() -> None:
    assert follow(following(), 100, 100) == [100, 100]


def test_votes_change_by_the_root_of_what_is_missing() -> None:
    assert follow(following(fastest=2.0), 64, 400) == [125, 62]


@pytest.mark.parametrize(
    ("n_chosen", "counts"), [(0, [110, 120, 120]), (9999, [91, 85, 85])]
)
def test_votes_stay_between_the_fewest_and_the_most(
    n_chosen: int, counts: list[int]
) -> None:
    votes = following(n_least=85, n_most=120)
    assert follow(votes, n_chosen, n_chosen, n_chosen) == counts


def test_limits_hold_for_what_was_kept_under_others() -> None:
    state = following().follow(State(), 100, like=LIKE)
    assert following(n_least=400).count_votes(state) == 400
    assert following(n_most=60).count_votes(state) == 60


def test_few_votes_change_by_one_at_least() -> None:
    assert follow(following(2, fastest=1.01), 0, 9, 9, 9) == [3, 2, 1, 1]


def test_growing_votes_are_ten_times_k_at_most() -> None:
    growing = FediAC(4, n_votes="5%", growth=1.0)
    state, counts = State(), []
    for _ in range(5):
        votes = growing._following(DIM, state)
        assert votes is not None
        state = votes.follow(state, 0, like=LIKE)
        counts.append(growing.count_votes(DIM, state))
    assert counts == [400, 800, 1600, 2000, 2000]


@pytest.mark.parametrize(("n_votes", "n_least"), [("5%", 200), ("50%", 1024)])
def test_growing_votes_are_never_fewer_than_fill_a_packet(
    n_votes: str, n_least: int
) -> None:
    votes = FediAC(4, n_votes=n_votes, growth=0.1)._following(DIM, State())
    assert votes is not None
    assert follow(votes, *[DIM] * 20)[-1] == n_least


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
    assert {growing.count_votes(DIM, state) for state in states} == {234}


def test_votes_do_not_grow_where_there_is_nothing_to_send() -> None:
    lean = FediAC.lean(4, n_votes="2%")
    done = aggregate([np.zeros(DIM, np.float32)] * 4, lean, seed=1, round_number=1)
    assert {lean.count_votes(DIM, each) for each in done.states} == {80}


@pytest.mark.parametrize("threshold", [1, 10])
def test_as_many_are_expected_to_be_agreed_on_as_shall_be(threshold: int) -> None:
    growing = FediAC(10, n_votes=200, threshold=threshold, growth=0.05)
    _, (total,) = growing.expect(Conditions(DIM))
    assert total.up == total.down == 200
    assert growing.measured is None


def test_votes_do_not_grow_by_default() -> None:
    result = aggregate([LIKE] * 2, FediAC(2), seed=1, round_number=1)
    assert all(not state.extras for state in result.states)


def test_a_budget_comes_before_growth() -> None:
    state = State(extras={"votes_to_cast": np.array([3000])})
    assert FediAC.lean(4).count_votes(DIM, state) == 3000
    lean = FediAC.lean(4, budget_mib=0.004)
    assert lean.count_votes(DIM, state) == lean.count_votes(DIM) < 3000


@pytest.mark.parametrize("growth", [-0.1, 1.5, float("nan")])
def test_growth_is_a_share(growth: float) -> None:
    with refuses(f"growth must be in 0..1, got {growth}"):
        FediAC(4, growth=growth)


@pytest.mark.parametrize("growth", ["5%", True, None])
def test_growth_is_a_number(growth: Any) -> None:
    with refuses(f"growth must be a number, got {growth!r}", TypeError):
        FediAC(4, growth=growth)
