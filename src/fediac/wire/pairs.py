"""Pairs of an indexed sum: an index and a level each, packed densely into bytes.

Pair j takes the bits from j · width on, least significant first: its index, then its
level in two's complement. Both have 32 bits as published; a level may have fewer, and
so may an index: as few as tell the registers of the sum apart.
"""

import numpy as np
import numpy.typing as npt

WORD_BITS = 32
"""Width of a published index and of a published level."""

Integers = npt.NDArray[np.int64]


def index_bits(size: int, *, is_narrow: bool) -> int:
    """Return the width of an index into ``size`` registers."""
    return max(1, (size - 1).bit_length()) if is_narrow else WORD_BITS


def pack_pairs(
    indices: npt.NDArray[np.integer],
    levels: npt.NDArray[np.integer],
    widths: tuple[int, int],
) -> npt.NDArray[np.uint8]:
    """Return the bytes of pairs whose index and level have ``widths`` bits."""
    index_width, level_width = widths
    raw = levels.astype(np.int64).astype(np.uint64) & np.uint64((1 << level_width) - 1)
    pairs = indices.astype(np.uint64) | raw << np.uint64(index_width)
    rows = pairs.astype("<u8").view(np.uint8).reshape(-1, 8)
    if sum(widths) == 64:
        return rows.reshape(-1)
    bits = np.unpackbits(rows, axis=1, count=sum(widths), bitorder="little")
    return np.packbits(bits.reshape(-1), bitorder="little")


def unpack_pairs(
    packed: npt.NDArray[np.uint8], n_pairs: int, widths: tuple[int, int]
) -> tuple[Integers, Integers]:
    """Return the indices and levels of the first ``n_pairs`` pairs in ``packed``."""
    index_width, level_width = widths
    width = index_width + level_width
    bits = np.unpackbits(packed, count=n_pairs * width, bitorder="little")
    rows = np.packbits(bits.reshape(n_pairs, width), axis=1, bitorder="little")
    whole = np.zeros((n_pairs, 8), dtype=np.uint8)
    whole[:, : rows.shape[1]] = rows
    pairs = whole.view("<u8").reshape(-1).astype(np.uint64)
    indices = pairs & np.uint64((1 << index_width) - 1)
    raw = (pairs >> np.uint64(index_width)).astype(np.int64)
    sign = 1 << (level_width - 1)
    return indices.astype(np.int64), (raw ^ sign) - sign
