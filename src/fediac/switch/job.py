"""Jobs: what the control plane and the data plane share about each of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from fediac.switch.counters import Count, Drop
from fediac.switch.registers import (
    BEGUN_AT,
    FREE,
    HALF_WORDS,
    RECORD_BYTES,
    SLOT,
    Layout,
)
from fediac.wire.header import EVERYONE, MAX_CLIENTS, Flag, Kind, Reason
from fediac.wire.packet import Packet

JOB_RECORD = np.dtype(
    [
        ("base", "<u8"),
        ("session", "<u8"),
        ("n_clients", "<u4"),
        ("n_observers", "<u4"),
        ("n_present", "<u4"),
        ("payload_bytes", "<u4"),
        ("register_bytes", "<u4"),
        ("keeps_early", "<u4"),
        ("present", "u1", MAX_CLIENTS // 8),
    ]
)
"""A `Job` as the compiled data plane reads it."""


class DropPacket(Exception):  # noqa: N818 - not an error: the switch goes on
    """Raised while a packet is processed: drop it and count the reason."""

    def __init__(self, reason: Drop) -> None:
        super().__init__(reason.name.lower())
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Job:
    """A group of clients that share a region of the registers.

    Attributes:
        session: Its number, which stands in every packet.
        base: First byte of the region.
        present: Bit ``i`` is set when client ``i`` takes part.
        n_observers: How many of the last clients add nothing, and get every answer.
    """

    session: int
    base: int
    layout: Layout
    present: int
    n_observers: int = 0

    @property
    def n_voters(self) -> int:
        """Clients that may add something; observers have numbers from here on."""
        return self.layout.n_clients - self.n_observers

    @property
    def n_counted(self) -> int:
        """Clients that an answer counts."""
        return self.present.bit_count() - self.n_observers

    def record(self) -> npt.NDArray[np.void]:
        """Return this job as a `JOB_RECORD`."""
        row = np.zeros((), dtype=JOB_RECORD)
        row["base"], row["session"] = self.base, self.session
        row["n_clients"] = self.layout.n_clients
        row["n_observers"] = self.n_observers
        row["n_present"] = self.present.bit_count()
        row["payload_bytes"] = self.layout.payload_bytes
        row["register_bytes"] = self.layout.register_bytes
        row["keeps_early"] = self.layout.keeps_early
        row["present"] = np.frombuffer(
            self.present.to_bytes(MAX_CLIENTS // 8, "little"), dtype=np.uint8
        )
        return row


def settings_of(packet: Packet) -> int:
    """Return what all packets of an exchange must agree on, as a register keeps it."""
    match packet.kind:
        case Kind.TALLY:
            return packet.threshold
        case Kind.SUM:
            return packet.bits_up << 8 | packet.bits
        case Kind.INDEXED_SUM:
            return (Flag.NARROW in packet.flags) << 8 | packet.bits
        case _:
            return 0


@dataclass(frozen=True, slots=True)
class Half:
    """One half's entry in the job record: which exchange runs there and how."""

    is_valid: int
    exchange: int
    kind: int
    stride: int
    n_slots: int
    settings: int
    used: int

    @property
    def runs(self) -> tuple[int, int, int, int]:
        """The fields that must equal those of the packets of its exchange."""
        return self.kind, self.settings, self.stride, self.n_slots


@dataclass(frozen=True, slots=True)
class Region:
    """A job's registers, the switch's counters and a way out for answers."""

    job: Job
    registers: memoryview
    counts: npt.NDArray[np.int64]
    emit: Callable[[int, Packet], None]

    @property
    def record(self) -> memoryview:
        """The job record as 32-bit words."""
        at = self.job.base
        return self.registers[at : at + RECORD_BYTES].cast("I")

    @property
    def current(self) -> int:
        """The half in use; there are two, whatever the register says."""
        return self.record[0] & 1

    def half_at(self, number: int) -> int:
        """Return the first byte of half ``number``."""
        layout = self.job.layout
        return self.job.base + layout.halves_at + number * layout.half_bytes

    def half(self, number: int) -> Half:
        """Return the record of half ``number``."""
        first = 1 + number * len(HALF_WORDS)
        return Half(*self.record[first : first + len(HALF_WORDS)])

    def use(self, number: int, n_bytes: int) -> None:
        """Record that ``n_bytes`` more of half ``number`` are in use."""
        place = 1 + number * len(HALF_WORDS) + HALF_WORDS.index("used")
        self.record[place] = (self.record[place] + n_bytes) & 0xFFFFFFFF
        self._note_use(n_bytes)

    def _note_use(self, n_bytes: int) -> None:
        self.counts[Count.USED_BYTES] += n_bytes
        self.counts[Count.PEAK_BYTES] = max(
            self.counts[Count.PEAK_BYTES], self.counts[Count.USED_BYTES]
        )

    def enter(
        self, packet: Packet, stride: int, n_slots: int, *, may_begin: bool
    ) -> int:
        """Return the half that runs the packet's exchange, claiming one if it is new.

        Args:
            packet: The packet.
            stride: Bytes of a slot for it.
            n_slots: How many slots a half has.
            may_begin: It is one of those that clients begin the exchange with.

        Raises:
            DropPacket: The exchange is over, does not fit the registers, runs with
                other settings than the packet's, or does not begin with this packet.
        """
        number = self.find_half(packet.exchange)
        if number is not None:
            # Damaged registers may say anything; nothing reads beyond the region.
            is_misplaced = packet.kind == Kind.INDEXED_SUM and number != 0
            expected = (packet.kind, settings_of(packet), stride, n_slots)
            if self.half(number).runs != expected or n_slots < 1 or is_misplaced:
                self.contradict_half(packet, number)
            return number
        if self.has_peaks_of(packet.exchange):
            self.contradict(packet, Reason.SETTINGS, Kind.MAX)
        if packet.exchange < self.begun:
            raise DropPacket(Drop.STALE)
        if n_slots < 1:
            raise DropPacket(Drop.REGISTERS)
        if not may_begin:
            raise DropPacket(Drop.BUSY)
        self.begin(packet.exchange)
        return self._claim(packet, stride, n_slots)

    def find_half(self, exchange: int) -> int | None:
        """Return the number of the half that runs an exchange, the one in use first."""
        for number in (self.current, 1 - self.current):
            half = self.half(number)
            if half.is_valid and half.exchange == exchange:
                return number
        return None

    def has_peaks_of(self, exchange: int) -> bool:
        """Return whether a peak slot holds an exchange."""
        layout = self.job.layout
        first = self.job.base + layout.peaks_at
        for at in (first, first + layout.slot_bytes(Kind.MAX)):
            _, _, held, *_, state, _ = SLOT.unpack_from(self.registers, at)
            if state != FREE and held == exchange:
                return True
        return False

    def contradict_half(self, packet: Packet, number: int) -> NoReturn:
        """Tell a client what runs in a half instead of what its packet asks."""
        half = self.half(number)
        is_sized = half.kind == packet.kind == Kind.INDEXED_SUM
        if is_sized and half.settings == settings_of(packet):
            _, size, *_ = SLOT.unpack_from(self.registers, self.half_at(0))
            self.contradict(packet, Reason.ITEMS, 0, size)
        self.contradict(packet, Reason.SETTINGS, half.kind, half.settings)

    @property
    def begun(self) -> int:
        """How many exchanges have begun: the number of the next one."""
        return self.record[BEGUN_AT]

    def begin(self, exchange: int) -> None:
        """Note that an exchange begins.

        Nobody begins one before the last one is over, so that a packet of one further
        on is nobody's, and must not push aside what is running.

        Raises:
            DropPacket: It is not the next one.
        """
        if exchange > self.begun:
            raise DropPacket(Drop.BUSY)
        self.record[BEGUN_AT] = exchange + 1

    def _claim(self, packet: Packet, stride: int, n_slots: int) -> int:
        current = self.current
        running = self.half(current)
        # An indexed sum lies across both halves: it starts at, and gives way at, 0.
        spans = packet.kind == Kind.INDEXED_SUM
        is_first = not running.is_valid or running.kind == Kind.INDEXED_SUM
        number = 0 if spans or is_first else 1 - current
        for cleared in (0, 1) if spans or is_first else (number,):
            self._clear(cleared)
        first = 1 + number * len(HALF_WORDS)
        words = (
            1,
            packet.exchange,
            packet.kind,
            stride,
            n_slots,
            settings_of(packet),
            0,
        )
        for place, word in enumerate(words):
            self.record[first + place] = word
        self.record[0] = number
        return number

    def _clear(self, number: int) -> None:
        self._note_use(-self.half(number).used)
        first = 1 + number * len(HALF_WORDS)
        for place in range(len(HALF_WORDS)):
            self.record[first + place] = 0
        at, length = self.half_at(number), self.job.layout.half_bytes
        self.registers[at : at + length] = bytes(length)

    def answer(self, packet: Packet, *, to: int = EVERYONE) -> None:
        """Send an answer to one client or to everyone."""
        self.counts[Count.PACKETS_OUT] += 1
        self.counts[Count.REPEATED] += to != EVERYONE
        self.emit(to, packet)

    def contradict(
        self, packet: Packet, reason: Reason, n_items: int, settings: int = 0
    ) -> NoReturn:
        """Tell a client what its packet contradicts, and drop the packet.

        Args:
            packet: The packet.
            reason: What differs.
            n_items: What the switch holds instead: a kind, or a number of items.
            settings: The settings that it holds instead, see `settings_of`.
        """
        answer = Packet(
            kind=Kind.ERROR,
            session=packet.session,
            exchange=packet.exchange,
            client=packet.client,
            packet=packet.packet,
            n_items=n_items & 0xFFFF,
            aux=settings,
            flags=Flag.ANSWER,
            part=reason,
        )
        self.tell(answer)
        raise DropPacket(Drop.MISMATCH)

    def wait(self, packet: Packet, count: int, following: int = 0) -> NoReturn:
        """Tell a client how many are in whose packet is counted already; drop it."""
        self.tell_wait(packet, count, following)
        raise DropPacket(Drop.DUPLICATE)

    def tell_wait(self, packet: Packet, count: int, following: int) -> None:
        """Tell a client that its packet is counted.

        Args:
            packet: The packet.
            count: How many are in.
            following: The number of the client's next packet, in a sum of blocks or an
                indexed one.
        """
        answer = Packet(
            kind=Kind.WAIT,
            session=packet.session,
            exchange=packet.exchange,
            client=packet.client,
            packet=packet.packet,
            count=count,
            aux=following,
            flags=Flag.ANSWER | packet.flags & Flag.READ,
        )
        self.tell(answer)

    def tell(self, answer: Packet) -> None:
        """Send a packet to the client that it names, or to everyone."""
        self.counts[Count.PACKETS_OUT] += 1
        self.emit(answer.client, answer)

    def count_aggregation(self) -> None:
        """Count one completed slot, or one distinct entry of an indexed sum."""
        self.counts[Count.AGGREGATIONS] += 1
