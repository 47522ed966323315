"""The switch's memory: one byte array of fixed size, and where everything is in it.

A job owns a contiguous region::

    job record | two peak slots | half 0 | half 1

A streamed exchange (tally, sum, block sum) runs in one half and the next exchange in
the other, so that the answers of the last one can still be repeated to a client that
lost them. An indexed sum needs a register for every address and takes both halves.
Inside a half, packet ``j`` uses slot ``j mod n_slots``.

A client has at most ``n_slots // 2`` packets of a tally or a sum in flight, counted
from its first one without answer. So whoever sends packet ``j`` has the answers up to
half the slots before it. Every client has sent those packets then, and had the answers
up to half the slots before them: nobody misses what stood in the slot of packet ``j``.
For the same reason nobody misses an exchange when the next but one begins. Both hold
because a slot completes with the last client of the round, and with two slots or more:
a job with one slot a half works where nothing is lost. Block sums need more, see
`blocks`.
"""

import struct
from dataclasses import dataclass

from fediac.core.integers import as_whole
from fediac.errors import ArgumentError, say_count
from fediac.wire.header import MAX_CLIENTS, Kind, bitmap_bytes

N_RECORD_WORDS = 16
RECORD_BYTES = 4 * N_RECORD_WORDS
"""Word 0: the half in use. Then for each half the seven words of `HALF_WORDS`; then
how many exchanges have begun."""

HALF_WORDS = (
    "is_valid",
    "exchange",
    "kind",
    "stride",
    "n_slots",
    "settings",
    "used",
)

BEGUN_AT = 1 + 2 * len(HALF_WORDS)
"""The word that counts exchanges."""

SLOT = struct.Struct("<IIHHHHBBBB4x")
"""packet, aux, exchange, n_items, threshold, count, kind, bits, state, bits_up."""

Widths = tuple[int, int]
"""Bits of a sum's lanes on their way up and down."""

FREE, OPEN, COMPLETE = 0, 1, 2

MAX_REGISTER_BYTES = 0xFFFFFFFF


def _align(n_bytes: int) -> int:
    return -(-n_bytes // 8) * 8


def n_planes(threshold: int) -> int:
    """Return the bits of a vote counter that saturates at or above ``threshold``."""
    return threshold.bit_length()


def check_n_clients(n_clients: int) -> None:
    """Raise unless a slot's bitmap has a bit for each of ``n_clients`` clients."""
    if not 1 <= n_clients <= MAX_CLIENTS:
        raise ArgumentError(
            "n_clients",
            f"must be in 1..{MAX_CLIENTS} (bits of a slot's bitmap), got {n_clients}",
        )


def least_register_bytes(n_clients: int, payload_bytes: int) -> int:
    """Return the fewest bytes a job works with: a slot of a sum in each half."""
    head = SLOT.size + _align(bitmap_bytes(n_clients))
    return RECORD_BYTES + 2 * head + 2 * (head + _align(payload_bytes))


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the registers of one job are, relative to its region's first byte.

    Attributes:
        n_clients: Clients and observers.
        payload_bytes: Room for items in a packet.
        register_bytes: Length of the region.
        keeps_early: Whether blocks that come before a client's next one are kept, as
            where packets get lost; see `fediac.switch.blocks`.
    """

    n_clients: int
    payload_bytes: int
    register_bytes: int
    keeps_early: bool = False

    def __post_init__(self) -> None:
        check_n_clients(self.n_clients)
        as_whole("register_bytes", self.register_bytes)
        if self.register_bytes > MAX_REGISTER_BYTES:
            raise ArgumentError(
                "register_bytes",
                f"must be at most {MAX_REGISTER_BYTES} (32-bit "
                f"addresses), got {self.register_bytes}",
            )
        needed = least_register_bytes(self.n_clients, self.payload_bytes)
        if self.register_bytes < needed:
            raise ArgumentError(
                "register_bytes",
                f"must be at least {needed} for two packets of "
                f"{say_count(self.payload_bytes, 'byte')} from "
                f"{say_count(self.n_clients, 'client')}, got {self.register_bytes}",
            )

    @property
    def bitmap_bytes(self) -> int:
        """One bit per client, rounded up to whole words."""
        return _align(bitmap_bytes(self.n_clients))

    @property
    def peaks_at(self) -> int:
        """Offset of the two peak slots."""
        return RECORD_BYTES

    @property
    def halves_at(self) -> int:
        """Offset of half 0."""
        return self.peaks_at + 2 * self.slot_bytes(Kind.MAX)

    @property
    def half_bytes(self) -> int:
        """Length of a half."""
        return max(0, self.register_bytes - self.halves_at) // 16 * 8

    @property
    def clocks_bytes(self) -> int:
        """What a block sum keeps of its clients: frontier, who announced, next one."""
        return 8 + self.bitmap_bytes + _align(4 * self.n_clients)

    def slot_bytes(
        self, kind: Kind, threshold: int = 1, widths: Widths | None = None
    ) -> int:
        """Return the length of a slot: its record, who contributed, and its values.

        Args:
            kind: What is exchanged.
            threshold: A tally's threshold.
            widths: A sum's widths up and down; None: they are equal.
        """
        head = SLOT.size + self.bitmap_bytes
        payload = _align(self.payload_bytes)
        if kind == Kind.MAX:
            return head
        if kind == Kind.TALLY:
            return head + n_planes(threshold) * payload
        if kind == Kind.SUM:
            return head + (payload if widths is None else self._sums_bytes(*widths))
        return self.early_at + self.keeps_early * _align(4 * self.n_clients)

    @property
    def early_at(self) -> int:
        """Offset, in a slot of a block sum, of what early blocks name as next."""
        return SLOT.size + _align(self.payload_bytes)

    def _sums_bytes(self, bits_up: int, bits_down: int) -> int:
        """Return the bytes of the sums for a full upstream packet of lanes."""
        n_lanes = 8 * self.payload_bytes // bits_up
        return _align(max(self.payload_bytes, -(-n_lanes * bits_down // 8)))

    def n_slots(
        self, kind: Kind, threshold: int = 1, widths: Widths | None = None
    ) -> int:
        """Return how many slots a streamed exchange gets, perhaps none."""
        room = self.half_bytes
        if kind == Kind.BLOCK_SUM:
            room -= self.clocks_bytes
        return max(0, room // self.slot_bytes(kind, threshold, widths))

    def least_bytes(
        self,
        kind: Kind,
        n_slots: int,
        threshold: int = 1,
        widths: Widths | None = None,
    ) -> int:
        """Return the register bytes that give a streamed exchange so many slots."""
        fixed = self.clocks_bytes if kind == Kind.BLOCK_SUM else 0
        half = _align(fixed + n_slots * self.slot_bytes(kind, threshold, widths))
        return self.halves_at + 2 * half

    def indexed_bytes(self, size: int) -> int:
        """Return the register bytes of an indexed sum with ``size`` addresses."""
        clients = self.bitmap_bytes + _align(4 * self.n_clients)
        return SLOT.size + clients + _align(-(-size // 8)) + _align(4 * size)

    @property
    def indexed_capacity(self) -> int:
        """The most addresses an indexed sum can have."""
        room = 2 * self.half_bytes - self.indexed_bytes(0)
        return max(0, (room - 16) * 8 // 33)
