from typing import Any

import numpy as np
import pytest

from fediac.compressors import Libra, State, choose_hot
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
    EVERYONE,
    STREAM,
    answer,
    some_update,
    start,
)

AGREED = Peak(4.0, EVERYONE)
HOT = np.array([1, 5, 38])


@pytest.fixture(params=sorted(KINDS))
def make(request: pytest.FixtureRequest) -> Make:
    return KINDS[request.param]


def totals(pairs: IndexedSum) -> IndexedTotals:
    return IndexedTotals(pairs.indices, pairs.levels, EVERYONE)


def mean(cold: ServerSum) -> ServerTotals:
    return ServerTotals(cold.values, cold.indices, EVERYONE)


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


def test_without_residual_nothing_is_kept() -> None:
    update = some_update()
    client = start(Libra(2, 5, HOT, residual=False), update)
    answer(client)
    pairs, cold = answer(client, AGREED)
    assert answer(client, totals(pairs), mean(cold)).state == State()
    assert np.array_equal(update, some_update())


def test_zero_peak_sends_nothing() -> None:
    client = start(Libra(2, 5, HOT), np.zeros(DIM))
    answer(client)
    outcome = answer(client, Peak(0.0, EVERYONE))
    assert outcome.mean.parts == ()
    assert outcome.state.bits is None


def test_hot_entries_are_those_counted_most(make: Make) -> None:
    counts = make(np.array([3, 0, 7, 3, 9, 3]))
    assert to_numpy(choose_hot(counts, 3)).tolist() == [0, 2, 4]
    assert to_numpy(choose_hot(counts, 6)).tolist() == [0, 1, 2, 3, 4, 5]


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


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"n_clients": 0}, "n_clients must be at least 1, got 0"),
        ({"n_sent": 0}, "n_sent must be at least 1, got 0"),
    ],
)
def test_settings_out_of_range_are_refused(settings: Any, text: str) -> None:
    with refuses(text):
        Libra(**{"n_clients": 20, "n_sent": 5} | settings)


def test_more_entries_than_there_are_is_refused_before_anything_is_written() -> None:
    residual = some_update()
    client = Libra(2, DIM + 1).run_round(
        some_update(), State(residual), STREAM, out=residual
    )
    with refuses(f"n_sent must be in 1..{DIM} (dim), got {DIM + 1}"):
        next(client)
    assert np.array_equal(residual, some_update())
