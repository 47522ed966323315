"""Exchanges as packets through a switch in this process, without a network.

Clients send in windows, as the real protocol does: a slot is reused only when its
packet is complete, so the switch never needs more registers than it has.
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
from array_api_compat import array_namespace, device

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
from fediac.core.types import Array
from fediac.errors import FediacError, say_count
from fediac.native.packets import Room
from fediac.switch.counters import Counters
from fediac.switch.job import Job
from fediac.switch.pipeline import Answers, Switch
from fediac.switch.registers import Layout, Widths
from fediac.transports.batches import (
    BATCH_PACKETS,
    Batches,
    Bytes,
    Integers,
    Rows,
    batch_bytes,
    bytes_of,
    gather,
    groups,
    lengths_of,
    split,
)
from fediac.transports.packets import (
    Pieces,
    require_addresses,
    require_block,
    require_slots,
)
from fediac.transports.server import serve
from fediac.wire.header import END, HEADER_BYTES, Flag, Kind
from fediac.wire.pairs import n_ranges, pack_pairs, unpack_rows

_KINDS = {
    Tally: Kind.TALLY,
    Max: Kind.MAX,
    Sum: Kind.SUM,
    BlockSum: Kind.BLOCK_SUM,
    IndexedSum: Kind.INDEXED_SUM,
}


class MemoryTransport:
    """Carries the exchanges of one session through ``switch``.

    Args:
        switch: Where packets go.
        job: The session opened for this round's clients.
    """

    def __init__(self, switch: Switch, job: Job) -> None:
        self._switch = switch
        self._job = job
        self._before = switch.counters
        self._n_exchanges = 0
        # Every batch and its answers are in the same memory as those before.
        self._written = np.empty(batch_bytes(self.payload_bytes), dtype=np.uint8)
        self._room = Room()

    @property
    def layout(self) -> Layout:
        """Where the session's registers are."""
        return self._job.layout

    @property
    def counters(self) -> Counters:
        """What the switch has counted since the round began."""
        return self._switch.counters.since(self._before)

    @property
    def payload_bytes(self) -> int:
        """Room for items in a packet."""
        return self._switch.payload_bytes

    def carry(self, requests: Mapping[int, Exchange]) -> Answer:
        """Return the answer to one exchange, asked by all clients."""
        first = next(iter(requests.values()))
        asked: Any = requests
        if isinstance(first, ServerSum):
            return serve(asked)
        packets = self._batches(first)
        self._n_exchanges += 1
        match first:
            case Tally():
                return self._tally(asked, packets)
            case Max():
                return self._max(asked, packets)
            case Sum():
                return self._sum(asked, packets)
            case BlockSum():
                return self._block_sum(asked, packets)
            case IndexedSum():
                return self._indexed_sum(asked, packets)

    def _batches(self, asked: Exchange) -> Batches:
        fields = {
            "kind": int(_KINDS[type(asked)]),
            "session": self._job.session,
            "exchange": self._n_exchanges,
        }
        if isinstance(asked, IndexedSum):
            fields |= {"aux": asked.size, "bits": asked.bits}
            fields["flags"] = int(Flag.NARROW) if asked.is_narrow else 0
        return Batches(fields, self.payload_bytes, out=self._written)

    def _tally(self, requests: Mapping[int, Tally], packets: Batches) -> Consensus:
        first = next(iter(requests.values()))
        window = self._window(Kind.TALLY, first.threshold)
        layout = Pieces(first.dim, 1, self.payload_bytes)
        votes = {i: _as_bytes(each.votes) for i, each in requests.items()}
        fields = {
            "threshold_or_count": dict.fromkeys(requests, first.threshold),
            "aux": {i: _float_bits(each.peak) for i, each in requests.items()},
            "bits": {i: each.bits for i, each in requests.items()},
        }
        gia = np.zeros(-(-first.dim // 8), dtype=np.uint8)
        answered = self._stream(packets, votes, layout, window, fields, out=gia)
        return Consensus(
            _as_kind(gia, first.votes),
            _to_float(int(answered["aux"].max())),
            int(answered["bits"].max()),
        )

    def _max(self, requests: Mapping[int, Max], packets: Batches) -> Peak:
        batch = packets.empty(list(requests))
        batch["header"]["aux"] = [_float_bits(each.peak) for each in requests.values()]
        header, _ = split(self._send(batch))
        self._check(len(header), 1)
        return Peak(_to_float(int(header["aux"][0])))

    def _sum(self, requests: Mapping[int, Sum], packets: Batches) -> Totals:
        first = next(iter(requests.values()))
        widths = bits_up, bits = first.bits_up, first.bits_down
        window = self._window(Kind.SUM, widths=widths)
        layout = Pieces(first.n_levels, bits_up, self.payload_bytes, bits)
        lanes = {i: _as_bytes(each.lanes) for i, each in requests.items()}
        fields = {
            "bits_up": dict.fromkeys(requests, bits_up),
            "bits": dict.fromkeys(requests, bits),
        }
        totals = np.zeros(-(-first.n_levels * bits // 8), dtype=np.uint8)
        self._stream(packets, lanes, layout, window, fields, out=totals)
        return Totals(
            _as_kind(totals, first.lanes),
            first.n_levels,
            bits,
            first.limit,
            len(requests),
        )

    def _stream(
        self,
        packets: Batches,
        packed: Mapping[int, Bytes],
        layout: Pieces,
        window: int,
        fields: Mapping[str, Mapping[int, int]],
        *,
        out: Bytes,
    ) -> Rows:
        """Send packed items in windows; return the headers of all answers.

        Args:
            packets: Writes them.
            packed: Client -> its packed items.
            layout: How they are cut.
            window: Packets a client may have in flight.
            fields: Header field -> its value for each client.
            out: Where the answers' payloads go.
        """
        answered = []
        for start, stop in layout.windows(min(window, BATCH_PACKETS)):
            n_each, n_answers = stop - start, 0
            for group in groups(packed, n_each):
                pieces = {client: packed[client] for client in group}
                batch = packets.pieces(pieces, layout, (start, stop))
                for name, values in fields.items():
                    each = [values[client] for client in group]
                    batch["header"][name] = np.repeat(each, n_each)
                answered.append(gather(self._send(batch), layout, out=out))
                n_answers += len(answered[-1])
            self._check(n_answers, layout.n_answers(start, stop))
        return np.concatenate(answered)

    def _block_sum(
        self, requests: Mapping[int, BlockSum], packets: Batches
    ) -> BlockTotals:
        first = next(iter(requests.values()))
        length = first.levels.shape[1]
        require_block(self._switch.payload_bytes, length)
        ahead = min(self._window(Kind.BLOCK_SUM), BATCH_PACKETS)
        numbers = {i: np.append(_as_int64(r.blocks), END) for i, r in requests.items()}
        levels = {i: _as_int32(r.levels) for i, r in requests.items()}
        places = dict.fromkeys(requests, 0)
        blocks = [np.zeros(0, dtype=np.int64)]
        totals = [np.zeros((0, length), dtype=np.int32)]
        header, _ = split(self._send(packets.announcements(numbers)))
        # Block 0 is announced by its own answer.
        frontier = int(header["aux"][0]) if len(header) else 0
        while frontier < END:
            reached = frontier
            stops = _places_before(numbers, frontier + ahead)
            for group in groups(requests, ahead):
                parts = {i: (places[i], stops[i]) for i in group}
                answers = self._send(packets.blocks(numbers, levels, parts))
                header, payload = split(answers)
                blocks.append(header["packet"].astype(np.int64))
                totals.append(payload[:, : 4 * length].copy().view("<i4"))
                reached = int(header["aux"][-1]) if len(header) else reached
            # Everyone has sent what lies in the window, so the frontier must move.
            self._check(int(reached > frontier), 1)
            frontier, places = reached, stops
        return BlockTotals(
            _as_kind(np.concatenate(blocks), first.blocks),
            _as_kind(np.concatenate(totals).astype(np.int32), first.levels),
            len(requests),
        )

    def _indexed_sum(
        self, requests: Mapping[int, IndexedSum], packets: Batches
    ) -> IndexedTotals:
        reader, first = next(iter(requests.items()))
        require_addresses(self._job.layout, first.size)
        widths = first.index_bits, first.bits
        # Range 0 comes by itself; one client reads the others for all.
        n_answers = n_ranges(first.size, widths, self.payload_bytes)
        batches = chain(
            self._pairs(packets, requests), packets.reads(reader, range(1, n_answers))
        )
        n_found, pairs = 0, []
        for batch in batches:
            answers = self._send(batch)
            header, _ = split(answers)
            n_items, rows = header["n_items"], answers.packets
            pairs.append(unpack_rows(rows, n_items, widths, first=HEADER_BYTES))
            n_found += len(header)
        self._check(n_found, n_answers)
        indices, totals = (np.concatenate(each) for each in zip(*pairs, strict=True))
        return IndexedTotals(
            _as_kind(indices, first.indices),
            _as_kind(totals.astype(np.int32), first.levels),
            len(requests),
        )

    def _pairs(
        self, packets: Batches, requests: Mapping[int, IndexedSum]
    ) -> Iterator[Rows]:
        """Yield the packets of one client's pairs after the other's, in batches."""
        for client, request in requests.items():
            indices, levels = _as_int64(request.indices), _as_int64(request.levels)
            widths = request.index_bits, request.bits
            packed = {client: pack_pairs(indices, levels, widths)}
            layout = Pieces(len(indices), sum(widths), self.payload_bytes)
            for start, stop in layout.windows(BATCH_PACKETS):
                batch = packets.pieces(packed, layout, (start, stop))
                if stop == layout.n_packets:
                    batch["header"]["flags"][-1] |= Flag.LAST
                yield batch

    def _window(
        self, kind: Kind, threshold: int = 1, widths: Widths | None = None
    ) -> int:
        """Return how many packets a client may have in flight."""
        n_slots = require_slots(self._job.layout, kind, threshold, widths)
        # Half the slots keep the answers of the last window for who lost them.
        return n_slots if kind == Kind.BLOCK_SUM else max(1, n_slots // 2)

    def _send(self, batch: Rows) -> Answers:
        """Return the answers to packets, which are there until the next are sent."""
        return self._switch.process(bytes_of(batch), lengths_of(batch), out=self._room)

    def _check(self, found: int, expected: int) -> None:
        if found != expected:
            raise FediacError(
                f"session {self._job.session}: the switch must give "
                f"{say_count(expected, 'answer')}, got {found} "
                f"(drops: {self._switch.counters.drops})"
            )


def _places_before(numbers: Mapping[int, Integers], block: int) -> dict[int, int]:
    """Return how many blocks each client has before ``block``, END not counted."""
    return {i: int(np.searchsorted(each[:-1], block)) for i, each in numbers.items()}


def _as_bytes(packed: Array) -> Bytes:
    return np.ascontiguousarray(np.asarray(packed, dtype=np.uint8))


def _as_int64(values: Array) -> npt.NDArray[np.int64]:
    return np.asarray(values, dtype=np.int64)


def _as_int32(values: Array) -> npt.NDArray[np.int32]:
    return np.asarray(values, dtype=np.int32)


def _as_kind(values: npt.NDArray[Any], like: Array) -> Array:
    """Return ``values`` as the kind of array that ``like`` is, without a copy.

    Where it is, too: PyTorch may have been told to make tensors elsewhere.
    """
    return array_namespace(like).asarray(values, device=device(like))


def _float_bits(peak: float) -> int:
    """Return the bit pattern of a float32, which orders like the float itself."""
    return int(np.float32(peak).view(np.uint32))


def _to_float(bits: int) -> float:
    return float(np.uint32(bits).view(np.float32))
