from typing import Any

import numpy as np
import pytest

from fediac.core.bitpack import pack_bits, pack_lanes
from fediac.core.exchange import BlockTotals, IndexedTotals, Totals
from fediac.core.mean import BlockMean, FloatMean, IndexedMean, LaneMean, Mean
from tests.support import Make, bytes_of, kind_of, to_numpy

SCALE = 7.3


def lane_totals(make: Make, levels: Any) -> Totals:
    """Totals of 9-bit lanes with limit 20, as three clients sent them."""
    lanes = pack_lanes(make(levels + 3 * 20), 9)
    return Totals(lanes, len(levels), 9, 20, 3)


def some_levels(n_levels: int) -> Any:
    return np.random.default_rng(n_levels).integers(-40, 41, n_levels)


@pytest.mark.parametrize("share", [0.4, 1.0])
@pytest.mark.parametrize("dim", [1, 7, 100])
def test_lanes_become_means_of_the_chosen_entries(
    make: Make, dtype: type[Any], dim: int, share: float
) -> None:
    mask = np.random.default_rng(dim).random(dim) < share
    mask[0] = True
    levels = some_levels(int(np.count_nonzero(mask)))
    gia = pack_bits(make(mask)) if share < 1.0 else None
    mean = Mean((LaneMean(lane_totals(make, levels), SCALE, gia),))
    like = make(np.full(dim, np.nan, dtype))
    dense = mean.dense(like)
    expected = np.zeros(dim, dtype)
    expected[mask] = (levels / (3 * SCALE)).astype(dtype)
    assert kind_of(dense) == kind_of(like)
    assert to_numpy(dense).dtype == dtype
    assert bytes_of(dense) == expected.tobytes()
    assert np.all(np.isnan(to_numpy(like)))


@pytest.mark.usefixtures("short_chunks")
@pytest.mark.parametrize("share", [0.4, 1.0])
def test_mean_does_not_depend_on_chunks(
    make: Make, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    dim = 3 * 4096 + 5
    mask = np.random.default_rng(dim).random(dim) < share
    mask[4096:8192] = share == 1.0
    totals = lane_totals(make, some_levels(int(np.count_nonzero(mask))))
    part = LaneMean(totals, SCALE, pack_bits(make(mask)) if share < 1.0 else None)
    like = make(np.zeros(dim, dtype=np.float32))
    in_chunks = Mean((part,)).dense(like)
    monkeypatch.setattr("fediac.core.chunks.HOST_CHUNK", 1 << 17)
    assert bytes_of(in_chunks) == bytes_of(Mean((part,)).dense(like))


def test_blocks_stand_where_their_numbers_say(make: Make, dtype: type[Any]) -> None:
    levels = np.arange(6, dtype=np.int32).reshape(2, 3)
    totals = BlockTotals(make(np.array([1, 3])), make(levels), 3)
    dense = Mean((BlockMean(totals, SCALE),)).dense(make(np.zeros(11, dtype)))
    expected = np.zeros(12, dtype)
    expected[3:6], expected[9:12] = (levels / (3 * SCALE)).astype(dtype)
    # The last block reaches beyond the update: what is there is padding.
    assert bytes_of(dense) == expected[:11].tobytes()


def test_many_blocks_are_written_in_steps(make: Make) -> None:
    n_blocks = (1 << 17) // 50 + 9
    levels = np.arange(n_blocks * 50, dtype=np.int32).reshape(-1, 50)
    totals = BlockTotals(make(np.arange(n_blocks)), make(levels), 3)
    dense = Mean((BlockMean(totals, SCALE),)).dense(make(np.zeros(levels.size)))
    assert np.array_equal(to_numpy(dense), levels.ravel() / (3 * SCALE))


def test_addresses_stand_for_their_entries(make: Make, dtype: type[Any]) -> None:
    totals = IndexedTotals(
        make(np.array([0, 2])), make(np.array([5, -8], dtype=np.int32)), 3
    )
    part = IndexedMean(totals, SCALE, make(np.array([4, 6, 9])))
    dense = Mean((part,)).dense(make(np.zeros(10, dtype)))
    expected = np.zeros(10, dtype)
    expected[[4, 9]] = (np.array([5, -8]) / (3 * SCALE)).astype(dtype)
    assert bytes_of(dense) == expected.tobytes()


def test_floats_are_taken_as_they_are(make: Make, dtype: type[Any]) -> None:
    like, values = make(np.zeros(4, dtype)), make(np.array([1.5, 2.5], dtype))
    some = Mean((FloatMean(values, make(np.array([0, 3]))),)).dense(like)
    every = Mean((FloatMean(make(np.arange(4).astype(dtype)), None),)).dense(like)
    assert to_numpy(some).tolist() == [1.5, 0.0, 0.0, 2.5]
    assert to_numpy(every).tolist() == [0.0, 1.0, 2.0, 3.0]


def test_mean_of_nothing_is_zero(make: Make, dtype: type[Any]) -> None:
    dense = Mean().dense(make(np.ones(3, dtype)))
    assert to_numpy(dense).tolist() == [0.0, 0.0, 0.0]
    assert to_numpy(dense).dtype == dtype
