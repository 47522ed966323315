"""How an exchange becomes packets, and whether a switch has registers for it."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from fediac.errors import ArgumentError, say_count
from fediac.switch.registers import Layout, Widths
from fediac.wire.header import Kind, lanes_per_packet, lanes_per_part


class Pieces:
    """How ``n_items`` packed items of ``bits`` bits are split into packets.

    Args:
        n_items: How many there are.
        bits: Width of an item on its way up.
        payload_bytes: Room for items in a packet.
        bits_down: Width of what comes back for it, in a sum; None: as much.
    """

    def __init__(
        self, n_items: int, bits: int, payload_bytes: int, bits_down: int | None = None
    ) -> None:
        bits_down = bits if bits_down is None else bits_down
        self._n_items = n_items
        self.bits_down = bits_down
        self._per_packet = lanes_per_packet(bits, bits_down, payload_bytes)
        self.n_bytes = self._per_packet * bits // 8
        self.n_packets = max(1, -(-n_items // self._per_packet))
        self._per_part = self._per_packet
        if bits_down != bits:
            self._per_part = lanes_per_part(bits_down, payload_bytes)
        self.n_answer_bytes = self._per_packet * bits_down // 8
        self.n_part_bytes = self._per_part * bits_down // 8

    def n_parts(self, n_items: int) -> int:
        """Return how many packets answer one of ``n_items`` items."""
        return max(1, -(-n_items // self._per_part))

    def n_part_items(self, n_items: int, part: int) -> int:
        """Return how many items one of them has."""
        return min(self._per_part, n_items - part * self._per_part)

    def n_answers(self, start: int, stop: int) -> int:
        """Return how many packets answer packets ``start..stop-1``."""
        n_items = self.n_items(np.arange(start, stop))
        return int(np.maximum(1, -(-n_items // self._per_part)).sum())

    def n_items(self, packets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return how many items each of ``packets`` holds."""
        left = self._n_items - packets * self._per_packet
        return np.minimum(left, self._per_packet)

    def windows(self, window: int) -> Iterator[tuple[int, int]]:
        """Yield ``(start, stop)`` packet numbers, at most ``window`` at a time."""
        for start in range(0, self.n_packets, window):
            yield start, min(start + window, self.n_packets)


def hidden_max_places(kinds: Sequence[Kind]) -> list[int]:
    """Return before which exchanges of a session a maximum must stand that none has.

    An indexed sum wipes out the answers of the exchange before it, and the one after it
    wipes out its own, see `fediac.switch.indexed`. A maximum between them completes
    when every member has all earlier answers, and wipes out nothing. Where packets get
    lost, there must be one on each side; what it says does not matter. A transport that
    learns of exchanges one by one asks for the last one and the next.

    Args:
        kinds: What is exchanged, in order; nothing stands before it or follows.
    """
    return [
        place
        for place, pair in enumerate(pairwise(kinds), start=1)
        if Kind.INDEXED_SUM in pair and Kind.MAX not in pair
    ]


def require_slots(
    layout: Layout,
    kind: Kind,
    threshold: int = 1,
    widths: Widths | None = None,
    *,
    at_least: int = 1,
) -> int:
    """Return how many slots an exchange gets.

    Raises:
        ValueError: The registers hold fewer than ``at_least`` a half; where packets get
            lost, it takes two.
    """
    n_slots = layout.n_slots(kind, threshold, widths)
    if n_slots >= at_least:
        return n_slots
    least = layout.least_bytes(kind, at_least, threshold, widths)
    number = {1: "two", 2: "four"}.get(at_least, str(2 * at_least))
    raise ArgumentError(
        "register_bytes",
        f"must be at least {least} for {number} packets of a {kind.name.lower()} from "
        f"{say_count(layout.n_clients, 'client')}, got {layout.register_bytes}",
    )


def require_block(payload_bytes: int, length: int) -> None:
    """Check that a block of 32-bit levels fits a packet.

    Raises:
        ValueError: It does not.
    """
    if 4 * length > payload_bytes:
        raise ArgumentError(
            "block",
            f"must be at most {say_count(payload_bytes // 4, 'entry', 'entries')} "
            f"(payload_bytes={payload_bytes}), got {length}",
        )


def require_addresses(layout: Layout, size: int) -> None:
    """Check that an indexed sum's addresses fit the registers.

    Raises:
        ValueError: They do not.
    """
    if size > layout.indexed_capacity:
        raise ValueError(
            "an indexed sum must have at most "
            f"{say_count(layout.indexed_capacity, 'address', 'addresses')} "
            f"(register_bytes={layout.register_bytes}), got {size}"
        )
