"""The kernels give core's bits on anything hypothesis can think of."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from fediac.core.corrected import correct
from fediac.core.rng import Stream
from tests.planes import require_native
from tests.unit.native.equality import (
    check_agree,
    check_correct,
    check_count_bits,
    check_count_nonfinite,
    check_groups,
    check_lanes,
    check_largest,
    check_patterns,
    check_send,
    check_votes,
)

pytestmark = pytest.mark.usefixtures("_built")

MAX_DIM = 300
quick = settings(max_examples=60, deadline=None)


@pytest.fixture(scope="module")
def _built() -> None:
    require_native()


def finite(dim: int, top: float = 1e30) -> st.SearchStrategy[NDArray[np.float32]]:
    limit = float(np.float32(top))
    elements = st.floats(-limit, limit, width=32, allow_subnormal=True)
    return arrays(np.float32, dim, elements=elements)


dims = st.integers(1, MAX_DIM)
updates = dims.flatmap(finite)
pairs = dims.flatmap(lambda dim: st.tuples(finite(dim), finite(dim)))
any_floats = arrays(np.float32, dims, elements=st.floats(width=32))
packed = arrays(np.uint8, st.integers(0, MAX_DIM))
streams = st.builds(
    Stream,
    seed=st.integers(0, 2**64 - 1),
    round_number=st.integers(0, 2**32 - 1),
    client=st.integers(0, 2**32 - 1),
    name=st.just("any"),
)


@quick
@given(pairs)
def test_facts_of_an_update(pair: tuple[Any, Any]) -> None:
    update, residual = pair
    check_correct(update, None)
    check_correct(update, residual)


@quick
@given(any_floats)
def test_entries_that_are_not_finite(update: Any) -> None:
    check_count_nonfinite(update, None)
    with np.errstate(over="ignore", invalid="ignore"):
        check_count_nonfinite(update, update[::-1].copy())


@quick
@given(updates, st.integers(1, MAX_DIM), streams)
def test_votes_with_the_mass_of_the_update(
    update: Any, n_votes: int, stream: Stream
) -> None:
    check_votes(update, correct(update, None).mass, n_votes, stream)


@quick
@given(any_floats, st.floats(), st.integers(1, 2**34), streams)
def test_votes_with_any_mass(
    values: Any, mass: float, n_votes: int, stream: Stream
) -> None:
    check_votes(values, mass, n_votes, stream)


@quick
@given(st.data(), st.integers(1, 30), st.integers(1, 70))
def test_agreement(data: st.DataObject, n_clients: int, n_bytes: int) -> None:
    votes = list(data.draw(arrays(np.uint8, (n_clients, n_bytes))))
    threshold = data.draw(st.integers(1, n_clients + 1))
    check_agree(votes, threshold)


@quick
@given(packed)
def test_counting_bits(bits: Any) -> None:
    check_count_bits(bits)


@quick
@given(st.data(), updates, st.integers(3, 32), streams)
def test_sending(data: st.DataObject, values: Any, bits: int, stream: Stream) -> None:
    gia = data.draw(arrays(np.uint8, -(-values.size // 8)))
    check_send(values, gia, bits, stream)
    check_send(values, None, bits, stream)


@quick
@given(st.data(), st.integers(1, 32), st.integers(0, MAX_DIM))
def test_lanes(data: st.DataObject, bits: int, n_lanes: int) -> None:
    elements = st.integers(0, 2**bits - 1)
    check_lanes(data.draw(arrays(np.int64, n_lanes, elements=elements)), bits)


@quick
@given(any_floats)
def test_patterns(values: Any) -> None:
    check_patterns(values)


@quick
@given(st.data(), any_floats)
def test_the_largest(data: st.DataObject, values: Any) -> None:
    check_largest(values, data.draw(st.integers(1, values.size)))


@quick
@given(updates, st.sampled_from([8, 16, 32, 64, 128, 256, 4096]))
def test_groups(values: Any, length: int) -> None:
    check_groups(values, length)
