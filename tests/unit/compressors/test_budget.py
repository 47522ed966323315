"""A budget in MiB a round: how many votes it pays for."""

from typing import Any

import numpy as np
import pytest
import torch

from fediac import PAYLOAD, FediAC, State, aggregate
from fediac.compressors.forecast import Conditions
from tests.support import refuses

DIM = 20_000
N_CLIENTS = 8


def updates(number: int) -> list[Any]:
    """Clients that agree on half of what is large for each."""
    rng = np.random.default_rng(number)
    common = rng.standard_normal(DIM)
    own = rng.standard_normal((N_CLIENTS, DIM))
    return list(((common + own) * np.geomspace(1.0, 1e-2, DIM)).astype(np.float32))


def spend(compressor: FediAC, n_rounds: int, make: Any = updates) -> list[float]:
    """Return what each round took, in MiB."""
    states, spent = [State()] * compressor.n_clients, []
    for number in range(1, n_rounds + 1):
        done = aggregate(
            make(number), compressor, seed=1, round_number=number, states=states
        )
        states = list(done.states)
        spent.append(done.ledger.traffic(PAYLOAD).payload_mib)
    return spent


@pytest.mark.parametrize("budget", [0.02, 0.05, 0.12])
@pytest.mark.parametrize("threshold", [1, 2, 3])
def test_rounds_take_what_the_budget_says(budget: float, threshold: int) -> None:
    lean = FediAC.lean(N_CLIENTS, threshold=threshold, budget_mib=budget)
    spent = spend(lean, 12)
    # Only so many votes are cast at first that they cannot be too many. A group more
    # or fewer is 32 entries of 8 clients, 0.0003 MiB for each 10 bits.
    assert spent[0] <= budget
    assert np.mean(spent[6:]) == pytest.approx(budget, rel=0.15)


@pytest.mark.parametrize("bits", ["bound", "tuned", 9])
def test_a_budget_knows_the_width_that_was_agreed_on(bits: Any) -> None:
    agreed = FediAC(N_CLIENTS, law="topk", bits=bits, budget_mib=0.1)
    assert np.mean(spend(agreed, 12)[6:]) == pytest.approx(0.1, rel=0.15)


def test_votes_are_the_same_without_a_budget() -> None:
    plain = FediAC.lean(N_CLIENTS)
    assert plain.count_votes(DIM, State()) == plain.count_votes(DIM) == 1024


def test_more_than_all_entries_is_not_voted_for() -> None:
    rich = FediAC.lean(N_CLIENTS, budget_mib=1000.0)
    assert rich.count_votes(DIM) == DIM
    assert spend(rich, 2)[1] < 1.0


def test_a_client_that_joins_later_begins_as_the_others_did() -> None:
    lean = FediAC.lean(N_CLIENTS, budget_mib=0.05)
    states = [State()] * N_CLIENTS
    for number in (1, 2, 3):
        done = aggregate(
            updates(number), lean, seed=1, round_number=number, states=states
        )
        states = list(done.states)
    states[3] = State()
    done = aggregate(updates(4), lean, seed=1, round_number=4, states=states)
    assert lean.count_votes(DIM, states[2]) > lean.count_votes(DIM, states[3])
    assert done.facts.chosen > 0


def test_what_is_kept_is_of_the_updates_library() -> None:
    lean = FediAC.lean(N_CLIENTS, budget_mib=0.05)
    done = aggregate(
        [torch.from_numpy(each) for each in updates(1)], lean, seed=1, round_number=1
    )
    assert all(
        isinstance(kept, torch.Tensor)
        for state in done.states
        for kept in state.extras.values()
    )
    same = aggregate(updates(1), lean, seed=1, round_number=1)
    assert [lean.count_votes(DIM, each) for each in same.states] == [
        lean.count_votes(DIM, each) for each in done.states
    ]


def test_a_round_in_which_nobody_agrees_lets_clients_vote_for_more() -> None:
    # Each client's large entries are its own.
    own = np.repeat(np.eye(N_CLIENTS, dtype=np.float32), DIM // N_CLIENTS, axis=1)
    lean = FediAC.lean(N_CLIENTS, budget_mib=0.05)
    done = aggregate(list(own), lean, seed=1, round_number=1)
    assert done.facts.chosen == 0
    assert lean.count_votes(DIM, done.states[0]) == 2 * lean.count_votes(DIM)


def test_a_round_without_anything_to_send_changes_no_votes() -> None:
    zeros = [np.zeros(DIM, dtype=np.float32)] * N_CLIENTS
    lean = FediAC.lean(N_CLIENTS, budget_mib=0.05)
    done = aggregate(zeros, lean, seed=1, round_number=1)
    assert lean.count_votes(DIM, done.states[0]) == lean.count_votes(DIM)


def test_what_is_expected_of_a_round_is_the_budget() -> None:
    lean = FediAC.lean(N_CLIENTS, budget_mib=0.12)
    (tally,), (total,) = lean.expect(Conditions(DIM))
    up, down = total.widths
    n_bits = tally.up + tally.down + up * total.up + down * total.down
    assert N_CLIENTS * n_bits / 8 / 2**20 == pytest.approx(0.12, rel=0.01)


@pytest.mark.parametrize("budget", [0.0, -1.0, float("inf"), float("nan")])
def test_a_budget_is_a_number_above_0(budget: float) -> None:
    with refuses(f"budget_mib must be finite and above 0, got {budget}"):
        FediAC(4, budget_mib=budget)


@pytest.mark.parametrize("budget", ["3", True])
def test_a_budget_is_a_number(budget: Any) -> None:
    with refuses(f"budget_mib must be a number or None, got {budget!r}", TypeError):
        FediAC(4, budget_mib=budget)


def test_a_budget_pays_for_the_votes_at_least() -> None:
    lean = FediAC.lean(N_CLIENTS, budget_mib=0.001)
    message = (
        "budget_mib must be at least 0.0015 (votes and one group of 8 clients), "
        "got 0.001"
    )
    with refuses(message):
        lean.check_dim(DIM)
