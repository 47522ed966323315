"""Exchanges on whole arrays, on their own device: the switch's sums without packets.

For updates on an accelerator. The answers have the bits that packets through a switch
would give, and the counters are what its registers would have counted; tests compare
both.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from array_api_compat import array_namespace, device

from fediac.core.bitpack import pack_lanes, unpack_lanes
from fediac.core.chunks import chunks
from fediac.core.consensus import agree
from fediac.core.exchange import (
    Answer,
    BlockSum,
    BlockTotals,
    Consensus,
    Exchange,
    IndexedSum,
    IndexedTotals,
    Max,
    Peak,
    ServerSum,
    Sum,
    Tally,
    Totals,
)
from fediac.core.types import Packed
from fediac.switch.counters import Counters
from fediac.switch.job import Job
from fediac.transports.register_count import RegisterCount
from fediac.transports.server import serve
from fediac.wire.header import Kind


class ArrayTransport:
    """Carries the exchanges of one round in arrays, within ``job``'s registers."""

    def __init__(self, job: Job) -> None:
        self.layout = job.layout
        self._registers = RegisterCount(job.layout, job.present.bit_count())

    @property
    def counters(self) -> Counters:
        """What a switch would have counted."""
        return self._registers.counters

    @property
    def payload_bytes(self) -> int:
        """Room for items in a packet."""
        return self.layout.payload_bytes

    def carry(self, requests: Mapping[int, Exchange]) -> Answer:
        """Return the answer to one exchange, asked by all clients."""
        asked: Any = list(requests.values())
        match asked[0]:
            case ServerSum():
                everyone: Any = requests
                return serve(everyone)
            case Tally():
                return self._tally(asked)
            case Max():
                self._registers.add_peak()
                return Peak(max(each.peak for each in asked))
            case Sum():
                return self._sum(asked)
            case BlockSum():
                return self._block_sum(asked)
            case IndexedSum():
                return self._indexed_sum(asked)
            case other:
                raise TypeError(f"unknown exchange {type(other).__name__}")

    def _tally(self, asked: Sequence[Tally]) -> Consensus:
        first = asked[0]
        self._registers.add_stream(Kind.TALLY, first.dim, (1, 1), first.threshold)
        return Consensus(
            agree([each.votes for each in asked], first.threshold),
            max(each.peak for each in asked),
            max(each.bits for each in asked),
        )

    def _sum(self, asked: Sequence[Sum]) -> Totals:
        first = asked[0]
        n_levels, widths = first.n_levels, (first.bits_up, first.bits_down)
        self._registers.add_stream(Kind.SUM, n_levels, widths)
        lanes = add_lanes([each.lanes for each in asked], n_levels, *widths)
        bits, limit = first.bits_down, first.limit
        return Totals(lanes, n_levels, bits, limit, len(asked))

    def _block_sum(self, asked: Sequence[BlockSum]) -> BlockTotals:
        first = asked[0]
        self._registers.check_block(first.levels.shape[1])
        xp = array_namespace(first.blocks)
        blocks = xp.unique_values(xp.concat([each.blocks for each in asked]))
        shape = (blocks.shape[0], first.levels.shape[1])
        totals = xp.zeros(shape, dtype=xp.int32, device=device(first.levels))
        for each in asked:
            totals[xp.searchsorted(blocks, each.blocks)] += each.levels
        self._registers.add_blocks([each.blocks for each in asked], blocks)
        return BlockTotals(blocks, totals, len(asked))

    def _indexed_sum(self, asked: Sequence[IndexedSum]) -> IndexedTotals:
        first = asked[0]
        xp = array_namespace(first.indices)
        sums = xp.zeros(first.size, dtype=xp.int32, device=device(first.indices))
        is_used = xp.zeros(first.size, dtype=xp.bool, device=device(first.indices))
        for each in asked:
            sums[each.indices] += xp.astype(each.levels, xp.int32)
            is_used[each.indices] = True
        union = xp.astype(xp.nonzero(is_used)[0], xp.int64)
        counts = [each.indices.shape[0] for each in asked]
        self._registers.add_indexed(counts, union.shape[0], first)
        # A packet has the lowest bits of a total, and the highest of them is its sign.
        n_above = 32 - first.bits
        totals = (sums[union] << n_above) >> n_above
        return IndexedTotals(union, totals, len(asked))


def add_lanes(
    packed: Sequence[Packed], n_lanes: int, bits_up: int, bits_down: int
) -> Packed:
    """Return the lane by lane sum of packed lanes, as packed lanes of another width."""
    xp = array_namespace(packed[0])
    added = []
    for start, stop in chunks(n_lanes, packed[0]):
        first, last = start // 8 * bits_up, -(-stop * bits_up // 8)
        total = unpack_lanes(packed[0][first:last], stop - start, bits_up)
        for other in packed[1:]:
            total = total + unpack_lanes(other[first:last], stop - start, bits_up)
        added.append(pack_lanes(total, bits_down))
    return xp.concat(added)
