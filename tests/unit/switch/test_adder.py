import numpy as np
import pytest

from fediac.core.quantize import level_limit
from fediac.switch.adder import add_levels, add_payload
from fediac.switch.pipeline import Switch
from tests.packets import answer_to, lanes, totals


def test_a_carry_crosses_bytes() -> None:
    registers = bytearray(b"\xff\xff\x00\x07")
    add_payload(memoryview(registers), 0, b"\x01\x00\x00")
    assert registers == b"\x00\x00\x01\x07"


def test_a_carry_out_of_the_payload_is_cut() -> None:
    registers = bytearray(b"\xff\xff\x07")
    add_payload(memoryview(registers), 0, b"\x02\x00")
    assert registers == b"\x01\x00\x07"


def test_levels_wrap_each_in_its_own_register() -> None:
    registers = bytearray(np.array([7, -1, 2**31 - 1, 7], dtype="<i4").tobytes())
    add_levels(memoryview(registers), 4, np.array([1, 1], dtype="<i4").tobytes())
    expected = [7, 0, -(2**31), 7]
    assert np.frombuffer(registers, dtype="<i4").tolist() == expected


def smallest_bits(n_clients: int) -> int:
    """Return the narrowest lane in which every client may send one level."""
    return n_clients.bit_length() + 1


@pytest.mark.parametrize("n_clients", [1, 2, 3, 7, 20, 50])
@pytest.mark.parametrize("extra_bits", [0, 1, 5])
def test_extreme_lanes_never_carry_into_their_neighbours(
    n_clients: int, extra_bits: int
) -> None:
    bits = smallest_bits(n_clients) + extra_bits
    limit = level_limit(bits=bits, n_clients=n_clients)
    n_items = 8 * 64 // bits
    # Neighbours at opposite ends: every entry +limit beside every entry -limit.
    values = [2 * limit if place % 2 else 0 for place in range(n_items)]
    switch = Switch(1 << 14, payload_bytes=64)
    job = switch.open(n_clients)
    answer = answer_to(
        switch, *(lanes(job, i, values, bits=bits) for i in range(n_clients))
    )
    assert totals(answer) == [n_clients * value for value in values]
    assert 2 * limit * n_clients <= 2**bits - 2


def test_a_lane_beyond_the_limit_spoils_its_own_packet_only() -> None:
    switch = Switch(4096, payload_bytes=16)
    job = switch.open(2)
    (answer, other) = (
        answer_to(
            switch,
            lanes(job, 0, [255] * 16, packet=packet),
            lanes(job, 1, [added] * 16, packet=packet),
        )
        for packet, added in ((0, 255), (1, 0))
    )
    assert totals(answer) == [254] + [255] * 15
    assert totals(other) == [255] * 16
