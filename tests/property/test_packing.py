"""Packing is lossless, and what is computed in chunks does not depend on them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from fediac import native
from fediac.core.bitpack import (
    count_bits,
    indices_of,
    n_packed_bytes,
    pack_bits,
    pack_lanes,
    unpack_bits,
    unpack_lanes,
)
from fediac.core.consensus import agree
from fediac.core.corrected import correct
from fediac.core.quantize import Grid, send_chosen
from fediac.core.voting import LAWS, Law, draw_votes
from fediac.switch.adder import widen
from fediac.transports.arrays import add_lanes
from fediac.wire.pairs import pack_pairs, unpack_pairs
from tests.packets import pack
from tests.support import KINDS, Make, bytes_of, normal_update, stream, to_numpy

masks = hnp.arrays(np.bool_, st.integers(0, 300))
kinds = st.sampled_from(sorted(KINDS))


@st.composite
def lanes_of_some_width(draw: Any) -> tuple[NDArray[np.int64], int]:
    bits = draw(st.integers(1, 32))
    values = st.integers(0, (1 << bits) - 1)
    lanes = draw(st.lists(values, max_size=100))
    return np.array(lanes, dtype=np.int64), bits


@settings(deadline=None)
@given(masks, kinds)
def test_bits_survive_packing(mask: NDArray[np.bool_], kind: str) -> None:
    packed = pack_bits(KINDS[kind](mask))
    assert packed.shape[0] == n_packed_bytes(len(mask))
    assert np.array_equal(to_numpy(unpack_bits(packed, len(mask))), mask)
    assert to_numpy(indices_of(packed, len(mask))).tolist() == (
        np.flatnonzero(mask).tolist()
    )
    assert count_bits(packed) == np.count_nonzero(mask)


@settings(deadline=None)
@given(hnp.arrays(np.uint8, st.integers(0, 40)), kinds)
def test_bytes_survive_unpacking(packed: NDArray[np.uint8], kind: str) -> None:
    mask = unpack_bits(KINDS[kind](packed), 8 * len(packed))
    assert bytes_of(pack_bits(mask)) == packed.tobytes()


@settings(deadline=None)
@given(lanes_of_some_width(), kinds)
def test_lanes_of_any_width_and_number_survive_packing(
    given_lanes: tuple[NDArray[np.int64], int], kind: str
) -> None:
    lanes, bits = given_lanes
    packed = pack_lanes(KINDS[kind](lanes), bits)
    assert packed.shape[0] == n_packed_bytes(len(lanes) * bits)
    assert to_numpy(unpack_lanes(packed, len(lanes), bits)).tolist() == lanes.tolist()


@settings(deadline=None)
@given(lanes_of_some_width(), st.integers(0, 12))
def test_lanes_packed_in_two_parts_are_those_packed_at_once(
    given_lanes: tuple[NDArray[np.int64], int], n_groups: int
) -> None:
    lanes, bits = given_lanes
    cut = 8 * n_groups
    parts = [pack_lanes(part, bits) for part in (lanes[:cut], lanes[cut:])]
    assert b"".join(bytes_of(part) for part in parts) == bytes_of(
        pack_lanes(lanes, bits)
    )


@st.composite
def pairs_of_some_width(draw: Any) -> tuple[list[tuple[int, int]], tuple[int, int]]:
    n_index, bits = draw(st.integers(1, 32)), draw(st.integers(1, 32))
    index = st.integers(0, (1 << n_index) - 1)
    level = st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)
    return draw(st.lists(st.tuples(index, level), max_size=60)), (n_index, bits)


@settings(deadline=None)
@given(pairs_of_some_width())
def test_pairs_of_any_width_and_number_survive_packing(
    given_pairs: tuple[list[tuple[int, int]], tuple[int, int]],
) -> None:
    pairs, widths = given_pairs
    indices, levels = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    packed = pack_pairs(indices, levels, widths)
    words = [index | level % (1 << widths[1]) << widths[0] for index, level in pairs]
    assert packed.tobytes() == pack(words, sum(widths))
    found = unpack_pairs(packed, len(pairs), widths)
    assert [each.tolist() for each in found] == [indices.tolist(), levels.tolist()]


@settings(deadline=None)
@given(st.data())
def test_sum_of_packed_lanes_is_the_packed_sum_of_lanes(data: Any) -> None:
    n_clients = data.draw(st.integers(1, 5))
    bits = data.draw(st.integers(n_clients.bit_length() + 1, 32))
    bits_up = data.draw(st.integers(1, bits))
    top = min(((1 << bits) - 1) // n_clients, (1 << bits_up) - 1)
    n_lanes = data.draw(st.integers(1, 40))
    lanes = data.draw(
        hnp.arrays(np.int64, (n_clients, n_lanes), elements=st.integers(0, top))
    )
    packed = [pack_lanes(each, bits_up) for each in lanes]
    total = add_lanes(packed, n_lanes, bits_up, bits)
    assert bytes_of(total) == bytes_of(pack_lanes(lanes.sum(axis=0), bits))
    # What a switch does: widen the packets and add them as long integers.
    wide = [widen(bytes_of(each), n_lanes, bits_up, bits) for each in packed]
    as_integers = sum(int.from_bytes(each, "little") for each in wide)
    assert int.from_bytes(bytes_of(total), "little") == as_integers


@contextmanager
def chunks_of(length: int) -> Iterator[None]:
    """Let core cut after ``length`` entries, without the kernels."""
    with (
        patch("fediac.core.chunks.HOST_CHUNK", length),
        patch.object(native, "kernels_for", lambda *_: None),
    ):
        yield


def run_phases(update: Any, make: Make, n_votes: int, law: Law) -> list[Any]:
    """Both phases of one client that agrees with itself: all there is to compare."""
    kept = make(update)
    corrected = correct(make(update), make(update), out=kept)
    votes = draw_votes(corrected, n_votes, stream("votes"), law=law)
    gia = agree([votes, votes], 2)
    grid = Grid.of(peak=max(corrected.peak, 1e-20), bits=11, n_clients=3)
    sent = send_chosen(kept, gia, grid, stream("rounding"), out=kept)
    facts = (corrected.mass, corrected.peak, corrected.energy)
    energies = (sent.chosen_energy, sent.left_energy)
    return [bytes_of(votes), bytes_of(sent.lanes), bytes_of(kept), facts, energies]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 9000),
    st.sampled_from(LAWS),
    st.sampled_from(sorted(KINDS)),
    st.data(),
)
def test_no_result_depends_on_the_length_of_chunks(
    dim: int, law: Law, kind: str, data: Any
) -> None:
    n_votes = data.draw(st.integers(1, dim))
    arguments = normal_update(dim, seed=dim), KINDS[kind], n_votes, law
    with chunks_of(1 << 17):
        expected = run_phases(*arguments)
    with chunks_of(4096):
        assert run_phases(*arguments) == expected
    assert run_phases(*arguments) == expected
