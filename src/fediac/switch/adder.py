"""Summation: a payload of packed lanes is added as one long little-endian integer.

A lane of the sum never reaches ``2**bits`` when clients keep to their limit, so no
carry leaves a lane. A client that does not can spoil lanes of its own packet, never a
byte behind it: the sum is cut at the payload's length.

Clients may send lanes that are too narrow for sums: these are widened before they are
added.
"""

import numpy as np


def add_payload(registers: memoryview, at: int, payload: bytes) -> None:
    """Add ``payload`` to the registers from byte ``at`` on."""
    length = len(payload)
    total = int.from_bytes(registers[at : at + length], "little")
    total += int.from_bytes(payload, "little")
    registers[at : at + length] = (total & (1 << 8 * length) - 1).to_bytes(
        length, "little"
    )


def widen(payload: bytes, n_lanes: int, bits_up: int, bits_down: int) -> bytes:
    """Return the payload's lanes as lanes of ``bits_down`` bits."""
    if bits_up == bits_down:
        return payload
    packed = np.frombuffer(payload, dtype=np.uint8)
    bits = np.unpackbits(packed, count=n_lanes * bits_up, bitorder="little")
    wide = np.zeros((n_lanes, bits_down), dtype=np.uint8)
    wide[:, :bits_up] = bits.reshape(n_lanes, bits_up)
    return np.packbits(wide, bitorder="little").tobytes()


def add_levels(registers: memoryview, at: int, payload: bytes) -> None:
    """Add 32-bit levels one by one; each wraps in its own register."""
    old = np.frombuffer(registers[at : at + len(payload)], dtype="<u4")
    old += np.frombuffer(payload, dtype="<u4")
