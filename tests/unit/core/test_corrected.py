from typing import Any

import numpy as np
import pytest

from fediac.core.corrected import correct, count_nonfinite
from fediac.core.exact import tree_sum
from tests.support import Make, bytes_of, kind_of, normal_update, to_numpy

pytestmark = pytest.mark.usefixtures("both_paths")

DIMS = [1, 7, 4096, 9001]


@pytest.mark.parametrize("dim", DIMS)
def test_facts_are_those_of_the_sum(make: Make, dtype: type[Any], dim: int) -> None:
    update, residual = normal_update(dim, dtype), normal_update(dim, dtype, seed=1)
    given, kept = make(update), make(residual)
    found = correct(given, kept)
    total = update + residual
    magnitudes = np.abs(total).astype(np.float64)
    assert kind_of(found.values) == kind_of(given)
    assert to_numpy(found.values).dtype == dtype
    assert np.array_equal(to_numpy(found.values), total)
    assert found.mass == tree_sum(magnitudes)
    assert found.energy == tree_sum(magnitudes * magnitudes)
    assert found.peak == magnitudes.max()
    assert found.n_nonfinite == 0
    assert bytes_of(given) == update.tobytes()
    assert bytes_of(kept) == residual.tobytes()


def test_without_a_residual_the_sum_is_the_update_itself(
    make: Make, dtype: type[Any]
) -> None:
    given = make(normal_update(100, dtype))
    assert correct(given, None).values is given


def test_sum_may_replace_the_residual(make: Make, dtype: type[Any]) -> None:
    update, residual = normal_update(9001, dtype), normal_update(9001, dtype, seed=1)
    kept = make(residual)
    found = correct(make(update), kept, out=kept)
    assert found.values is kept
    assert np.array_equal(to_numpy(kept), update + residual)


def test_update_is_copied_to_out_when_there_is_no_residual(make: Make) -> None:
    update = normal_update(9001)
    out = make(np.full(9001, np.nan, dtype=np.float32))
    found = correct(make(update), None, out=out)
    assert found.values is out
    assert np.array_equal(to_numpy(out), update)


@pytest.mark.usefixtures("short_chunks")
def test_facts_do_not_depend_on_chunks(make: Make, dtype: type[Any]) -> None:
    update, residual = (normal_update(3 * 4096 + 5, dtype, seed=i) for i in (0, 1))
    found = correct(make(update), make(residual))
    magnitudes = np.abs(update + residual).astype(np.float64)
    assert np.array_equal(to_numpy(found.values), update + residual)
    assert found.mass == tree_sum(magnitudes)
    assert found.energy == tree_sum(magnitudes * magnitudes)
    assert found.peak == magnitudes.max()


def test_zero_update_has_no_mass(make: Make, dtype: type[Any]) -> None:
    found = correct(make(np.zeros(9, dtype)), None)
    facts = (found.mass, found.peak, found.energy, found.n_nonfinite)
    assert facts == (0.0, 0.0, 0.0, 0)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_entries_that_are_not_finite_are_counted(
    make: Make, dtype: type[Any], bad: float
) -> None:
    update = normal_update(9001, dtype)
    update[[0, 4096, 9000]] = bad
    given = make(update)
    assert correct(given, None).n_nonfinite == 3
    assert count_nonfinite(given, None) == 3
    residual = make(normal_update(9001, dtype, seed=1))
    assert count_nonfinite(given, residual) == 3
    assert correct(given, residual).n_nonfinite == 3
    assert bytes_of(given) == update.tobytes()


def test_residual_that_is_not_finite_is_counted(make: Make, dtype: type[Any]) -> None:
    update, residual = normal_update(9, dtype), normal_update(9, dtype)
    update[1], residual[1], residual[2] = np.inf, -np.inf, np.nan
    assert count_nonfinite(make(update), make(residual)) == 2
    assert correct(make(update), make(residual)).n_nonfinite == 2


def test_sum_beyond_the_largest_float_is_not_finite(
    make: Make, dtype: type[Any]
) -> None:
    huge = np.full(5, np.finfo(dtype).max, dtype)
    assert count_nonfinite(make(huge), make(huge)) == 5
    assert correct(make(huge), make(huge)).n_nonfinite == 5


def test_what_is_beyond_the_largest_magnitude_counts_too(
    make: Make, dtype: type[Any]
) -> None:
    largest = dtype(2.0**100)
    above = np.nextafter(largest, dtype(np.inf))
    below = np.nextafter(largest, dtype(0.0))
    values = [1.0, np.finfo(dtype).max, -largest, largest, -above, above, -below]
    update = make(np.array(values, dtype))
    assert count_nonfinite(update, None) == 3
    assert correct(update, None).n_nonfinite == 3
    residual = make(np.array([largest, 0, above - largest, 0, 0, 0, 0], dtype))
    assert count_nonfinite(update, residual) == 3
    assert correct(update, residual).n_nonfinite == 3


def test_sum_beyond_the_largest_magnitude_counts_though_neither_part_does(
    make: Make, dtype: type[Any]
) -> None:
    update = make(np.array([2.0**100, 1.0], dtype))
    residual = make(np.array([2.0**99, 1.0], dtype))
    assert count_nonfinite(update, None) == count_nonfinite(residual, None) == 0
    assert count_nonfinite(update, residual) == 1
    assert correct(update, residual).n_nonfinite == 1


def test_no_entries_have_zero_facts(make: Make) -> None:
    found = correct(make(np.zeros(0, dtype=np.float32)), None)
    facts = (found.mass, found.peak, found.energy, found.n_nonfinite)
    assert facts == (0.0, 0.0, 0.0, 0)
