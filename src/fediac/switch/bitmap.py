"""Duplicate check: one bit per client, so that a packet is counted only once."""


def is_set(registers: memoryview, at: int, client: int) -> bool:
    """Return whether ``client`` has its bit in the bitmap at byte ``at``."""
    return bool(registers[at + client // 8] >> client % 8 & 1)


def set_bit(registers: memoryview, at: int, client: int) -> None:
    """Set the bit of ``client`` in the bitmap at byte ``at``."""
    registers[at + client // 8] |= 1 << client % 8
