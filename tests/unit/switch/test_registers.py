import pytest

from fediac.switch.registers import SLOT, Layout, n_planes
from fediac.wire.header import MAX_CLIENTS, PAYLOAD_BYTES, Kind
from tests.support import refuses

# Where everything stands does not depend on who processes packets.
pytestmark = pytest.mark.parametrize("plane", ["core"], indirect=True)

LAYOUTS = [
    Layout(n_clients, payload_bytes, register_bytes)
    for n_clients in (1, 20, MAX_CLIENTS)
    for payload_bytes in (1, 2, 7, 8, PAYLOAD_BYTES)
    for register_bytes in (20_000, 20_007, 1 << 20)
]


@pytest.mark.parametrize(
    ("threshold", "expected"),
    [(1, 1), (2, 2), (3, 2), (4, 3), (7, 3), (8, 4), (1024, 11)],
)
def test_vote_counters_have_just_the_bits_to_reach_their_threshold(
    threshold: int, expected: int
) -> None:
    assert n_planes(threshold) == expected


def test_both_halves_lie_inside_the_registers() -> None:
    for layout in LAYOUTS:
        end = layout.halves_at + 2 * layout.half_bytes
        assert layout.register_bytes - 16 < end <= layout.register_bytes


@pytest.mark.parametrize("kind", [Kind.TALLY, Kind.SUM, Kind.BLOCK_SUM])
def test_slots_fill_a_half_without_crossing_its_end(kind: Kind) -> None:
    for layout in LAYOUTS:
        n_slots, stride = layout.n_slots(kind, 3), layout.slot_bytes(kind, 3)
        room = layout.half_bytes
        room -= layout.clocks_bytes if kind == Kind.BLOCK_SUM else 0
        assert n_slots * stride <= max(0, room)
        assert (n_slots + 1) * stride > room


def test_the_largest_indexed_sum_fits_both_halves_to_a_few_bytes() -> None:
    for layout in LAYOUTS:
        needed = layout.indexed_bytes(layout.indexed_capacity)
        assert 2 * layout.half_bytes - 32 < needed <= 2 * layout.half_bytes


def test_one_megabyte_holds_a_quarter_million_values() -> None:
    # The paper's count is 1 MB / 4 bytes; ours loses one bit a value to tell which
    # were touched, and the records.
    assert 0.95 * 250_000 < Layout(20, PAYLOAD_BYTES, 10**6).indexed_capacity < 250_000


BITMAP = "n_clients must be in 1..1024 (bits of a slot's bitmap), got "


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        *(((n, PAYLOAD_BYTES, 1 << 20), f"{BITMAP}{n}") for n in (-1, 0, 1025)),
        (
            (20, PAYLOAD_BYTES, 3007),
            "register_bytes must be at least 3008 for two packets of 1408 bytes from "
            "20 clients, got 3007",
        ),
        (
            (1, 8, -1),
            "register_bytes must be at least 208 for two packets of 8 bytes from 1 "
            "client, got -1",
        ),
        (
            (1, 8, 1 << 32),
            "register_bytes must be at most 4294967295 (32-bit addresses), "
            "got 4294967296",
        ),
    ],
)
def test_what_has_no_layout_is_refused(
    arguments: tuple[int, int, int], text: str
) -> None:
    with refuses(text):
        Layout(*arguments)


def test_two_packets_are_enough() -> None:
    assert Layout(20, PAYLOAD_BYTES, 3008).n_slots(Kind.SUM) == 1


def test_a_slot_record_has_24_bytes() -> None:
    assert SLOT.size == 24


WIDTHS = [(1, 32), (3, 7), (4, 8), (6, 10), (8, 16), (16, 32), (12, 12)]


@pytest.mark.parametrize("widths", WIDTHS)
def test_a_slot_of_a_sum_holds_the_sums_of_a_full_packet(
    widths: tuple[int, int],
) -> None:
    bits_up, bits_down = widths
    for layout in LAYOUTS:
        head = layout.slot_bytes(Kind.MAX)
        room = layout.slot_bytes(Kind.SUM, widths=widths) - head
        n_lanes = 8 * layout.payload_bytes // bits_up
        needed = max(layout.payload_bytes, -(-n_lanes * bits_down // 8))
        assert needed <= room < needed + 8
        n_slots = layout.n_slots(Kind.SUM, widths=widths)
        assert n_slots == layout.half_bytes // (head + room)


def test_a_sum_of_one_width_has_the_same_slots_as_ever() -> None:
    for layout in LAYOUTS:
        for bits in range(1, 33):
            assert layout.slot_bytes(Kind.SUM, widths=(bits, bits)) == (
                layout.slot_bytes(Kind.SUM)
            )
