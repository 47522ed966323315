import pytest

from fediac.wire.header import (
    HEADER,
    HEADER_BYTES,
    HEADER_STRUCT,
    IP_UDP_BYTES,
    MAX_PAYLOAD_BYTES,
    PAYLOAD_BYTES,
    bitmap_bytes,
    items_per_packet,
    lanes_per_packet,
    lanes_per_part,
    payload_of,
)
from tests.support import refuses


def test_the_usual_packet_fits_1500_bytes_and_not_64_more() -> None:
    assert PAYLOAD_BYTES == 1408
    assert 1500 - 64 < IP_UDP_BYTES + HEADER_BYTES + PAYLOAD_BYTES <= 1500


@pytest.mark.parametrize(
    ("mtu", "expected"),
    [(132, 64), (195, 64), (196, 128), (1280, 1152), (1492, 1408), (1500, 1408)],
)
def test_a_payload_is_the_largest_multiple_of_64_that_fits(
    mtu: int, expected: int
) -> None:
    assert payload_of(mtu) == expected


def test_votes_of_the_longest_payload_are_counted_in_16_bits() -> None:
    assert payload_of(9000) == payload_of(65535) == MAX_PAYLOAD_BYTES == 8128
    assert 8 * MAX_PAYLOAD_BYTES <= 0xFFFF


@pytest.mark.parametrize("mtu", [131, 68, 0, -1])
def test_a_path_too_narrow_for_any_payload_is_refused(mtu: int) -> None:
    with refuses(f"mtu must be at least 132 bytes, got {mtu}"):
        payload_of(mtu)


def test_both_descriptions_of_the_header_have_its_length() -> None:
    assert HEADER.itemsize == HEADER_STRUCT.size == HEADER_BYTES


@pytest.mark.parametrize(
    ("bits", "expected"), [(1, 11264), (8, 1408), (16, 704), (32, 352)]
)
def test_common_widths_fill_a_packet(bits: int, expected: int) -> None:
    assert items_per_packet(bits, PAYLOAD_BYTES) == expected
    assert bits * expected == 8 * PAYLOAD_BYTES


def test_items_fill_whole_bytes_and_the_payload_to_seven_items() -> None:
    for bits in range(1, 65):
        for payload_bytes in (64, 100, PAYLOAD_BYTES):
            n_items = items_per_packet(bits, payload_bytes)
            assert n_items * bits % 8 == 0
            assert 0 <= 8 * payload_bytes - n_items * bits < 8 * bits


def test_a_payload_too_short_for_whole_bytes_is_an_error() -> None:
    message = "payload_bytes must hold 8 items of 3 bits, got 2"
    with refuses(message):
        items_per_packet(3, 2)


@pytest.mark.parametrize(
    ("n_clients", "expected"), [(1, 1), (8, 1), (9, 2), (1024, 128)]
)
def test_a_bitmap_has_one_bit_a_client(n_clients: int, expected: int) -> None:
    assert bitmap_bytes(n_clients) == expected


def test_lanes_of_one_width_fill_a_packet_as_other_items_do() -> None:
    for bits in range(1, 33):
        expected = items_per_packet(bits, PAYLOAD_BYTES)
        assert lanes_per_packet(bits, bits, PAYLOAD_BYTES) == expected


def test_lanes_of_two_widths_fill_whole_bytes_of_either() -> None:
    for bits_down in range(2, 33):
        for bits_up in range(1, bits_down):
            for payload_bytes in (32, 100, PAYLOAD_BYTES):
                up = lanes_per_packet(bits_up, bits_down, payload_bytes)
                assert up % 8 == 0
                assert 0 <= 8 * payload_bytes - up * bits_up < 8 * bits_up


def test_an_answer_takes_as_many_packets_as_its_lanes_are_wider() -> None:
    usual = {(3, 7), (6, 10), (8, 12), (4, 8), (4, 16), (8, 16), (16, 32)}
    for bits_down in range(2, 33):
        per_part = lanes_per_part(bits_down, PAYLOAD_BYTES)
        for bits_up in range(1, bits_down):
            up = lanes_per_packet(bits_up, bits_down, PAYLOAD_BYTES)
            n_parts, n_times = -(-up // per_part), -(-bits_down // bits_up)
            # Whole groups of eight lanes may leave too little room for the last few.
            most = n_times if (bits_up, bits_down) in usual else n_times + 1
            assert n_parts <= most


def test_a_payload_too_short_for_eight_wide_lanes_is_an_error() -> None:
    message = "payload_bytes must hold 8 lanes of 16 bits, got 15"
    with pytest.raises(ValueError, match=f"^{message}$"):
        lanes_per_packet(8, 16, 15)
    assert lanes_per_packet(8, 16, 16) == 16
