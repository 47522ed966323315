"""Votes and levels <-> packed bytes, least significant bit first.

Bit ``i`` of a packed array is bit ``i % 8`` of byte ``i // 8``. A lane is an unsigned
integer of ``bits`` bits; lane ``i`` fills the bits from ``i * bits`` on. Eight lanes
fill ``bits`` whole bytes, whatever their width, which is how both directions work.
"""

from array_api_compat import array_namespace, device

from fediac import native
from fediac.core.chunks import chunks
from fediac.core.types import Array, Indices, Packed
from fediac.errors import ArgumentError

MAX_LANE_BITS = 32


def n_packed_bytes(n_bits: int) -> int:
    """Return how many bytes hold ``n_bits`` packed bits."""
    return -(-n_bits // 8)


def _pad(values: Array, multiple: int) -> Array:
    xp = array_namespace(values)
    n_missing = -values.shape[0] % multiple
    if not n_missing:
        return values
    padding = xp.zeros(n_missing, dtype=values.dtype, device=device(values))
    return xp.concat([values, padding])


def pack_bits(mask: Array) -> Packed:
    """Return a boolean mask as packed bits; unused bits of the last byte are zero."""
    xp = array_namespace(mask)
    columns = xp.reshape(_pad(xp.astype(mask, xp.uint8), 8), (-1, 8))
    packed = columns[:, 0]
    for place in range(1, 8):
        packed = packed | (columns[:, place] << place)
    return packed


def unpack_bits(packed: Packed, n_bits: int) -> Array:
    """Return the first ``n_bits`` packed bits as a boolean mask."""
    xp = array_namespace(packed)
    columns = xp.stack([(packed >> place) & 1 for place in range(8)], axis=1)
    return xp.astype(xp.reshape(columns, (-1,))[:n_bits], xp.bool)


def count_bits(packed: Packed) -> int:
    """Return how many packed bits are set."""
    kernels = native.kernels_for(packed)
    if kernels is not None:
        return int(kernels.count_bits(packed))
    xp = array_namespace(packed)
    total = 0
    for start, stop in chunks(packed.shape[0], packed):
        pairs = packed[start:stop]
        pairs = pairs - ((pairs >> 1) & 0x55)
        nibbles = (pairs & 0x33) + ((pairs >> 2) & 0x33)
        total += int(xp.sum((nibbles + (nibbles >> 4)) & 0x0F, dtype=xp.int64))
    return total


def indices_of(packed: Packed, n_bits: int) -> Indices:
    """Return the places of the set bits among the first ``n_bits``, ascending."""
    xp = array_namespace(packed)
    found = [
        xp.nonzero(unpack_bits(packed[start // 8 : -(-stop // 8)], stop - start))[0]
        + start
        for start, stop in chunks(n_bits, packed)
    ]
    if not found:
        return xp.zeros(0, dtype=xp.int64, device=device(packed))
    return xp.astype(xp.concat(found), xp.int64)


def _check_width(bits: int) -> None:
    if not 1 <= bits <= MAX_LANE_BITS:
        raise ArgumentError("bits", f"must be in 1..{MAX_LANE_BITS}, got {bits}")


def pack_lanes(lanes: Array, bits: int) -> Packed:
    """Return integers in ``0..2**bits-1`` as lanes, dense, padded to a whole byte."""
    _check_width(bits)
    kernels = native.kernels_for_lanes(lanes)
    if kernels is not None:
        return kernels.pack_lanes(lanes, bits)
    xp = array_namespace(lanes)
    groups = xp.reshape(_pad(xp.astype(lanes, xp.int64), 8), (-1, 8))
    columns = []
    for byte in range(bits):
        # Byte ``byte`` of a group sees the lanes that overlap its eight bits.
        first, last = 8 * byte // bits, min((8 * byte + 7) // bits, 7)
        column = xp.zeros_like(groups[:, 0])
        for lane in range(first, last + 1):
            shift = lane * bits - 8 * byte
            part = groups[:, lane]
            column = column | (part << shift if shift >= 0 else part >> -shift)
        columns.append(xp.astype(column & 0xFF, xp.uint8))
    packed = xp.reshape(xp.stack(columns, axis=1), (-1,))
    return packed[: n_packed_bytes(lanes.shape[0] * bits)]


def unpack_lanes(packed: Packed, n_lanes: int, bits: int) -> Array:
    """Return the first ``n_lanes`` lanes of ``bits`` bits as int64."""
    _check_width(bits)
    kernels = native.kernels_for(packed)
    if kernels is not None:
        return kernels.unpack_lanes(packed, n_lanes, bits)
    xp = array_namespace(packed)
    used = packed[: n_packed_bytes(n_lanes * bits)]
    groups = xp.astype(xp.reshape(_pad(used, bits), (-1, bits)), xp.int64)
    columns = []
    for lane in range(8):
        first, last = lane * bits // 8, (lane * bits + bits - 1) // 8
        column = xp.zeros_like(groups[:, 0])
        for byte in range(first, last + 1):
            shift = 8 * byte - lane * bits
            part = groups[:, byte]
            column = column | (part << shift if shift >= 0 else part >> -shift)
        columns.append(column & ((1 << bits) - 1))
    return xp.reshape(xp.stack(columns, axis=1), (-1,))[:n_lanes]
