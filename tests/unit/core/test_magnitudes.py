from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fediac.core.bitpack import unpack_bits
from fediac.core.chunks import HOST_CHUNK
from fediac.core.magnitudes import N_PATTERNS, largest, pattern_counts
from tests.support import Make, refuses, to_numpy

pytestmark = pytest.mark.usefixtures("both_paths")


def leading_patterns(values: NDArray[Any]) -> NDArray[np.int64]:
    bits = np.abs(values).astype(np.float32).view(np.uint32)
    patterns: NDArray[np.int64] = (bits >> 16).astype(np.int64)
    return patterns


def largest_by_sorting(values: NDArray[Any], n_largest: int) -> NDArray[np.bool_]:
    order = np.argsort(-np.abs(values), kind="stable")
    mask = np.zeros(values.shape[0], dtype=np.bool_)
    mask[order[:n_largest]] = True
    return mask


def update_with_ties(dim: int, dtype: type[Any]) -> NDArray[Any]:
    rng = np.random.default_rng(7)
    values = (rng.standard_normal(dim) * 1e-3).astype(dtype)
    values[::7] = 0.0
    values[3::5] = -values[3] if dim > 3 else 0.0
    return values


class TestPatternCounts:
    @pytest.mark.parametrize("dim", [0, 1, 9, HOST_CHUNK, HOST_CHUNK + 5])
    def test_every_entry_is_counted_under_its_leading_bits(
        self, make: Make, dtype: type[Any], dim: int
    ) -> None:
        values = update_with_ties(dim, dtype)
        counts = to_numpy(pattern_counts(make(values)))
        expected = np.bincount(leading_patterns(values), minlength=N_PATTERNS)
        assert counts.dtype == np.int64
        assert np.array_equal(counts, expected)

    def test_signs_do_not_matter(self, make: Make, dtype: type[Any]) -> None:
        counts = to_numpy(pattern_counts(make(np.array([2.0, -2.0, 0.0, -0.0], dtype))))
        assert (counts[0x4000], counts[0]) == (2, 2)

    def test_what_is_not_finite_stands_at_the_end(
        self, make: Make, dtype: type[Any]
    ) -> None:
        values = np.array([np.inf, -np.inf, np.nan, 3e38], dtype)
        counts = to_numpy(pattern_counts(make(values)))
        assert counts[0x7F80:].sum() == 3
        assert counts[0x7F80] == 2

    def test_float64_is_rounded_to_float32_first(self, make: Make) -> None:
        # One bin begins at 1 + 1/128; 2^-40 below it is nearer to it than to any
        # float32 beneath, and 1e300 is nearest to float32's infinity.
        values = np.array([1 + 2.0**-7 - 2.0**-40, 1e300])
        counts = to_numpy(pattern_counts(make(values)))
        assert (counts[0x3F80], counts[0x3F81], counts[0x7F80]) == (0, 1, 1)

    def test_a_strided_view_is_read_as_it_stands(self, make: Make) -> None:
        values = update_with_ties(1000, np.float32)
        counts = to_numpy(pattern_counts(make(values)[::2]))
        expected = np.bincount(leading_patterns(values[::2]), minlength=N_PATTERNS)
        assert np.array_equal(counts, expected)


class TestLargest:
    @pytest.mark.parametrize(
        ("dim", "n_largest"),
        [(1, 1), (9, 4), (1000, 1), (1000, 300), (1000, 930), (1000, 1000)],
    )
    def test_it_is_what_a_stable_sort_would_choose(
        self, make: Make, dtype: type[Any], dim: int, n_largest: int
    ) -> None:
        values = update_with_ties(dim, dtype)
        packed = to_numpy(largest(make(values), n_largest))
        assert packed.dtype == np.uint8
        mask = unpack_bits(packed, dim)
        assert np.array_equal(mask, largest_by_sorting(values, n_largest))

    def test_chunks_share_their_ties(self, make: Make, dtype: type[Any]) -> None:
        dim = 2 * HOST_CHUNK + 11
        values = np.ones(dim, dtype)
        values[-1] = 2.0
        mask = unpack_bits(to_numpy(largest(make(values), HOST_CHUNK + 4)), dim)
        expected = [*range(HOST_CHUNK + 3), dim - 1]
        assert np.array_equal(np.flatnonzero(mask), expected)

    def test_zeros_fill_up_when_too_few_entries_are_not_zero(
        self, make: Make, dtype: type[Any]
    ) -> None:
        values = np.array([0.0, 0.0, -3.0, 0.0, 1.0], dtype)
        mask = unpack_bits(to_numpy(largest(make(values), 4)), 5)
        assert mask.tolist() == [True, True, True, False, True]

    @pytest.mark.parametrize("place", [0, 16, 32, 48])
    def test_float64_magnitudes_are_told_apart_by_any_bit(
        self, make: Make, place: int
    ) -> None:
        patterns = np.full(50, 0x3FE5_5555_5555_5555, dtype=np.int64)
        patterns[33] += 1 << place
        packed = to_numpy(largest(make(patterns.view(np.float64)), 1))
        assert np.flatnonzero(unpack_bits(packed, 50)).tolist() == [33]

    def test_unused_bits_of_the_last_byte_are_zero(self, make: Make) -> None:
        packed = to_numpy(largest(make(np.ones(11, np.float32)), 11))
        assert packed.tolist() == [0xFF, 0x07]

    def test_numpy_and_torch_give_the_same_bytes(self, dtype: type[Any]) -> None:
        values = update_with_ties(HOST_CHUNK + 321, dtype)
        on_numpy = largest(values, 20_000)
        on_torch = largest(torch.from_numpy(values), 20_000)
        assert np.array_equal(on_numpy, to_numpy(on_torch))

    @pytest.mark.parametrize("n_largest", [-1, 0, 6])
    def test_an_impossible_number_is_refused(self, make: Make, n_largest: int) -> None:
        with refuses(f"n_largest must be in 1..5 (dim), got {n_largest}"):
            largest(make(np.ones(5, np.float32)), n_largest)
