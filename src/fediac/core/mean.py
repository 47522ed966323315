"""The end of a round: answers -> the mean update, kept compact until it is needed.

All clients of a round share its answers, so a mean is kept as the answer and the scale
that reads it. Only who applies it pays for the floats, once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from array_api_compat import array_namespace, device

from fediac.core.bitpack import count_bits, indices_of, n_packed_bytes, unpack_lanes
from fediac.core.chunks import chunks
from fediac.core.exact import divide
from fediac.core.exchange import BlockTotals, IndexedTotals, Totals
from fediac.core.types import Array, Indices, Packed, Update


class MeanPart(Protocol):
    """Some entries of a mean update."""

    def write(self, out: Update) -> None:
        """Put this part's entries into ``out``."""
        ...


@dataclass(frozen=True, slots=True)
class LaneMean:
    """The entries in ``gia`` (None: all), from totals in the order of its set bits."""

    totals: Totals
    scale: float
    gia: Packed | None

    def write(self, out: Update) -> None:
        """Put totals / (clients · scale) into the chosen entries of ``out``."""
        place = 0
        for start, stop in chunks(out.shape[0], out):
            if self.gia is None:
                out[start:stop] = self._read(start, stop, out)
                continue
            part = self.gia[start // 8 : n_packed_bytes(stop)]
            n_chosen = count_bits(part)
            if n_chosen:
                indices = start + indices_of(part, stop - start)
                out[indices] = self._read(place, place + n_chosen, out)
            place += n_chosen

    def _read(self, start: int, stop: int, like: Array) -> Array:
        """Return the mean of levels ``start..stop-1``, in the dtype of ``like``."""
        xp = array_namespace(like)
        bits, limit = self.totals.bits, self.totals.limit
        # Lanes can be cut where eight of them begin: at a whole byte.
        first = start // 8 * 8
        packed = self.totals.lanes[first // 8 * bits :]
        lanes = unpack_lanes(packed, stop - first, bits)[start - first :]
        n_clients = self.totals.n_clients
        levels = xp.astype(lanes - n_clients * limit, xp.float64)
        return xp.astype(divide(levels, n_clients * self.scale), like.dtype)


@dataclass(frozen=True, slots=True)
class BlockMean:
    """Whole blocks, from the totals of a block sum."""

    totals: BlockTotals
    scale: float

    def write(self, out: Update) -> None:
        """Put totals / (clients · scale) into the blocks of ``out``."""
        xp = array_namespace(out)
        length = self.totals.totals.shape[1]
        divisor = self.totals.n_clients * self.scale
        offsets = xp.arange(length, dtype=xp.int64, device=device(out))
        n_blocks = self.totals.blocks.shape[0]
        step = max(1, (1 << 17) // length)
        for first in range(0, n_blocks, step):
            rows = self.totals.totals[first : first + step]
            starts = self.totals.blocks[first : first + step] * length
            indices = xp.reshape(starts[:, None] + offsets[None, :], (-1,))
            values = divide(xp.reshape(xp.astype(rows, xp.float64), (-1,)), divisor)
            inside = indices < out.shape[0]
            out[indices[inside]] = xp.astype(values[inside], out.dtype)


@dataclass(frozen=True, slots=True)
class IndexedMean:
    """The entries that an indexed sum's addresses stand for."""

    totals: IndexedTotals
    scale: float
    entries: Indices

    def write(self, out: Update) -> None:
        """Put totals / (clients · scale) into the addressed entries of ``out``."""
        xp = array_namespace(out)
        divisor = self.totals.n_clients * self.scale
        values = divide(xp.astype(self.totals.totals, xp.float64), divisor)
        out[self.entries[self.totals.indices]] = xp.astype(values, out.dtype)


@dataclass(frozen=True, slots=True)
class FloatMean:
    """Entries that came back as floats, all or some.

    Attributes:
        scale: The floats are means of levels: f · value; None: they are the values.
    """

    values: Update
    indices: Indices | None
    scale: float | None = None

    def write(self, out: Update) -> None:
        """Put the floats into ``out``."""
        values = self.values
        if self.scale is not None:
            xp = array_namespace(values)
            means = divide(xp.astype(values, xp.float64), self.scale)
            values = xp.astype(means, out.dtype)
        if self.indices is None:
            out[:] = values
        else:
            out[self.indices] = values


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean update of a round: the parts that were sent; zero everywhere else."""

    parts: Sequence[MeanPart] = ()

    def dense(self, like: Update) -> Update:
        """Return the mean as a vector of the length, dtype and device of ``like``."""
        xp = array_namespace(like)
        out = xp.zeros_like(like)
        for part in self.parts:
            part.write(out)
        return out
