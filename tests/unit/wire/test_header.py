import re

import pytest

from fediac.wire.header import (
    HEADER,
    HEADER_BYTES,
    HEADER_STRUCT,
    IP_UDP_BYTES,
    PAYLOAD_BYTES,
    bitmap_bytes,
    items_per_packet,
)


def test_a_full_packet_has_1500_bytes() -> None:
    assert IP_UDP_BYTES + HEADER_BYTES + PAYLOAD_BYTES == 1500


def test_both_descriptions_of_the_header_have_its_length() -> None:
    assert HEADER.itemsize == HEADER_STRUCT.size == HEADER_BYTES


@pytest.mark.parametrize(
    ("bits", "expected"), [(1, 11520), (8, 1440), (10, 1152), (12, 960), (32, 360)]
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
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        items_per_packet(3, 2)


@pytest.mark.parametrize(
    ("n_clients", "expected"), [(1, 1), (8, 1), (9, 2), (1024, 128)]
)
def test_a_bitmap_has_one_bit_a_client(n_clients: int, expected: int) -> None:
    assert bitmap_bytes(n_clients) == expected
