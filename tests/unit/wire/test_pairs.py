import numpy as np
import pytest

from fediac.wire.pairs import n_ranges, pack_pairs, range_length, unpack_rows


@pytest.mark.parametrize(
    ("widths", "payload_bytes", "length"),
    [
        ((32, 32), 1408, 176),
        ((18, 12), 1408, 375),  # 14 bits are left over
        ((32, 32), 8, 1),
        ((32, 32), 7, 0),
    ],
)
def test_a_range_has_as_many_addresses_as_a_packet_has_pairs(
    widths: tuple[int, int], payload_bytes: int, length: int
) -> None:
    assert range_length(widths, payload_bytes) == length
    if length:
        assert n_ranges(length, widths, payload_bytes) == 1
        assert n_ranges(length + 1, widths, payload_bytes) == 2
    else:
        assert n_ranges(1, widths, payload_bytes) == 0


@pytest.mark.parametrize("widths", [(32, 32), (18, 12), (1, 1), (32, 1), (3, 32)])
def test_rows_of_pairs_are_read_up_to_the_last_one_of_each(
    widths: tuple[int, int],
) -> None:
    rng = np.random.default_rng(1)
    counts = np.array([5, 0, 1, 7])
    top = 1 << (widths[1] - 1)
    indices = rng.integers(0, 1 << widths[0], counts.sum())
    levels = rng.integers(-top, top, counts.sum())
    rows = rng.integers(0, 256, (4, 57), dtype=np.uint8)  # 7 pairs of 64 bits fit
    for row, end, count in zip(rows, np.cumsum(counts), counts, strict=True):
        part = slice(end - count, end)
        packed = pack_pairs(indices[part], levels[part], widths)
        row[1 : 1 + len(packed)] = packed
    read = unpack_rows(rows, counts, widths, first=1)
    assert [each.tolist() for each in read] == [indices.tolist(), levels.tolist()]
