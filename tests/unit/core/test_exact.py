import math

import numpy as np
import pytest
from numpy.typing import NDArray

from fediac.core.exact import BLOCK, block_sums, tree_sum
from tests.support import Make, bytes_of, kind_of, to_numpy


def fold(values: list[float]) -> float:
    """The sum of a power of two values, halves added elementwise."""
    while len(values) > 1:
        half = len(values) // 2
        values = [values[i] + values[half + i] for i in range(half)]
    return values[0]


def wild_values(dim: int) -> NDArray[np.float64]:
    rng = np.random.default_rng(dim)
    return rng.standard_normal(dim) * np.exp2(rng.integers(-40, 40, dim))


@pytest.mark.parametrize("dim", [1, 5, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7])
def test_blocks_are_folded_in_halves(make: Make, dim: int) -> None:
    values = wild_values(dim)
    padded = [*values.tolist(), *[0.0] * (-dim % BLOCK)]
    expected = [fold(padded[i : i + BLOCK]) for i in range(0, len(padded), BLOCK)]
    given = make(values)
    found = block_sums(given)
    assert kind_of(found) == kind_of(given)
    assert to_numpy(found).tolist() == expected
    assert bytes_of(given) == values.tobytes()


def test_blocks_of_nothing_are_none(make: Make) -> None:
    assert block_sums(make(np.zeros(0))).shape[0] == 0


def test_sum_of_blocks_in_pieces_is_the_sum_of_all(make: Make) -> None:
    values = wild_values(10 * BLOCK + 3)
    cut = 7 * BLOCK
    parts = [to_numpy(block_sums(make(each))) for each in (values[:cut], values[cut:])]
    assert tree_sum(make(np.concatenate(parts))) == tree_sum(make(values))


@pytest.mark.parametrize("dim", [1, 2, 4095, 4097, 100_000])
def test_tree_sum_is_close_to_the_exact_sum(make: Make, dim: int) -> None:
    values = wild_values(dim)
    # Each value passes through at most 12 additions a layer, two layers: relative
    # to the sum of magnitudes the error is below 24 * 2**-53.
    bound = 24 * 2.0**-53 * math.fsum(np.abs(values).tolist())
    assert abs(tree_sum(make(values)) - math.fsum(values.tolist())) <= bound


def test_tree_sum_of_nothing_is_zero(make: Make) -> None:
    assert tree_sum(make(np.zeros(0))) == 0.0
