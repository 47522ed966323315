"""Pairs of an indexed sum: an index and a level each, packed densely into bytes.

Pair j takes the bits from j · width on, least significant first: its index, then its
level in two's complement. Both have 32 bits as published; a level may have fewer, and
so may an index: as few as tell the registers of the sum apart.

Totals are read range by range: a range has as many addresses as a packet holds pairs,
so that one packet answers for it, however many of them were touched.
"""

import numpy as np
import numpy.typing as npt

WORD_BITS = 32
"""Width of a published index and of a published level."""

Integers = npt.NDArray[np.int64]


def index_bits(size: int, *, is_narrow: bool) -> int:
    """Return the width of an index into ``size`` registers."""
    return max(1, (size - 1).bit_length()) if is_narrow else WORD_BITS


def range_length(widths: tuple[int, int], payload_bytes: int) -> int:
    """Return how many addresses a range has; none if no pair fits a packet."""
    return 8 * payload_bytes // sum(widths)


def n_ranges(size: int, widths: tuple[int, int], payload_bytes: int) -> int:
    """Return in how many ranges the totals at ``size`` addresses are read."""
    length = range_length(widths, payload_bytes)
    return -(-size // length) if length else 0


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
    return unpack_rows(packed.reshape(1, -1), np.array([n_pairs]), widths)


def unpack_rows(
    rows: npt.NDArray[np.uint8],
    n_pairs: npt.NDArray[np.integer],
    widths: tuple[int, int],
    *,
    first: int = 0,
) -> tuple[Integers, Integers]:
    """Return the indices and levels of the first ``n_pairs[i]`` pairs in each row.

    Args:
        rows: Bytes, of which those in front of ``first`` are something else.
        n_pairs: How many pairs each row has.
        widths: Bits of an index and of a level.
        first: The byte in which a row's pairs begin.
    """
    index_width, level_width = widths
    counts = n_pairs.astype(np.int64)
    before = np.cumsum(counts) - counts
    starts = 8 * (first + rows.shape[1] * np.arange(len(rows)))
    starts = np.repeat(starts - before * sum(widths), counts)
    starts += np.arange(len(starts)) * sum(widths)
    packed = rows.reshape(-1)
    indices = _read_bits(packed, starts, index_width)
    raw = _read_bits(packed, starts + index_width, level_width)
    sign = 1 << (level_width - 1)
    return indices, (raw ^ sign) - sign


def _read_bits(packed: npt.NDArray[np.uint8], at: Integers, width: int) -> Integers:
    """Return the ``width`` bits, 32 at most, from each bit in ``at`` on.

    A word of eight bytes holds all of them: that from the byte of the first one on, or
    the last word that there is.
    """
    if len(packed) < 8:
        packed = np.concatenate([packed, np.zeros(8, dtype=np.uint8)])
    n_words = len(packed) - 7
    words = np.ndarray(n_words, "<u8", np.ascontiguousarray(packed), strides=(1,))
    places = np.minimum(at >> 3, n_words - 1)
    shifted = words[places] >> (at - 8 * places).astype(np.uint64)
    read: Integers = (shifted & np.uint64((1 << width) - 1)).astype(np.int64)
    return read
