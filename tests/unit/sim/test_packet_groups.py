"""Groups: which packets each answer waits for."""

from dataclasses import replace

import numpy as np
import pytest

from fediac.core.ledger import PAYLOAD, Row
from fediac.sim import Bounded
from fediac.sim.packet_groups import Rule, TimedExchange, list_steps
from tests.support import refuses
from tests.unit.sim.rounds import block_sum, exchange, packets


def only(rows: list[Row], memory: Bounded | None = None) -> TimedExchange:
    (step,) = list_steps(rows, PAYLOAD, memory)
    (found,) = step.exchanges
    return found


@pytest.mark.parametrize("kind", ["tally", "sum"])
def test_packet_j_of_every_client_makes_group_j(kind: str) -> None:
    found = only(packets(5, n_clients=3, kind=kind))
    assert (found.rule, found.left.tolist()) == (Rule.ALIGNED, [3] * 5)
    assert (found.n_answers, found.is_far) == (5, False)
    assert {flow.n_packets for flow in found.flows.values()} == {5}


def test_a_maximum_is_one_packet_each_way() -> None:
    found = only(exchange("max", 0, 32, n_clients=4))
    assert (found.left.tolist(), found.n_answers) == ([4], 1)


def test_sums_of_wider_lanes_come_down_in_parts() -> None:
    # 2,000 lanes of 6 bits up, 1,200 of 10 bits down in a packet: 2 + 2 + 1.
    rows = exchange("sum", 5000, 10, n_clients=3, bits_up=6)
    found = only(rows)
    assert found.left.tolist() == [3, 3, 3]
    assert (found.n_answers, found.n_parts, found.n_last) == (5, 2, 1)
    one = only(exchange("sum", 5000, 10, n_clients=3))
    assert (one.n_answers, one.n_parts, one.n_last) == (5, 1, 1)


def test_the_window_of_a_sum_follows_from_the_widths_of_its_lanes() -> None:
    rows = exchange("sum", 5000, 10, n_clients=3, bits_up=6)
    memory = Bounded(9, wide_slots=lambda up, down: down - up)
    assert only(rows, memory).window == 4
    assert only(packets(3), memory).window == 9
    assert only(rows, replace(memory, window=2)).window == 2
    assert only(rows, Bounded(9)).window == 9


def test_repeated_packets_are_waited_for_in_the_last_group() -> None:
    rows = packets(3, n_clients=2)
    rows[0] = replace(rows[0], n_retransmitted=2)
    found = only(rows)
    assert found.left.tolist() == [2, 2, 4]
    assert [flow.n_packets for flow in found.flows.values()] == [5, 3]


def test_pairs_are_one_group_with_many_answers() -> None:
    found = only(exchange("indexedsum", 400, 64, n_clients=2, n_down=700))
    # 187 pairs of 64 bits fill 1,500 bytes.
    assert (found.rule, found.left.tolist(), found.n_answers) == (Rule.ONE, [6], 4)


def test_a_dense_server_sum_is_aligned_and_a_sparse_one_is_not() -> None:
    dense = only(exchange("serversum", 1000, 32, n_clients=2))
    assert (dense.rule, dense.is_far, dense.left.tolist()) == (0, True, [2, 2, 2])
    sparse = only(exchange("serversum", 1000, 64, n_clients=2, n_down=1500))
    assert (sparse.rule, sparse.left.tolist()) == (Rule.ONE, [12])


def test_block_j_waits_for_each_clients_first_packet_from_j_on() -> None:
    found = only(block_sum([[2, 7], [3], []]))
    # Groups: announcements, then blocks 2, 3 and 7.
    assert (found.rule, found.left.tolist()) == (Rule.ENDS, [3] * 4)
    assert ends(found) == [[1, 2, 4], [1, 4], [4]]


def test_without_announcements_down_groups_are_the_blocks() -> None:
    assert ends(only(block_sum([[0, 1], [1]]))) == [[0, 1, 2], [0, 2]]


def test_with_bounded_memory_the_next_block_counts() -> None:
    found = only(block_sum([[2, 7], [3], []]), Bounded(2))
    assert ends(found) == [[1, 3, 4], [2, 4], [4]]
    needs = [
        flow.needs.tolist() for flow in found.flows.values() if flow.needs is not None
    ]
    # Block 7 waits until blocks up to 5 are answered: the announcement, 2 and 3.
    assert needs == [[0, 1, 3], [0, 1], [0]]


def test_a_packet_needs_the_slot_of_its_own_block() -> None:
    found = only(block_sum([[2, 7], [3], []]))
    owns = [
        flow.owns.tolist() for flow in found.flows.values() if flow.owns is not None
    ]
    assert owns == [[-1, 1, 3], [-1, 2], [-1]]
    up, down = block_sum([[2, 7]])
    strange = only([replace(up, blocks=np.array([2, 5, 9])), down])
    flow = strange.flows[0]
    assert flow.owns is not None
    # Nobody gets blocks 5 and 9, so they have no slot; 9 is still beyond block 7.
    assert flow.owns.tolist() == [-1, 1, -1, -1]
    assert ends(strange) == [[1, 2, 2, 3]]


def ends(found: TimedExchange) -> list[list[int]]:
    return [
        flow.ends.tolist() for flow in found.flows.values() if flow.ends is not None
    ]


def test_clients_with_the_same_blocks_share_a_flow() -> None:
    rows = block_sum([[1, 2], [1, 2]])
    shared = np.array([1, 2])
    rows = [replace(row, blocks=shared) for row in rows]
    first, second = only(rows).flows.values()
    assert first is second


def test_exchanges_of_one_step_travel_together_in_the_order_of_rows() -> None:
    rows = exchange("indexedsum", 10, 64, n_clients=2, n_down=15, step=3)
    rows += exchange("serversum", 10, 64, n_clients=2, n_down=15, step=3)
    rows += exchange("max", 0, 32, n_clients=2, step=1)
    first, second = list_steps(rows, PAYLOAD, None)
    assert [each.phase for each in first.exchanges] == ["max"]
    assert [each.phase for each in second.exchanges] == ["indexedsum", "serversum"]
    assert second.n_packets(1) == 2


def test_windows_bound_streamed_exchanges_only() -> None:
    memory = Bounded({"sum": 9, "max": 1}, window=4)
    assert only(packets(3), memory).window == 4
    assert only(exchange("max", 0, 32, n_clients=1), memory).window == 1
    assert only(exchange("serversum", 9, 32, n_clients=1), memory).window == 0
    assert only(exchange("indexedsum", 9, 64, n_clients=1), memory).window == 0
    with pytest.raises(
        ValueError, match=r"^n_slots must have some for a tally, got none$"
    ):
        only(packets(3, kind="tally"), memory)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            packets(1) + packets(1),
            "ledger must have one up row of client 0 in step 0, phase 'sum', got two",
        ),
        (packets(1)[:1], "phase 'sum' must have the same clients up and down"),
        (
            exchange("vote", 1, 1, n_clients=1),
            "kind must be one of tally, max, sum, blocksum, indexedsum, serversum, "
            "got 'vote'",
        ),
        (
            exchange("sum", 3000, 12, n_clients=1, n_down=1000),
            "phase 'sum' must have an answer for each of 3 groups, got 1",
        ),
        (
            packets(1, n_clients=2) + exchange("max", 0, 32, n_clients=1),
            "phases 'sum' and 'max' travel together but have other clients",
        ),
        (
            [replace(row, blocks=np.array([3, 3])) for row in block_sum([[1, 2]])],
            "phase 'blocks': block numbers must ascend",
        ),
        (
            [replace(row, n_bare=0) for row in block_sum([[]])],
            "phase 'blocks' must have packets up and down",
        ),
    ],
)
def test_rows_that_make_no_sense_are_refused(rows: list[Row], message: str) -> None:
    with refuses(message):
        list_steps(rows, PAYLOAD, None)
