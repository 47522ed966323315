from typing import Any

import numpy as np
import pytest

from fediac.compressors import Libra, choose_hot
from fediac.core.exchange import (
    IndexedSum,
    IndexedTotals,
    Max,
    Peak,
    ServerSum,
    ServerTotals,
)
from tests.support import KINDS, Make, bytes_of, refuses, to_numpy
from tests.unit.compressors.rounds import (
    DIM,
    answer,
    some_update,
    start,
)

AGREED = Peak(4.0)
HOT = np.array([1, 5, 38])


@pytest.fixture(params=sorted(KINDS))
def make(request: pytest.FixtureRequest) -> Make:
    return KINDS[request.param]


def totals(pairs: IndexedSum) -> IndexedTotals:
    return IndexedTotals(pairs.indices, pairs.levels, 2)


def mean(cold: ServerSum) -> ServerTotals:
    return ServerTotals(cold.values, cold.indices)


def test_hot_entries_go_to_the_switch_and_cold_ones_to_the_server(make: Make) -> None:
    # The five largest are entries 0, 1, 37, 38 and 39.
    client = start(Libra(2, 5, HOT), make(some_update()))
    assert answer(client) == Max(4.0)
    pairs, cold = answer(client, AGREED)
    assert isinstance(pairs, IndexedSum)
    assert to_numpy(pairs.indices).tolist() == [0, 2]
    assert pairs.size == 3
    assert isinstance(cold, ServerSum)
    assert to_numpy(cold.indices).tolist() == [0, 37, 39]
    assert np.array_equal(to_numpy(cold.values), some_update()[[0, 37, 39]])


def test_residual_keeps_the_other_entries_and_the_rounding_error(make: Make) -> None:
    client = start(Libra(2, 5, HOT), make(some_update()))
    answer(client)
    pairs, cold = answer(client, AGREED)
    outcome = answer(client, totals(pairs), mean(cold))
    residual = to_numpy(outcome.state.residual)
    others = np.delete(np.arange(DIM), [0, 1, 37, 38, 39])
    assert np.array_equal(residual[others], some_update()[others])
    assert residual[[0, 37, 39]].tolist() == [0.0, 0.0, 0.0]
    assert np.all(np.abs(residual[[1, 38]]) <= 1.0 / outcome.facts.scale)


def test_mean_puts_both_parts_together(make: Make) -> None:
    update = make(some_update())
    client = start(Libra(2, 5, HOT), update)
    answer(client)
    pairs, cold = answer(client, AGREED)
    outcome = answer(client, totals(pairs), mean(cold))
    dense = to_numpy(outcome.mean.dense(update))
    assert np.flatnonzero(dense).tolist() == [0, 1, 37, 38, 39]
    levels = to_numpy(pairs.levels) / (2 * outcome.facts.scale)
    assert np.array_equal(dense[[1, 38]], levels.astype(np.float32))


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.uint64])
def test_hot_entries_may_be_whole_numbers_of_any_kind(make: Make, dtype: Any) -> None:
    update = make(some_update())
    means = []
    for hot in (HOT, HOT.astype(dtype)):
        client = start(Libra(2, 5, hot), update)
        answer(client)
        pairs, cold = answer(client, AGREED)
        outcome = answer(client, totals(pairs), mean(cold))
        means.append(bytes_of(outcome.mean.dense(update)))
    assert means[0] == means[1]


def test_without_hot_entries_only_the_server_is_asked(make: Make) -> None:
    client = start(Libra(2, 5), make(some_update()))
    answer(client)
    cold = answer(client, AGREED)
    assert isinstance(cold, ServerSum)
    assert to_numpy(cold.indices).tolist() == [0, 1, 37, 38, 39]
    outcome = answer(client, mean(cold))
    assert len(outcome.mean.parts) == 1


def test_where_all_is_hot_only_the_switch_is_asked(make: Make) -> None:
    update = make(some_update())
    client = start(Libra(2, 5, np.arange(DIM)), update)
    answer(client)
    pairs = answer(client, AGREED)
    assert isinstance(pairs, IndexedSum)
    assert to_numpy(pairs.indices).tolist() == [0, 1, 37, 38, 39]
    outcome = answer(client, totals(pairs))
    assert len(outcome.mean.parts) == 1
    moved = np.flatnonzero(to_numpy(outcome.mean.dense(update)))
    assert moved.tolist() == [0, 1, 37, 38, 39]


def test_client_with_no_hot_entry_still_asks_both(make: Make) -> None:
    client = start(Libra(2, 1, HOT), make(some_update()))
    answer(client)
    pairs, cold = answer(client, AGREED)
    assert pairs.indices.shape[0] == 0
    assert to_numpy(cold.indices).tolist() == [39]


def test_as_published_pairs_have_64_bits_and_cold_entries_are_floats() -> None:
    client = start(Libra(2, 5, HOT), some_update())
    answer(client)
    pairs, cold = answer(client, AGREED)
    assert (pairs.bits, pairs.index_bits) == (32, 32)
    assert (cold.bits, cold.index_bits) == (None, 32)


def test_narrow_indices_have_the_bits_that_tell_places_apart(make: Make) -> None:
    # Two bits tell three registers apart, six tell 40 entries.
    client = start(Libra(2, 5, HOT, narrow=True), make(some_update()))
    answer(client)
    pairs, cold = answer(client, AGREED)
    assert (pairs.bits, pairs.index_bits) == (32, 2)
    assert (cold.bits, cold.index_bits) == (None, 6)
    assert np.array_equal(to_numpy(cold.values), some_update()[[0, 37, 39]])


def test_of_fewer_bits_all_entries_are_levels_whose_sum_fits(make: Make) -> None:
    client = start(Libra(3, DIM, HOT, bits=8), make(some_update()))
    answer(client)
    pairs, cold = answer(client, AGREED)
    assert (pairs.bits, cold.bits) == (8, 8)
    levels = np.concatenate([to_numpy(pairs.levels), to_numpy(cold.values)])
    assert np.array_equal(levels, np.rint(levels))
    assert len(levels) == DIM
    assert 3 * np.abs(levels).max() <= 127


def test_of_fewer_bits_residual_and_mean_share_what_an_entry_had(make: Make) -> None:
    update = make(some_update())
    client = start(Libra(1, 5, HOT, bits=8), update)
    answer(client)
    pairs, cold = answer(client, AGREED)
    outcome = answer(client, totals(pairs), mean(cold))
    sent, left = to_numpy(outcome.mean.dense(update)), to_numpy(outcome.state.residual)
    assert sent.dtype == left.dtype == np.float32
    assert np.any(left[[0, 37]])  # rounding errors of cold entries are kept, too
    # Two clients are counted but one has sent: half of each total is in the mean of
    # hot entries; the server's is the client's own. Each number is rounded to float32
    # once, to half of its last bit.
    sent[HOT] *= 2
    tolerance = np.finfo(np.float32).eps / 2 * (np.abs(sent) + np.abs(left))
    assert np.all(np.abs(sent + left - some_update()) <= tolerance)
    assert np.sum(left**2.0) == pytest.approx(outcome.facts.left_energy)


def test_hot_entries_are_those_counted_most(make: Make) -> None:
    counts = make(np.array([3, 0, 7, 3, 9, 3]))
    assert to_numpy(choose_hot(counts, 3)).tolist() == [0, 2, 4]
    assert to_numpy(choose_hot(counts, 6)).tolist() == [0, 1, 2, 3, 4, 5]


def test_hot_entries_are_those_most_often_among_the_largest(make: Make) -> None:
    updates = [[9, 8, 0, 1], [0, 8, 0, 9], [0, 7, 8, 1], [-8, 7, 0, 0]]
    samples = (make(np.array(each, dtype=np.float32)) for each in updates)
    # Of the two largest, entry 1 is one four times and entry 0 twice.
    assert to_numpy(Libra(4, 2).find_hot(samples, 2)).tolist() == [0, 1]


def test_no_more_entries_are_hot_than_there_are(make: Make) -> None:
    update = make(np.arange(1, 5, dtype=np.float32))
    hot = Libra(2, 1).find_hot([update], n_addresses=1000)
    assert to_numpy(hot).tolist() == [0, 1, 2, 3]
    with refuses("updates must be at least one, got none"):
        Libra(2, 1).find_hot([], n_addresses=1000)


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        (np.ones((2, 3)), "counts must be a vector, got shape (2, 3)"),
        (np.array(3), "counts must be a vector, got shape ()"),
        (np.array([-9, 1, 2]), "counts must be at least 0, got a negative one or NaN"),
        (np.array([np.nan, 1]), "counts must be at least 0, got a negative one or NaN"),
    ],
)
def test_counts_are_counts(counts: Any, text: str) -> None:
    with refuses(text):
        choose_hot(counts, 1)


@pytest.mark.parametrize("n_hot", [0, 7])
def test_number_of_hot_entries_must_fit(n_hot: int) -> None:
    with refuses(f"n_hot must be in 1..6 (dim), got {n_hot}"):
        choose_hot(np.arange(6), n_hot)
