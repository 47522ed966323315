import math
from typing import Any

import numpy as np
import pytest
import torch

from fediac import aggregate
from fediac.compressors import FediAC
from fediac.core.bitpack import MAX_LANE_BITS
from fediac.core.groups import RankBy
from fediac.errors import FediacError
from fediac.runs.server_tuning import tune_on_server
from tests.support import refuses

DIM, N, N_VOTES = 20_000, 8, 1_000


def make_updates(kind: str = "numpy", seed: int = 0) -> list[Any]:
    """Power-law updates whose large entries clients share in part."""
    rng = np.random.default_rng(seed)
    ranks = rng.permutation(DIM) + 1
    updates = []
    for _ in range(N):
        noise = rng.lognormal(0.0, 0.5, DIM)
        sizes = ranks**-0.6 * noise * rng.choice([-1, 1], DIM)
        updates.append(sizes.astype(np.float32))
    return [torch.from_numpy(each) if kind == "torch" else each for each in updates]


def tune(updates: list[Any], **changes: Any) -> list[Any]:
    settings: dict[str, Any] = {"n_votes": N_VOTES, "law": "bernoulli", "seed": 1}
    return tune_on_server(updates, **settings | changes)


def test_candidates_are_ranked_by_bytes_for_the_progress_made() -> None:
    candidates = tune(make_updates())
    costs = [each.cost_bytes for each in candidates]
    assert costs == sorted(costs)
    assert all(0.0 < each.gamma < 1.0 for each in candidates)
    assert {each.threshold for each in candidates} == {1, 2, 3, 4}
    for each in candidates:
        payload = 2 * N * (DIM + each.bits * each.expected_chosen) / 8
        assert each.payload_bytes == payload


@pytest.mark.parametrize(
    ("entries_per_vote", "rank_by"), [(1, "peak"), (16, "peak"), (16, "rms")]
)
def test_the_promise_is_what_a_round_keeps(
    entries_per_vote: int, rank_by: RankBy
) -> None:
    updates = make_updates()
    voting: Any = {
        "law": "topk",
        "entries_per_vote": entries_per_vote,
        "rank_by": rank_by,
    }
    best = tune(updates, **voting)[0]
    compressor = FediAC(N, N_VOTES, best.threshold, bits=best.bits, **voting)
    done = aggregate(updates, compressor, seed=99, round_number=1)
    facts = done.facts
    assert facts.chosen == best.expected_chosen
    assert done.ledger.traffic().payload_bits == 8 * best.payload_bytes
    # What is not chosen is lost for certain. Each rounding error is in 0..1 steps of
    # 1/f when squared, 1/4 on average at most: by Hoeffding their sum is above that by
    # more than sqrt(n ln(1e6) / 2) less than once in a million.
    n_rounded = N * facts.chosen
    energy = sum(float(np.sum(np.square(each, dtype=np.float64))) for each in updates)
    unit = 1.0 / (facts.scale**2 * energy)
    more = math.sqrt(n_rounded * math.log(1e6) / 2.0) * unit
    assert best.gamma - n_rounded / 4.0 * unit <= facts.gamma <= best.gamma + more
    assert more < 0.1 * best.gamma


def test_tensors_and_arrays_give_the_same_choice() -> None:
    assert tune(make_updates("torch")) == tune(make_updates())


def test_the_trial_has_random_numbers_of_its_own() -> None:
    updates = make_updates()
    assert tune(updates) == tune(updates)
    assert tune(updates, seed=2) != tune(updates)


def test_widths_stay_within_a_lane() -> None:
    # Nearly flat updates with one huge entry: the bound asks for more than 32 bits.
    rng = np.random.default_rng(1)
    updates = []
    for _ in range(N):
        update = rng.uniform(0.9, 1.0, DIM).astype(np.float32) * np.float32(1e-6)
        update[0] = 1e6
        updates.append(update)
    for each in tune(updates):
        assert each.bits <= MAX_LANE_BITS


def test_thresholds_that_nothing_reaches_are_left_out() -> None:
    # Everyone votes for an entry that nobody else has.
    updates = []
    for client in range(N):
        update = np.full(DIM, 1e-8, dtype=np.float32)
        update[client] = 1.0
        updates.append(update)
    candidates = tune(updates, n_votes=1, law="topk")
    assert {each.threshold for each in candidates} <= {1}


def test_updates_without_a_law_are_refused() -> None:
    with refuses(
        "the first round's updates must have at least 2 entries that are not zero to "
        "fit a power law, and no client's has",
        FediacError,
    ):
        tune([np.zeros(DIM, dtype=np.float32)] * 2)


def test_a_client_that_learned_nothing_does_not_stop_the_others() -> None:
    assert tune([*make_updates(), np.zeros(DIM, dtype=np.float32)])
