"""Fedavg and topk: the two that ask nothing of a switch."""

import numpy as np

from fediac.compressors import FedAvg, State, TopK
from fediac.core.exchange import ServerSum, ServerTotals
from tests.unit.compressors.rounds import (
    answer,
    some_update,
    start,
)


class TestFedAvg:
    def test_all_entries_go_to_the_server_and_nothing_is_left(self) -> None:
        update = some_update()
        client = start(FedAvg(2), update)
        asked = answer(client)
        assert isinstance(asked, ServerSum)
        assert asked.values is update
        assert asked.indices is None
        outcome = answer(client, ServerTotals(2 * update, None))
        assert outcome.state == State()
        assert outcome.facts.left_energy == 0.0
        assert np.array_equal(outcome.mean.dense(update), 2 * update)
        assert np.array_equal(update, some_update())


class TestTopK:
    def test_largest_entries_go_to_the_server_with_their_indices(self) -> None:
        client = start(TopK(2, 5), some_update())
        asked = answer(client)
        assert isinstance(asked, ServerSum)
        assert asked.indices is not None
        assert asked.indices.tolist() == [0, 1, 37, 38, 39]
        assert np.array_equal(asked.values, some_update()[asked.indices])

    def test_residual_keeps_the_other_entries(self) -> None:
        client = start(TopK(2, 5), some_update())
        asked = answer(client)
        outcome = answer(client, ServerTotals(asked.values, asked.indices))
        expected = some_update()
        expected[asked.indices] = 0.0
        assert np.array_equal(outcome.state.residual, expected)

    def test_error_is_never_below_zero_when_all_that_is_there_was_sent(self) -> None:
        # The sums of all squares and of the sent ones round differently.
        update = np.zeros(20_000)
        update[::20] = np.random.default_rng(0).standard_normal(1000)
        for first in range(0, 20_000, 1000):
            update[first] = 0.0
            n_sent = np.count_nonzero(update)
            client = start(TopK(1, int(n_sent)), update)
            asked = answer(client)
            total = ServerTotals(asked.values, asked.indices)
            assert answer(client, total).facts.left_energy >= 0.0
