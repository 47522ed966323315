from bisect import bisect_right
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fediac.core.bitpack import unpack_bits
from fediac.core.corrected import correct
from fediac.core.magnitudes import largest
from fediac.core.voting import LAWS, Law, draw_votes, power
from tests.support import (
    Make,
    bytes_of,
    kind_of,
    normal_update,
    refuses,
    stream,
    to_numpy,
)

pytestmark = pytest.mark.usefixtures("both_paths")


def vote(values: Any, n_votes: int, law: Law = "bernoulli") -> NDArray[np.bool_]:
    packed = draw_votes(correct(values, None), n_votes, stream(), law=law)
    assert kind_of(packed) == kind_of(values)
    assert to_numpy(packed).dtype == np.uint8
    return to_numpy(unpack_bits(packed, values.shape[0]))


class TestBernoulli:
    @pytest.mark.parametrize("n_votes", [1, 2, 9, 60])
    def test_entry_is_voted_for_when_its_uniform_is_below_q(
        self, make: Make, dtype: type[Any], n_votes: int
    ) -> None:
        values = normal_update(60, dtype)
        found = vote(make(values), n_votes)
        exact = [abs(Fraction(float(value))) for value in values]
        words = stream().words(0, 60, like=values)
        for entry, size in enumerate(exact):
            probability = 1 - (1 - size / sum(exact)) ** n_votes
            uniform = Fraction(int(words[entry]), 1 << 32)
            # Float64 puts q off by less than n_votes * 2**-50. None of these q is as
            # close to a uniform, a multiple of 2**-32.
            assert found[entry] == (uniform < probability)

    def test_entry_with_all_the_mass_is_voted_for(self, make: Make) -> None:
        values = np.zeros(9, dtype=np.float32)
        values[4] = -3.0
        assert np.flatnonzero(vote(make(values), 1)).tolist() == [4]


class TestDraws:
    @pytest.mark.parametrize("n_votes", [1, 2, 50])
    def test_draws_invert_the_cumulative_magnitudes(
        self, make: Make, dtype: type[Any], n_votes: int
    ) -> None:
        values = normal_update(50, dtype)
        sizes = np.abs(values).astype(np.float64)
        # 51 entry counts take 6 bits: weights of 56 bits sum to at most 62.
        weights = [int(size / sizes.max() * 2.0**56) for size in sizes]
        edges = list(accumulate(weights))
        words = stream().words(0, 2 * n_votes, like=values).tolist()
        expected = set()
        for high, low in zip(words[::2], words[1::2], strict=True):
            target = int((high << 21 | low >> 11) * 2.0**-53 * edges[-1])
            expected.add(bisect_right(edges, min(target, edges[-1] - 1)))
        found = vote(make(values), n_votes, "draws")
        assert set(np.flatnonzero(found).tolist()) == expected

    def test_zeros_are_never_drawn(self, make: Make, dtype: type[Any]) -> None:
        values = np.zeros(1000, dtype)
        values[::10] = 1.0
        found = np.flatnonzero(vote(make(values), 1000, "draws"))
        assert np.all(found % 10 == 0)
        assert len(found) > 1

    def test_entries_too_small_for_a_weight_are_never_drawn(self, make: Make) -> None:
        values = np.full(4097, 1e-38, dtype=np.float32)
        values[[0, 4096]] = 1e38
        found = np.flatnonzero(vote(make(values), 4097, "draws"))
        assert found.tolist() == [0, 4096]

    def test_number_of_draws_does_not_change_the_first_ones(self, make: Make) -> None:
        values = make(normal_update(200))
        few, many = vote(values, 20, "draws"), vote(values, 200, "draws")
        assert 1 <= np.count_nonzero(few) <= 20
        assert np.all(many[few])


@pytest.mark.parametrize("n_votes", [1, 30, 100])
def test_topk_votes_for_the_largest(make: Make, dtype: type[Any], n_votes: int) -> None:
    values = make(normal_update(100, dtype))
    expected = to_numpy(unpack_bits(largest(values, n_votes), 100))
    found = vote(values, n_votes, "topk")
    assert np.array_equal(found, expected)
    assert np.count_nonzero(found) == n_votes


@pytest.mark.parametrize("law", LAWS)
class TestEveryLaw:
    def test_only_entry_there_is_gets_the_vote(
        self, make: Make, dtype: type[Any], law: Law
    ) -> None:
        assert vote(make(np.array([-1e-30], dtype)), 1, law).tolist() == [True]

    def test_zeros_get_no_votes(self, make: Make, dtype: type[Any], law: Law) -> None:
        values = np.zeros(100, dtype)
        values[[3, 40, 99]] = 1.0, -2.0, 0.5
        assert not np.any(vote(make(values), 50, law) & (values == 0.0))

    def test_zero_update_gets_no_votes(
        self, make: Make, dtype: type[Any], law: Law
    ) -> None:
        assert not np.any(vote(make(np.zeros(20, dtype)), 5, law))

    def test_signs_do_not_matter(self, make: Make, law: Law) -> None:
        values = normal_update(300)
        signed, unsigned = vote(make(values), 40, law), vote(make(abs(values)), 40, law)
        assert np.array_equal(signed, unsigned)

    def test_update_is_left_alone(self, make: Make, dtype: type[Any], law: Law) -> None:
        values = normal_update(300, dtype)
        given = make(values)
        vote(given, 40, law)
        assert bytes_of(given) == values.tobytes()

    def test_magnitudes_over_the_whole_range_of_floats_are_fine(
        self, make: Make, law: Law
    ) -> None:
        values = np.float32(2.0) ** np.arange(-149, 128, dtype=np.float32)
        found = vote(make(values.astype(np.float32)), 3, law)
        # Half of the mass is the last entry's, a quarter the one before it, ...
        assert np.any(found[-32:])

    @pytest.mark.parametrize("n_votes", [0, 21])
    def test_number_of_votes_must_fit_the_update(self, law: Law, n_votes: int) -> None:
        with refuses(f"n_votes must be in 1..20 (dim), got {n_votes}"):
            vote(np.ones(20), n_votes, law)


def test_unknown_law_is_refused() -> None:
    unknown: Any = "coins"
    with refuses("law must be one of bernoulli, draws, topk, got 'coins'"):
        vote(np.ones(20), 5, unknown)


@pytest.mark.parametrize("exponent", [1, 2, 3, 6, 1000])
def test_power_is_that_of_the_exact_product(make: Make, exponent: int) -> None:
    bases = np.array([0.0, 0.25, 0.999, 1.0])
    found = to_numpy(power(make(bases), exponent)).tolist()
    for base, value in zip(bases.tolist(), found, strict=True):
        exact = float(Fraction(base) ** exponent)
        # Each rounding is off by 2**-53 and is itself raised to what is left of the
        # exponent: in all less than 2 * exponent roundings.
        assert value == pytest.approx(exact, rel=2 * exponent * 2.0**-53, abs=0.0)


def test_power_of_nothing_is_refused() -> None:
    with refuses("exponent must be at least 1, got 0"):
        power(np.ones(2), 0)
