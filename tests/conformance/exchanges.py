"""Random questions of every kind, and their answers by plain arithmetic."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fediac.core.bitpack import pack_bits, pack_lanes
from fediac.core.exchange import (
    BlockSum,
    Exchange,
    IndexedSum,
    Max,
    ServerSum,
    Sum,
    Tally,
)
from tests.support import Make, to_numpy

Question = tuple[dict[int, Exchange], dict[str, Any]]
"""What each client asks, and the fields that the answer must have."""


@dataclass(frozen=True)
class Asker:
    """Makes questions for some clients, of one kind of array.

    ``payload_bytes`` decides how long a block may be.
    """

    clients: list[int]
    make: Make
    payload_bytes: int
    rng: np.random.Generator

    def length(self, *, most: int = 1500) -> int:
        return int(self.rng.choice([1, 7, 8, 9, 100, most]))

    def tally(self) -> Question:
        dim, n_clients = self.length(), len(self.clients)
        threshold = int(self.rng.integers(1, n_clients + 1))
        votes = self.rng.random((n_clients, dim)) < 0.5
        peaks = self.rng.random(n_clients).astype(np.float32)
        widths = self.rng.integers(2, 33, n_clients)
        asked: dict[int, Exchange] = {
            client: Tally(
                pack_bits(self.make(votes[i])),
                dim,
                threshold,
                float(peaks[i]),
                int(widths[i]),
            )
            for i, client in enumerate(self.clients)
        }
        gia = np.packbits(votes.sum(axis=0) >= threshold, bitorder="little")
        return asked, {"gia": gia, "peak": peaks.max(), "bits": widths.max()}

    def max(self) -> Question:
        peaks = (self.rng.random(len(self.clients)) * 1e30).astype(np.float32)
        asked: dict[int, Exchange] = {
            client: Max(float(peak))
            for client, peak in zip(self.clients, peaks, strict=True)
        }
        return asked, {"peak": peaks.max()}

    def sum(self) -> Question:
        return self._sum(self.length(), is_narrow_up=False)

    def wide_sum(self) -> Question:
        """Lanes that are just wide enough for levels, and wider ones for sums."""
        return self._sum(self.length(most=9000), is_narrow_up=True)

    def _sum(self, n_levels: int, *, is_narrow_up: bool) -> Question:
        n_clients = len(self.clients)
        least = n_clients.bit_length() + 1
        # Eight lanes always fit eight bytes of payload when they are not wider.
        bits = bits_up = int(self.rng.integers(least, min(33, self.payload_bytes + 1)))
        limit = ((1 << (bits - 1)) - 1) // n_clients
        if is_narrow_up:
            bits_up = int(self.rng.integers((2 * limit).bit_length(), bits + 1))
        lanes = self.rng.integers(0, 2 * limit + 1, (n_clients, n_levels))
        lanes[:, 0] = 2 * limit
        asked: dict[int, Exchange] = {
            client: Sum(
                pack_lanes(self.make(lanes[i]), bits_up), n_levels, bits_up, bits, limit
            )
            for i, client in enumerate(self.clients)
        }
        total = to_numpy(pack_lanes(lanes.sum(axis=0), bits))
        expected = {"n_levels": n_levels, "bits": bits, "limit": limit}
        return asked, {"lanes": total, **expected}

    def block_sum(self) -> Question:
        length = min(5, self.payload_bytes // 4)
        n_blocks = self.length(most=200)
        dense = np.zeros((n_blocks, length), dtype=np.int64)
        is_sent = np.zeros(n_blocks, dtype=bool)
        asked: dict[int, Exchange] = {}
        for client in self.clients:
            mine = np.flatnonzero(self.rng.random(n_blocks) < self.rng.random())
            levels = self.rng.integers(-(2**20), 2**20, (len(mine), length))
            dense[mine] += levels
            is_sent[mine] = True
            rows = self.make(levels.astype(np.int32))
            asked[client] = BlockSum(self.make(mine), rows, n_blocks)
        union = np.flatnonzero(is_sent)
        return asked, {"blocks": union, "totals": dense[union].astype(np.int32)}

    def indexed_sum(self) -> Question:
        size = self.length(most=400)
        # Eight pairs fit the shortest payload, 32 bytes; or four of 64 bits.
        is_narrow = bool(self.rng.integers(2))
        bits = int(self.rng.integers(1, 24)) if is_narrow else 32
        half = 1 << bits - 1
        dense, is_used = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=bool)
        asked: dict[int, Exchange] = {}
        for client in self.clients:
            mine = np.flatnonzero(self.rng.random(size) < 0.5 * self.rng.random())
            levels = self.rng.integers(-half, half, len(mine))
            dense[mine] += levels
            is_used[mine] = True
            asked[client] = IndexedSum(
                self.make(mine), self.make(levels), size, bits, is_narrow
            )
        union = np.flatnonzero(is_used)
        # Totals that need more bits wrap, as those of 32 do.
        totals = (dense[union] + half) % (2 * half) - half
        return asked, {"indices": union, "totals": totals.astype(np.int32)}

    def server_sum(self) -> Question:
        dim = self.length()
        values = self.rng.standard_normal((len(self.clients), dim)).astype(np.float32)
        asked: dict[int, Exchange] = {
            client: ServerSum(self.make(values[i]))
            for i, client in enumerate(self.clients)
        }
        mean = values.astype(np.float64).cumsum(axis=0)[-1] / len(self.clients)
        return asked, {"values": mean.astype(np.float32), "indices": None}

    def sparse_server_sum(self) -> Question:
        dim = self.length()
        dense, is_sent = np.zeros(dim), np.zeros(dim, dtype=bool)
        asked: dict[int, Exchange] = {}
        for client in self.clients:
            mine = np.flatnonzero(self.rng.random(dim) < 0.3)
            values = self.rng.standard_normal(len(mine)).astype(np.float32)
            dense[mine] += values
            is_sent[mine] = True
            asked[client] = ServerSum(self.make(values), self.make(mine))
        union = np.flatnonzero(is_sent)
        mean = (dense[union] / len(self.clients)).astype(np.float32)
        return asked, {"values": mean, "indices": union}


QUESTIONS: dict[str, Callable[[Asker], Question]] = {
    "tally": Asker.tally,
    "max": Asker.max,
    "sum": Asker.sum,
    "wide sum": Asker.wide_sum,
    "block sum": Asker.block_sum,
    "indexed sum": Asker.indexed_sum,
    "server sum": Asker.server_sum,
    "sparse server sum": Asker.sparse_server_sum,
}


def check_answer(answer: Any, expected: dict[str, Any], make: Make) -> None:
    """Assert that an answer has the expected fields, bit by bit, in its kind."""
    for name, value in expected.items():
        found = getattr(answer, name)
        if isinstance(value, np.ndarray):
            like = make(value)
            assert type(found) is type(like), name
            assert found.dtype == like.dtype, name
            assert to_numpy(found).tobytes() == value.tobytes(), name
        else:
            assert found == value, name
