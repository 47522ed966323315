import numpy as np

from fediac.compressors import OmniReduce
from fediac.core.exchange import BlockSum, BlockTotals, Max, Peak
from tests.unit.compressors.rounds import (
    DIM,
    answer,
    some_update,
    start,
)

AGREED = Peak(4.0)


def test_blocks_with_a_top_entry_are_sent_and_zero_elsewhere() -> None:
    # The five largest of forty are entries 0, 1, 37, 38 and 39.
    client = start(OmniReduce(2, 5, block=6), some_update())
    assert answer(client) == Max(4.0)
    asked = answer(client, AGREED)
    assert isinstance(asked, BlockSum)
    assert asked.blocks.tolist() == [0, 6]
    assert asked.levels.shape == (2, 6)
    assert asked.levels.dtype == np.int32
    places = np.argwhere(asked.levels != 0).tolist()
    assert places == [[0, 0], [0, 1], [1, 1], [1, 2], [1, 3]]


def test_residual_keeps_the_other_entries_and_the_rounding_error() -> None:
    client = start(OmniReduce(2, 5, block=6), some_update())
    answer(client)
    asked = answer(client, AGREED)
    outcome = answer(client, BlockTotals(asked.blocks, asked.levels, 2))
    residual, sent = outcome.state.residual, [0, 1, 37, 38, 39]
    others = np.delete(np.arange(DIM), sent)
    assert np.array_equal(residual[others], some_update()[others])
    assert np.all(np.abs(residual[sent]) <= 1.0 / outcome.facts.scale)
    assert (outcome.facts.n_votes, outcome.facts.n_chosen) == (5, 5)


def test_zeros_are_not_sent_even_when_k_has_room() -> None:
    update = np.zeros(DIM, dtype=np.float32)
    update[13] = -2.0
    client = start(OmniReduce(2, 5, block=6), update)
    answer(client)
    asked = answer(client, AGREED)
    assert asked.blocks.tolist() == [2]


def test_client_without_blocks_still_asks() -> None:
    client = start(OmniReduce(2, 5, block=6), np.zeros(DIM, dtype=np.float32))
    answer(client)
    asked = answer(client, AGREED)
    assert asked.blocks.tolist() == []
    assert asked.levels.shape == (0, 6)
