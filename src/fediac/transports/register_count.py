"""The counters of a switch, computed from exchanges instead of counted by registers."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from array_api_compat import array_namespace

from fediac.core.exchange import (
    Answer,
    BlockSum,
    BlockTotals,
    Exchange,
    IndexedSum,
    IndexedTotals,
    Max,
    Sum,
    Tally,
)
from fediac.core.types import Indices
from fediac.switch.counters import Counters
from fediac.switch.registers import Layout, Widths
from fediac.transports.packets import (
    Pieces,
    require_addresses,
    require_block,
    require_slots,
)
from fediac.wire.header import Kind
from fediac.wire.pairs import n_ranges


class RegisterCount:
    """The counters of a switch, computed instead of counted."""

    def __init__(self, layout: Layout, n_present: int) -> None:
        # Without the room for early blocks, which sessions over a network have besides:
        # a run says the same of its rounds wherever they were.
        self._layout = replace(layout, keeps_early=False)
        self._n_present = n_present
        self._packets_in = self._packets_out = self._aggregations = 0
        self._previous = self._current = 0
        self._spans_both = False
        self._peak_bytes = layout.halves_at

    @property
    def counters(self) -> Counters:
        """What a switch would have counted so far."""
        return Counters(
            packets_in=self._packets_in,
            packets_out=self._packets_out,
            aggregations=self._aggregations,
            repeated=0,
            register_bytes=self._peak_bytes,
            drops={},
        )

    def _count(self, n_in: int, n_out: int, n_aggregations: int) -> None:
        self._packets_in += n_in
        self._packets_out += n_out
        self._aggregations += n_aggregations

    def _use(self, n_bytes: int, *, spans_both: bool = False) -> None:
        """Let an exchange use the half that the last but one used, or both."""
        is_alone = spans_both or self._spans_both
        self._previous = 0 if is_alone else self._current
        self._current, self._spans_both = n_bytes, spans_both
        used = self._layout.halves_at + self._previous + self._current
        self._peak_bytes = max(self._peak_bytes, used)

    def add(self, requests: Sequence[Exchange], answer: Answer) -> None:
        """Count an exchange that clients asked, and its answer."""
        asked: Any = requests
        match asked[0]:
            case Tally(dim=dim, threshold=threshold):
                self.add_stream(Kind.TALLY, dim, (1, 1), threshold)
            case Max():
                self.add_peak()
            case Sum(n_levels=n_levels, bits_up=bits_up, bits_down=bits_down):
                self.add_stream(Kind.SUM, n_levels, (bits_up, bits_down))
            case BlockSum() if isinstance(answer, BlockTotals):
                self.add_blocks([each.blocks for each in asked], answer.blocks)
            case IndexedSum() if isinstance(answer, IndexedTotals):
                counts = [each.indices.shape[0] for each in asked]
                self.add_indexed(counts, answer.indices.shape[0], asked[0])

    def add_peak(self) -> None:
        """Count a maximum."""
        self._count(self._n_present, 1, 1)

    def add_stream(
        self, kind: Kind, n_items: int, widths: Widths, threshold: int = 1
    ) -> None:
        """Count a tally or a sum."""
        n_slots = require_slots(self._layout, kind, threshold, widths)
        bits_up, bits_down = widths
        pieces = Pieces(n_items, bits_up, self._layout.payload_bytes, bits_down)
        n_packets = pieces.n_packets
        n_answers = pieces.n_answers(0, n_packets)
        self._count(self._n_present * n_packets, n_answers, n_packets)
        stride = self._layout.slot_bytes(kind, threshold, widths)
        self._use(min(n_packets, n_slots) * stride)

    def check_block(self, length: int) -> None:
        """Check that a block fits a packet."""
        require_block(self._layout.payload_bytes, length)

    def add_blocks(self, sent: Sequence[Indices], union: Indices) -> None:
        """Count a block sum."""
        n_slots = require_slots(self._layout, Kind.BLOCK_SUM)
        n_union = union.shape[0]
        n_in = sum(blocks.shape[0] for blocks in sent) + len(sent)
        n_bare = int(not n_union or int(union[0]) > 0)
        self._count(n_in, n_union + n_bare, n_union)
        xp = array_namespace(union)
        n_used = xp.unique_values(union % n_slots).shape[0]
        stride = self._layout.slot_bytes(Kind.BLOCK_SUM)
        self._use(self._layout.clocks_bytes + n_used * stride)

    def add_indexed(
        self, counts: Sequence[int], n_union: int, asked: IndexedSum
    ) -> None:
        """Count an indexed sum."""
        require_addresses(self._layout, asked.size)
        payload, widths = self._layout.payload_bytes, (asked.index_bits, asked.bits)
        n_in = sum(Pieces(count, sum(widths), payload).n_packets for count in counts)
        n_answers = n_ranges(asked.size, widths, payload)
        self._count(n_in + n_answers - 1, n_answers, n_union)
        self._use(self._layout.indexed_bytes(asked.size), spans_both=True)
