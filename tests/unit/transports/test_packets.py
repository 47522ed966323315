import numpy as np
import pytest

from fediac.switch.registers import Layout
from fediac.transports.packets import (
    Pieces,
    hidden_max_places,
    require_addresses,
    require_block,
    require_slots,
)
from fediac.wire.header import Kind
from tests.support import refuses

LAYOUT = Layout(n_clients=20, payload_bytes=1408, register_bytes=1 << 20)


class TestPieces:
    def test_packets_hold_whole_bytes_and_the_last_one_the_rest(self) -> None:
        # 1,408 bytes hold 938 lanes of 12 bits, and four bits stay free.
        pieces = Pieces(2000, 12, 1408)
        assert (pieces.n_packets, pieces.n_bytes) == (3, 1407)
        assert pieces.n_items(np.arange(3)).tolist() == [938, 938, 124]

    def test_no_items_still_take_a_packet(self) -> None:
        assert Pieces(0, 64, 1408).n_packets == 1
        assert Pieces(0, 64, 1408).n_items(np.arange(1)).tolist() == [0]

    @pytest.mark.parametrize("window", [1, 2, 3, 100])
    def test_windows_cover_all_packets_in_order(self, window: int) -> None:
        spans = list(Pieces(2000, 12, 1408).windows(window))
        covered = [packet for start, stop in spans for packet in range(start, stop)]
        assert covered == [0, 1, 2]
        assert all(stop - start <= window for start, stop in spans)

    def test_payload_too_short_for_whole_bytes_of_items_is_refused(self) -> None:
        with refuses("payload_bytes must hold 2 items of 12 bits, got 1"):
            Pieces(5, 12, 1)

    def test_answers_are_cut_where_packets_up_were(self) -> None:
        # 1,872 lanes of 6 bits go up, 1,120 of 10 bits come down in a packet.
        pieces = Pieces(5000, 6, 1408, 10)
        assert pieces.n_items(np.arange(3)).tolist() == [1872, 1872, 1256]
        assert (pieces.n_bytes, pieces.n_answer_bytes) == (1404, 2340)
        assert pieces.n_part_bytes == 1400
        assert [pieces.n_answers(*span) for span in ((0, 3), (0, 1), (2, 3))] == [
            6,
            2,
            2,
        ]
        assert Pieces(3841, 6, 1408, 10).n_answers(0, 3) == 5


class TestRegisters:
    def test_slots_are_those_of_the_layout(self) -> None:
        for kind, threshold in ((Kind.SUM, 1), (Kind.TALLY, 7), (Kind.BLOCK_SUM, 1)):
            found = require_slots(LAYOUT, kind, threshold)
            assert found == LAYOUT.n_slots(kind, threshold)

    @pytest.mark.parametrize(
        ("kind", "threshold"), [(Kind.TALLY, 1000), (Kind.BLOCK_SUM, 1)]
    )
    def test_registers_too_small_for_a_slot_say_what_they_need(
        self, kind: Kind, threshold: int
    ) -> None:
        small = Layout(n_clients=1024, payload_bytes=1408, register_bytes=3700)
        with pytest.raises(ValueError, match=r"^register_bytes must be") as error:
            require_slots(small, kind, threshold)
        text = str(error.value)
        name = kind.name.lower()
        assert text.endswith(
            f" for two packets of a {name} from 1024 clients, got 3700"
        )
        needed = int(text.split("at least ")[1].split(" ")[0])
        enough = Layout(1024, 1408, needed)
        assert require_slots(enough, kind, threshold) >= 1
        with pytest.raises(ValueError, match=r"^register_bytes must be"):
            require_slots(Layout(1024, 1408, needed - 1), kind, threshold)

    def test_addresses_must_fit(self) -> None:
        capacity = LAYOUT.indexed_capacity
        require_addresses(LAYOUT, capacity)
        text = f"an indexed sum must have at most {capacity} addresses"
        with refuses(f"{text} (register_bytes=1048576), got {capacity + 1}"):
            require_addresses(LAYOUT, capacity + 1)

    def test_block_must_fit_a_packet(self) -> None:
        require_block(1408, 352)
        text = "block must be at most 352 entries (payload_bytes=1408), got 353"
        with refuses(text):
            require_block(1408, 353)


STREAMED = [Kind.TALLY, Kind.SUM, Kind.BLOCK_SUM]


class TestHiddenMaxPlaces:
    @pytest.mark.parametrize("kind", [*STREAMED, Kind.INDEXED_SUM])
    def test_a_maximum_stands_before_and_after_an_indexed_sum(self, kind: Kind) -> None:
        kinds = [kind, Kind.INDEXED_SUM, kind, kind, Kind.INDEXED_SUM]
        beside = [1, 2, 3, 4] if kind == Kind.INDEXED_SUM else [1, 2, 4]
        assert hidden_max_places(kinds) == beside

    def test_none_is_added_where_there_is_one(self) -> None:
        kinds = [Kind.SUM, Kind.MAX, Kind.INDEXED_SUM, Kind.MAX, Kind.TALLY]
        assert hidden_max_places(kinds) == []

    def test_one_serves_both_sums_beside_it(self) -> None:
        assert hidden_max_places([Kind.INDEXED_SUM, Kind.MAX, Kind.INDEXED_SUM]) == []

    def test_nothing_stands_before_the_first_exchange_or_after_the_last(self) -> None:
        assert hidden_max_places([Kind.INDEXED_SUM]) == []
        assert hidden_max_places([]) == []

    def test_streamed_exchanges_need_none(self) -> None:
        assert hidden_max_places([*STREAMED, *STREAMED]) == []
