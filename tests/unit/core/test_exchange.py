from dataclasses import FrozenInstanceError

import pytest

from fediac.core.exchange import Contributors, Max

PARTIAL = Contributors(0b1111, {4: 0b0011, 1: 0b1110}, entries_per_packet=10)


def test_everyone_is_counted_when_nothing_is_partial() -> None:
    everyone = Contributors(0b1011)
    assert everyone.count == 3
    assert everyone.missed(1, 100) == []
    assert everyone.ranges(20, 100) == [(20, 100, 3)]


def test_client_is_told_the_ranges_that_left_it_out() -> None:
    assert PARTIAL.missed(0, 45) == [(10, 20)]
    assert PARTIAL.missed(1, 45) == []
    # The last packet ends with the last entry.
    assert PARTIAL.missed(3, 45) == [(40, 45)]


@pytest.mark.parametrize(
    ("start", "stop", "pieces"),
    [
        (0, 45, [(0, 10, 4), (10, 20, 3), (20, 40, 4), (40, 45, 2)]),
        (10, 20, [(10, 20, 3)]),
        (13, 17, [(13, 17, 3)]),
        (17, 42, [(17, 20, 3), (20, 40, 4), (40, 42, 2)]),
        (20, 40, [(20, 40, 4)]),
        (5, 5, []),
    ],
)
def test_pieces_cover_a_range_in_order_with_their_counts(
    start: int, stop: int, pieces: list[tuple[int, int, int]]
) -> None:
    assert PARTIAL.ranges(start, stop) == pieces


def test_exchanges_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Max(1.0).peak = 2.0  # type: ignore[misc]  # the point of the test
