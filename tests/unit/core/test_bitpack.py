import numpy as np
import pytest

from fediac.core.bitpack import (
    count_bits,
    indices_of,
    n_packed_bytes,
    pack_bits,
    pack_lanes,
    unpack_bits,
    unpack_lanes,
)
from tests.support import Make, bytes_of, kind_of, refuses, to_numpy

pytestmark = pytest.mark.usefixtures("both_paths")

LENGTHS = [0, 1, 7, 8, 9, 4096, 4099]


def random_mask(n_bits: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    mask: np.ndarray[tuple[int], np.dtype[np.bool_]]
    mask = np.random.default_rng(n_bits).random(n_bits) < 0.3
    return mask


@pytest.mark.parametrize(("n_bits", "n_bytes"), [(0, 0), (1, 1), (8, 1), (9, 2)])
def test_packed_bits_take_whole_bytes(n_bits: int, n_bytes: int) -> None:
    assert n_packed_bytes(n_bits) == n_bytes


@pytest.mark.parametrize("n_bits", LENGTHS)
def test_first_entry_is_the_least_significant_bit(make: Make, n_bits: int) -> None:
    mask = random_mask(n_bits)
    given = make(mask)
    packed = pack_bits(given)
    assert kind_of(packed) == kind_of(given)
    assert to_numpy(packed).dtype == np.uint8
    assert np.array_equal(to_numpy(packed), np.packbits(mask, bitorder="little"))
    assert np.array_equal(to_numpy(unpack_bits(packed, n_bits)), mask)
    assert bytes_of(given) == mask.tobytes()


@pytest.mark.parametrize("n_bits", LENGTHS)
def test_indices_are_the_places_of_set_bits(make: Make, n_bits: int) -> None:
    mask = random_mask(n_bits)
    packed = pack_bits(make(mask))
    indices = indices_of(packed, n_bits)
    assert kind_of(indices) == kind_of(packed)
    assert to_numpy(indices).dtype == np.int64
    assert np.array_equal(to_numpy(indices), np.flatnonzero(mask))
    assert count_bits(packed) == np.count_nonzero(mask)


def test_bits_behind_the_last_entry_have_no_index(make: Make) -> None:
    packed = make(np.array([0xFF], dtype=np.uint8))
    assert to_numpy(indices_of(packed, 3)).tolist() == [0, 1, 2]


@pytest.mark.usefixtures("short_chunks")
def test_indices_and_counts_do_not_depend_on_chunks(make: Make) -> None:
    mask = random_mask(3 * 4096 * 8 + 21)
    packed = pack_bits(make(mask))
    indices = indices_of(packed, mask.shape[0])
    assert np.array_equal(to_numpy(indices), np.flatnonzero(mask))
    assert count_bits(packed) == np.count_nonzero(mask)


def test_lanes_lie_one_behind_another_from_the_lowest_bit(make: Make) -> None:
    # 5 bits each: 10101 | 00001 | 11111 from the right: 0b11111_00001_10101.
    packed = pack_lanes(make(np.array([0b10101, 0b00001, 0b11111])), 5)
    assert to_numpy(packed).tolist() == [0b001_10101, 0b0_11111_00]


@pytest.mark.parametrize("n_lanes", [0, 1, 8, 21])
def test_lanes_of_any_width_are_one_long_integer(make: Make, n_lanes: int) -> None:
    for bits in range(1, 33):
        check_lanes(make, bits, n_lanes)


def check_lanes(make: Make, bits: int, n_lanes: int) -> None:
    rng = np.random.default_rng(bits)
    lanes = rng.integers(0, 1 << bits, n_lanes, dtype=np.int64)
    lanes[-1:] = (1 << bits) - 1
    expected = sum(int(lane) << bits * i for i, lane in enumerate(lanes))
    packed = pack_lanes(make(lanes), bits)
    assert bytes_of(packed) == expected.to_bytes(-(-n_lanes * bits // 8), "little")
    unpacked = unpack_lanes(packed, n_lanes, bits)
    assert kind_of(unpacked) == kind_of(make(lanes))
    assert to_numpy(unpacked).dtype == np.int64
    assert np.array_equal(to_numpy(unpacked), lanes)


def test_bytes_behind_the_last_lane_are_not_read(make: Make) -> None:
    packed = make(np.array([0b0101_0011, 0xFF, 0xFF], dtype=np.uint8))
    assert to_numpy(unpack_lanes(packed, 2, 4)).tolist() == [0b0011, 0b0101]


@pytest.mark.parametrize("bits", [0, 33])
def test_widths_no_lane_can_have_are_refused(bits: int) -> None:
    with refuses(f"bits must be in 1..32, got {bits}"):
        pack_lanes(np.zeros(3, dtype=np.int64), bits)
    with refuses(f"bits must be in 1..32, got {bits}"):
        unpack_lanes(np.zeros(3, dtype=np.uint8), 1, bits)
