from typing import Any

import numpy as np
import pytest

from fediac import WIRE
from fediac.core.exchange import (
    BlockSum,
    BlockTotals,
    Consensus,
    IndexedSum,
    IndexedTotals,
    Max,
    Peak,
    ServerSum,
    ServerTotals,
    Sum,
    Tally,
    Totals,
)
from fediac.transports.billing import bill_exchange

BYTES = np.zeros(9, dtype=np.uint8)
INT32 = np.zeros(9, dtype=np.int32)


def rows(count: int) -> Any:
    return np.zeros((count, 5), dtype=np.int32)


def bill(exchange: Any, answer: Any, *clients: int) -> list[Any]:
    """Return the rows of an exchange that clients ask, by default client 0 alone."""
    requests = dict.fromkeys(clients or (0,), exchange)
    return list(
        bill_exchange(requests, answer, round_number=5, step=2, payload_bytes=1408)
    )


# Exchange, answer, then (items, bits) up and down and the kind and destination.
BILLS: dict[str, tuple[Any, Any, tuple[int, int], tuple[int, int], str]] = {
    "tally": (
        Tally(BYTES, 70, 2, 1.0, 8),
        Consensus(BYTES, 1.0, 8),
        (70, 1),
        (70, 1),
        "switch",
    ),
    "max": (Max(1.0), Peak(1.0), (0, 32), (0, 32), "switch"),
    "sum": (
        Sum(BYTES, 6, 12, 12, 9),
        Totals(BYTES, 6, 12, 9, 2),
        (6, 12),
        (6, 12),
        "switch",
    ),
    "blocksum": (
        BlockSum(np.array([2, 3]), rows(2), 4),
        BlockTotals(np.array([1, 2, 3]), rows(3), 2),
        (10, 32),
        (15, 32),
        "switch",
    ),
    "indexedsum": (
        IndexedSum(np.arange(4), INT32[:4], 9),
        IndexedTotals(np.arange(7), INT32[:7], 2),
        (4, 64),
        (7, 64),
        "switch",
    ),
    "serversum": (
        ServerSum(np.zeros(5, dtype=np.float32)),
        ServerTotals(np.zeros(5, dtype=np.float32), None),
        (5, 32),
        (5, 32),
        "server",
    ),
}


@pytest.mark.parametrize("kind", BILLS)
def test_every_client_is_billed_what_it_sends_and_gets(kind: str) -> None:
    exchange, answer, up, down, destination = BILLS[kind]
    found = bill(exchange, answer, 3, 7)
    assert [(row.client, row.direction) for row in found] == [
        (3, "up"),
        (7, "up"),
        (3, "down"),
        (7, "down"),
    ]
    assert {(row.n_items, row.bits_per_item) for row in found[:2]} == {up}
    assert {(row.n_items, row.bits_per_item) for row in found[2:]} == {down}
    assert {row.phase for row in found} == {exchange.phase}
    assert {(row.kind, row.destination) for row in found} == {(kind, destination)}
    assert {(row.round_number, row.step) for row in found} == {(5, 2)}
    assert {row.payload_bytes for row in found} == {1408}


def test_narrow_lanes_are_billed_in_either_width() -> None:
    asked, answer = Sum(BYTES, 5000, 8, 12, 9), Totals(BYTES, 5000, 12, 9, 2)
    up, down = bill(asked, answer)
    assert (up.n_items, up.bits_per_item, up.widths) == (5000, 8, (8, 12))
    assert (down.n_items, down.bits_per_item, down.widths) == (5000, 12, (8, 12))
    # 1,408 lanes up in a packet, 936 down: 3 answers of two packets, one of one.
    assert (up.n_packets(WIRE), down.n_packets(WIRE)) == (4, 7)


@pytest.mark.parametrize(
    ("size", "is_narrow", "bits"), [(9, False, 44), (9, True, 16), (1, True, 13)]
)
def test_pairs_are_billed_with_the_widths_they_have(
    size: int, *, is_narrow: bool, bits: int
) -> None:
    levels = INT32[:1]
    found = bill(
        IndexedSum(np.arange(1), levels, size, 12, is_narrow),
        IndexedTotals(np.arange(1), levels, 2),
    )
    assert {row.bits_per_item for row in found} == {bits}


def test_whole_numbers_for_the_server_are_billed_with_the_widths_asked() -> None:
    values, indices = np.zeros(5), np.arange(5)
    found = bill(ServerSum(values, indices, 12, 24), ServerTotals(values, indices))
    assert {row.bits_per_item for row in found} == {36}


def test_sparse_floats_are_billed_with_their_indices() -> None:
    for dtype, bits in ((np.float32, 64), (np.float64, 96)):
        values, indices = np.zeros(5, dtype), np.arange(5)
        found = bill(ServerSum(values, indices), ServerTotals(values, indices))
        assert {row.bits_per_item for row in found} == {bits}


@pytest.mark.parametrize(
    ("first_block", "n_down"), [(0, 2), (1, 3)], ids=["has block 0", "has not"]
)
def test_blocks_are_announced_up_and_down_unless_block_0_is_there(
    first_block: int, n_down: int
) -> None:
    blocks = np.array([first_block, 8])
    found = bill(BlockSum(blocks, rows(2), 9), BlockTotals(blocks, rows(2), 2))
    assert [row.n_packets(WIRE) for row in found] == [3, n_down]


def test_no_blocks_at_all_are_still_announced() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    found = bill(BlockSum(nothing, rows(0), 9), BlockTotals(nothing, rows(0), 2))
    assert [row.n_packets(WIRE) for row in found] == [1, 1]
