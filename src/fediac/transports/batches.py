"""Many packets at a time, as one array of headers and payloads side by side."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fediac.switch.pipeline import Answers
from fediac.transports.packets import Pieces
from fediac.wire.header import HEADER, HEADER_BYTES, MAGIC, VERSION, Flag, Kind
from fediac.wire.pairs import index_bits

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[Any]
Rows = npt.NDArray[Any]
"""A structured array: packets, or headers alone."""

BATCH_PACKETS = 4096
"""Packets built at a time: 6 MB, however many clients there are."""


def batch_bytes(payload_bytes: int) -> int:
    """Return the bytes of a whole batch of packets."""
    return BATCH_PACKETS * (HEADER_BYTES + payload_bytes)


_BITS = {Kind.TALLY: 1, Kind.MAX: 0, Kind.BLOCK_SUM: 32}
"""Bits of an item in a packet; for sums and pairs, its header has them."""


_BARE = np.dtype([("header", HEADER)])


class Batches:
    """Writes the packets of one exchange.

    Args:
        fields: Header fields that all packets share.
        payload_bytes: Room for items in a packet.
        out: Memory for the packets, so that those written before are gone with each
            call; where it does not suffice, and by default, they get new memory.
    """

    def __init__(
        self,
        fields: Mapping[str, int],
        payload_bytes: int,
        *,
        out: Bytes | None = None,
    ) -> None:
        self._fields = {"magic": MAGIC, "version": VERSION, **fields}
        self._row = np.dtype([("header", HEADER), ("payload", "u1", (payload_bytes,))])
        self._out = np.zeros(0, dtype=np.uint8) if out is None else out

    def empty(self, clients: npt.ArrayLike, *, is_bare: bool = False) -> Rows:
        """Return one packet without items from each of ``clients``.

        Args:
            clients: Who sends them, a number a packet.
            is_bare: There is no room for items.
        """
        row = _BARE if is_bare else self._row
        batch = self._zeros(len(np.asarray(clients)), row)
        batch["header"]["client"] = clients
        for name, value in self._fields.items():
            batch["header"][name] = value
        return batch

    def _zeros(self, n_packets: int, row: np.dtype[Any]) -> Rows:
        n_bytes = n_packets * row.itemsize
        if not 0 < n_bytes <= len(self._out):
            return np.zeros(n_packets, dtype=row)
        self._out[:n_bytes] = 0
        return self._out[:n_bytes].view(row)

    def pieces(
        self, packed: Mapping[int, Bytes], layout: Pieces, packets: tuple[int, int]
    ) -> Rows:
        """Return packets ``start..stop-1`` of some clients, client after client."""
        start, stop = packets
        n_each, n_bytes = stop - start, layout.n_bytes
        batch = self.empty(np.repeat(list(packed), n_each))
        numbers = np.arange(start, stop)
        batch["header"]["packet"] = np.tile(numbers, len(packed))
        batch["header"]["n_items"] = np.tile(layout.n_items(numbers), len(packed))
        for place, data in enumerate(packed.values()):
            part = batch["payload"][place * n_each : (place + 1) * n_each]
            piece = data[start * n_bytes : stop * n_bytes]
            n_full = len(piece) // n_bytes
            full, rest = piece[: n_full * n_bytes], piece[n_full * n_bytes :]
            part[:n_full, :n_bytes] = full.reshape(-1, n_bytes)
            part[n_full:, : len(rest)] = rest
        return batch

    def reads(self, client: int, ranges: range) -> Iterator[Rows]:
        """Yield packets that ask for some ranges of an indexed sum, in batches."""
        for start in range(ranges.start, ranges.stop, BATCH_PACKETS):
            numbers = np.arange(start, min(start + BATCH_PACKETS, ranges.stop))
            batch = self.empty(np.full(len(numbers), client), is_bare=True)
            batch["header"]["packet"] = numbers
            batch["header"]["flags"] |= np.uint8(Flag.READ)
            yield batch

    def announcements(self, numbers: Mapping[int, Integers]) -> Rows:
        """Return one packet per client that names its first block."""
        batch = self.empty(list(numbers))
        batch["header"]["flags"] = Flag.ANNOUNCE
        batch["header"]["aux"] = [each[0] for each in numbers.values()]
        return batch

    def blocks(
        self,
        numbers: Mapping[int, Integers],
        levels: Mapping[int, Integers],
        parts: Mapping[int, tuple[int, int]],
    ) -> Rows:
        """Return some clients' blocks, each from its first to its last place.

        Args:
            numbers: Client -> the numbers of its blocks, and END behind the last.
            levels: Client -> one row of levels a block.
            parts: Client -> places ``(start, stop)`` of the blocks to send.
        """
        counts = [stop - start for start, stop in parts.values()]
        batch = self.empty(np.repeat(list(parts), counts))
        header, payload, row = batch["header"], batch["payload"], 0
        for client, (start, stop) in parts.items():
            rows = np.ascontiguousarray(levels[client][start:stop], dtype="<i4")
            length = rows.shape[1]
            here = slice(row, row + stop - start)
            payload[here, : 4 * length] = rows.view(np.uint8)
            header["n_items"][here] = length
            header["packet"][here] = numbers[client][start:stop]
            header["aux"][here] = numbers[client][start + 1 : stop + 1]
            row += stop - start
        return batch


def lengths_of(batch: Rows) -> npt.NDArray[np.int32]:
    """Return how many bytes each packet of one exchange has."""
    header = batch["header"]
    n_bits = header["n_items"].astype(np.int32)
    if len(header):
        n_bits *= _item_bits(header[0])
    lengths: npt.NDArray[np.int32] = HEADER_BYTES + -(-n_bits // 8)
    return lengths


def _item_bits(header: np.void) -> int:
    """Return the bits of an item, which are the same in all packets of an exchange."""
    kind, bits = Kind(header["kind"]), int(header["bits"])
    if kind == Kind.SUM:
        return int(header["bits_up"])
    if kind == Kind.INDEXED_SUM:
        is_narrow = bool(header["flags"] & Flag.NARROW)
        return bits + index_bits(int(header["aux"]), is_narrow=is_narrow)
    return _BITS.get(kind, bits)


def bytes_of(batch: Rows) -> Bytes:
    """Return packets as one row of bytes each."""
    return batch.view(np.uint8).reshape(len(batch), batch.itemsize)


def groups(clients: Mapping[int, Any], n_each: int) -> Iterator[list[int]]:
    """Yield clients in order, as many as fit a batch with ``n_each`` packets each."""
    length = BATCH_PACKETS // n_each
    every = list(clients)
    for start in range(0, len(every), length):
        yield every[start : start + length]


def split(answers: Answers) -> tuple[Rows, Bytes]:
    """Return the headers of answers, copied, and the bytes behind them."""
    headers = answers.packets[:, :HEADER_BYTES].copy()
    return headers.view(HEADER).reshape(-1), answers.packets[:, HEADER_BYTES:]


def gather(answers: Answers, layout: Pieces, *, out: Bytes) -> Rows:
    """Put the answers' payloads where they belong; return their headers."""
    header, payload = split(answers)
    firsts = header["packet"].astype(np.int64) * layout.n_answer_bytes
    starts = firsts + header["part"].astype(np.int64) * layout.n_part_bytes
    stops = np.minimum(starts + layout.n_part_bytes, firsts + layout.n_answer_bytes)
    for start, stop, row in zip(starts.tolist(), stops.tolist(), payload, strict=True):
        piece = out[start:stop]
        piece[:] = row[: len(piece)]
    return header
