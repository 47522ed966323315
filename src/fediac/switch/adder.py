"""Summation: a payload of packed lanes is added as one long little-endian integer.

A lane of the sum never reaches ``2**bits`` when clients keep to their limit, so no
carry leaves a lane. A client that does not can spoil lanes of its own packet, never a
byte behind it: the sum is cut at the payload's length.
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


def add_levels(registers: memoryview, at: int, payload: bytes) -> None:
    """Add 32-bit levels one by one; each wraps in its own register."""
    old = np.frombuffer(registers[at : at + len(payload)], dtype="<u4")
    old += np.frombuffer(payload, dtype="<u4")
