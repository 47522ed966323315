from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fediac.core.ledger import (
    PAYLOAD,
    Direction,
    Ledger,
    Row,
    Traffic,
    View,
    fill_payload,
)

N_CLIENTS = 20
DIM = 11_173_962
HEADED = View("headed", payload_bytes=100, header_bytes=40)


def row(client: int = 0, direction: Direction = "up", **changes: Any) -> Row:
    settings: dict[str, Any] = {
        "round_number": 1,
        "phase": "levels",
        "kind": "sum",
        "destination": "switch",
        "n_items": 100,
        "bits_per_item": 12,
    }
    return Row(client=client, direction=direction, **(settings | changes))


def both_ways(**changes: Any) -> Ledger:
    """One row up and one down for each of twenty clients."""
    directions: tuple[Direction, ...] = ("up", "down")
    return Ledger(
        tuple(
            row(client, direction, **changes)
            for direction in directions
            for client in range(N_CLIENTS)
        )
    )


class TestPapersNumbers:
    def test_switchml_round_is_639_mib(self) -> None:
        traffic = both_ways(n_items=DIM, bits_per_item=12).traffic()
        assert traffic.payload_bits == 2 * N_CLIENTS * 12 * DIM
        assert round(traffic.payload_mib, 1) == 639.4

    def test_switchml_client_sends_11174_packets(self) -> None:
        upload = row(n_items=DIM, bits_per_item=12)
        assert upload.n_packets(PAYLOAD) == 11_174

    def test_fediacs_phase_one_is_53_mib(self) -> None:
        votes = both_ways(n_items=DIM, bits_per_item=1, phase="votes", kind="tally")
        assert round(votes.traffic().payload_mib, 1) == 53.3


@pytest.mark.parametrize(
    ("n_items", "bits", "n_packets"),
    [
        (0, 32, 1),  # a peak is header, but has a packet
        (1, 12, 1),
        (66, 12, 1),  # 800 bits hold 66 lanes of 12 and 8 bits of padding
        (67, 12, 2),
        (25, 32, 1),
        (26, 32, 2),
        (12, 64, 1),
        (13, 64, 2),
    ],
)
def test_items_never_straddle_packets(n_items: int, bits: int, n_packets: int) -> None:
    assert row(n_items=n_items, bits_per_item=bits).n_packets(HEADED) == n_packets


def test_padding_is_not_payload() -> None:
    traffic = Ledger((row(n_items=67, bits_per_item=12),)).traffic(HEADED)
    assert traffic.payload_bits == 67 * 12
    assert (traffic.header_bytes, traffic.n_packets) == (80, 2)
    # Each row ends at a whole byte: 804 bits are 101 bytes.
    assert traffic.n_bytes == 101 + 80
    assert traffic.mib == 181 / 2**20


def test_block_is_a_packet_of_its_own() -> None:
    blocks = np.array([3, 4, 9])
    assert row(blocks=blocks, n_items=30, bits_per_item=32).n_packets(PAYLOAD) == 3
    assert row(blocks=blocks[:0], n_items=0, n_bare=1).n_packets(PAYLOAD) == 1


def test_bare_and_repeated_packets_are_counted() -> None:
    again = row(n_items=66, n_bare=1, n_retransmitted=2)
    assert again.n_packets(HEADED) == 4
    traffic = Ledger((again,)).traffic(HEADED)
    assert traffic.payload_bits == 66 * 12 + 2 * 800
    assert traffic.header_bytes == 4 * 40


def test_view_of_what_was_sent_takes_the_room_its_packets_had() -> None:
    short = row(n_items=67, n_retransmitted=1, payload_bytes=50)
    unknown = row(n_items=67, n_retransmitted=1)
    as_sent = replace(HEADED, is_as_sent=True)
    # 400 bits hold 33 lanes of 12, 800 hold 66.
    assert [each.n_packets(HEADED) for each in (short, unknown)] == [3, 3]
    assert [each.n_packets(as_sent) for each in (short, unknown)] == [4, 3]
    assert Ledger((short,)).traffic(as_sent).payload_bits == 67 * 12 + 400
    assert Ledger((unknown,)).traffic(as_sent).payload_bits == 67 * 12 + 800


def test_multicast_counts_a_download_once_and_uploads_each() -> None:
    ledger = both_ways() + both_ways(phase="votes") + both_ways(round_number=2)
    unicast, multicast = ledger.traffic(), ledger.traffic(is_multicast=True)
    assert unicast.n_packets == 3 * 2 * N_CLIENTS
    assert multicast.n_packets == 3 * (N_CLIENTS + 1)


def test_renaming_phases_changes_no_traffic() -> None:
    # Exchanges of one round are told apart by step, and by kind where they travel
    # together.
    ledger = (
        both_ways(phase="peak", kind="max", n_items=0, step=0)
        + both_ways(phase="hot", kind="indexedsum", step=1)
        + both_ways(phase="cold", kind="serversum", destination="server", step=1)
    )
    renamed = ledger.with_phase("statistics")
    assert renamed.phases == ("statistics",)
    assert renamed.traffic() == ledger.traffic()
    multicast = renamed.traffic(is_multicast=True)
    assert multicast == ledger.traffic(is_multicast=True)
    assert multicast.n_packets == 3 * (N_CLIENTS + 1)


def test_steps_of_what_comes_later_go_on_from_the_last() -> None:
    first = Ledger((row(step=0), row(step=1)))
    later = Ledger((row(step=0), row(step=1), row(step=1)))
    assert [each.step for each in first.then(later).rows] == [0, 1, 2, 3, 3]
    assert [each.step for each in Ledger().then(later).rows] == [0, 1, 1]
    assert [each.step for each in (first + later).rows] == [0, 1, 0, 1, 1]


def test_rows_are_selected_by_what_they_say() -> None:
    ledger = both_ways() + both_ways(phase="cold", destination="server")
    assert len(ledger.select().rows) == 4 * N_CLIENTS
    assert len(ledger.select(direction="up").rows) == 2 * N_CLIENTS
    assert len(ledger.select(destination="server").rows) == 2 * N_CLIENTS
    found = ledger.select(phase="cold", direction="down", client=7).rows
    assert [(each.phase, each.direction, each.client) for each in found] == [
        ("cold", "down", 7)
    ]
    assert ledger.phases == ("levels", "cold")


def test_empty_ledger_costs_nothing() -> None:
    assert Ledger().traffic() == Traffic()
    assert Ledger().traffic().n_bytes == 0


@pytest.mark.parametrize(("bits", "n_items"), [(1, 800), (12, 66), (32, 25), (801, 0)])
def test_payload_is_filled_with_whole_items(bits: int, n_items: int) -> None:
    assert fill_payload(bits, 100) == n_items


class TestLanesOfTwoWidths:
    """Six bits up and ten down: 2,000 and 1,200 lanes fill 1,500 bytes."""

    @pytest.mark.parametrize(
        ("n_items", "n_up", "n_down"),
        [(0, 1, 1), (1200, 1, 1), (1201, 1, 2), (2000, 1, 2), (2001, 2, 3),
         (3200, 2, 3), (3201, 2, 4), (10_000, 5, 10)],
    )  # fmt: skip
    def test_answers_are_cut_where_packets_up_were(
        self, n_items: int, n_up: int, n_down: int
    ) -> None:
        up = row(n_items=n_items, bits_per_item=6, widths=(6, 10))
        down = row(direction="down", n_items=n_items, bits_per_item=10, widths=(6, 10))
        assert (up.n_packets(PAYLOAD), down.n_packets(PAYLOAD)) == (n_up, n_down)
        assert (up.n_parts(PAYLOAD), down.n_parts(PAYLOAD)) == (2, 2)
        assert replace(up, n_retransmitted=3).n_packets(PAYLOAD) == n_up + 3

    def test_each_way_is_billed_in_its_own_width(self) -> None:
        up = row(n_items=1000, bits_per_item=6, widths=(6, 10))
        down = row(direction="down", n_items=1000, bits_per_item=10, widths=(6, 10))
        assert Ledger((up, down)).traffic().payload_bits == 16_000

    def test_a_view_may_pack_whole_groups_of_lanes(self) -> None:
        # 100 bytes hold 266 lanes of 3 bits, or 33 groups of eight.
        view = View("grouped", payload_bytes=100, header_bytes=0, lanes_unit=8)
        up = row(n_items=265, bits_per_item=3, widths=(3, 7))
        assert up.n_packets(view) == 2
        assert up.n_packets(replace(view, lanes_unit=1)) == 1
        # 114 lanes of 7 bits, or 14 groups: 264 are 112 + 112 + 40.
        assert up.n_parts(view) == 3
