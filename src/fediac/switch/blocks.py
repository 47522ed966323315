"""Block sums: clients send only the blocks they have, each naming its next one.

The switch remembers every client's next block. The smallest of these is the frontier:
no client will ever send a block before it, so those blocks are complete. Block ``j``
uses slot ``j mod n_slots``, and a client may send block ``j`` once
``j < frontier + n_slots``, so two open blocks never meet in a slot, and the client at
the frontier can always go on.

Answers form a chain: the one to the announcements names the first block that anyone
has, and every block's answer names the next. So a client knows which answers it lost,
also of blocks it does not have, and gets one again by sending its number without items.
Announcements are answered when all are there, unless block 0 is the first: its own
answer follows. A client that announces again is always told.

Where packets get lost or overtake each other, a block that comes before the client's
next one is kept as well: it is added to its slot, which remembers what the client named
as next behind it. When the missing block comes, the client's clock goes on over all
that are there. A block before which one is missing is answered by a wait, which names
the block that is expected: all below are counted, and the one that the wait is about.

Where packets get lost, a slot may be reused only after every client has its answer, but
a client without blocks acknowledges nothing. So clients keep two rules, with
``third = (n_slots + 1) // 3``:

- A client that misses the answer of block ``e`` sends only blocks below ``e + third``.
- It names as its next block one at most ``third`` ahead, where it sends a block without
  items if it has none; past the last block of all it names ``END``.

Then whoever opens block ``j`` has the answers below ``j - third + 1``, so the frontier
is there or beyond. Every client's last packet was at most ``third`` before the
frontier, and the client then had all answers up to ``third`` before that packet: those
below ``j - 3 * third + 2``, which includes the slot's former block ``j - n_slots``.
Early blocks change nothing of this: clocks move along blocks that the client has sent.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from fediac.switch.adder import add_levels
from fediac.switch.aligned import Slot, read_slot, write_slot
from fediac.switch.bitmap import is_set, set_bit
from fediac.switch.counters import Drop
from fediac.switch.job import DropPacket, Region
from fediac.switch.registers import COMPLETE, FREE, OPEN, SLOT
from fediac.wire.header import EVERYONE, Flag, Kind, Reason
from fediac.wire.packet import Packet


def process_block(region: Region, packet: Packet) -> None:
    """Add a block, or record a client's first one; answer what that completes."""
    layout = region.job.layout
    stride = layout.slot_bytes(Kind.BLOCK_SUM)
    n_slots = layout.n_slots(Kind.BLOCK_SUM)
    may_begin = Flag.ANNOUNCE in packet.flags
    number = region.enter(packet, stride, n_slots, may_begin=may_begin)
    area = _Area(region, packet, number)
    if Flag.ANNOUNCE in packet.flags:
        area.announce()
    elif not area.has_announced(packet.client):
        raise DropPacket(Drop.BUSY)
    elif packet.packet < area.next_block():
        area.repeat()
    elif packet.packet > area.next_block():
        area.add_early()
    else:
        area.add()
        area.follow()
        # The frontier is the smallest clock: it moves only with a client that is there.
        if packet.packet == area.words[0]:
            area.advance()


class _Area:
    """The half of a block sum, as one packet sees it."""

    def __init__(self, region: Region, packet: Packet, number: int) -> None:
        self.region = region
        self.packet = packet
        self.number = number
        self.half = region.half(number)
        layout = region.job.layout
        at = region.half_at(number)
        # Word 0: the frontier. Word 1: the first block of those announced so far.
        self.words = region.registers[at : at + 8].cast("I")
        self.bitmap_at = at + 8
        clocks_at = self.bitmap_at + layout.bitmap_bytes
        self.clocks = region.registers[
            clocks_at : clocks_at + 4 * layout.n_clients
        ].cast("I")
        self.slots_at = at + layout.clocks_bytes
        if not self.half.used:
            region.use(number, layout.clocks_bytes)

    def has_announced(self, client: int) -> bool:
        return is_set(self.region.registers, self.bitmap_at, client)

    def announced(self) -> int:
        length = self.region.job.layout.bitmap_bytes
        bitmap = self.region.registers[self.bitmap_at : self.bitmap_at + length]
        return int.from_bytes(bitmap, "little")

    def have_all_announced(self) -> bool:
        return self.announced() == self.region.job.present

    def next_block(self) -> int:
        return self.clocks[self.packet.client]

    def announce(self) -> None:
        """Record the client's first block; when all are known, announce the first."""
        packet = self.packet
        if self.has_announced(packet.client):
            if not self.have_all_announced():
                n_announced = self.announced().bit_count()
                self.region.wait(packet, n_announced, self.next_block())
            self.answer_first(to=packet.client)
            return
        is_first = not self.announced()
        self.words[1] = packet.aux if is_first else min(self.words[1], packet.aux)
        set_bit(self.region.registers, self.bitmap_at, packet.client)
        self.clocks[packet.client] = packet.aux
        if self.have_all_announced():
            if self.words[1]:
                self.answer_first()
            self.advance()

    def slot_at(self, block: int) -> int:
        return self.slots_at + block % self.half.n_slots * self.half.stride

    def add(self) -> None:
        """Add the packet's block to its slot."""
        packet, registers = self.packet, self.region.registers
        if packet.packet >= self.words[0] + self.half.n_slots:
            raise DropPacket(Drop.BUSY)
        at = self.slot_at(packet.packet)
        slot = read_slot(registers, at)
        if slot.state == FREE:
            self.region.use(self.number, self.half.stride)
        if slot.state != OPEN:
            registers[at : at + self.half.stride] = bytes(self.half.stride)
            slot = self._new_slot()
        elif slot.n_items != packet.n_items and slot.n_items and packet.n_items:
            self.region.contradict(packet, Reason.ITEMS, slot.n_items)
        add_levels(registers, at + SLOT.size, packet.body)
        n_items = max(slot.n_items, packet.n_items)
        count = (slot.count + 1) & 0xFFFF
        write_slot(registers, at, replace(slot, count=count, n_items=n_items))

    def _named(self, block: int) -> memoryview:
        """Return the word that says what the client named as next behind a block."""
        at = self.slot_at(block) + self.region.job.layout.early_at
        at += 4 * self.packet.client
        return self.region.registers[at : at + 4].cast("I")

    def _following(self, block: int) -> int:
        """Return what the client named behind an early block; 0: it is not here."""
        return self._named(block)[0] if self._is_open(block) else 0

    def follow(self) -> None:
        """Move the client's clock behind the packet's block, and over early ones."""
        following = self.packet.aux
        n_most = self.half.n_slots if self.region.job.layout.keeps_early else 0
        for _ in range(n_most):
            named = self._following(following)
            if not named:
                break
            self._named(following)[0] = 0
            following = named
        self.clocks[self.packet.client] = following

    def add_early(self) -> None:
        """Keep a block that comes before the client's next one."""
        packet = self.packet
        if not self.region.job.layout.keeps_early:
            raise DropPacket(Drop.BUSY)
        if self._following(packet.packet):
            self.region.wait(packet, self.n_beyond(), self.next_block())
        self.add()
        self._named(packet.packet)[0] = packet.aux
        if self._is_behind_gap():
            self.region.tell_wait(packet, self.n_beyond(), self.next_block())

    def _is_behind_gap(self) -> bool:
        """Return whether the client's block before this early one is missing."""
        number = self.packet.packet
        first = max(self.next_block(), number - self.half.n_slots)
        for block in range(number - 1, first, -1):
            named = self._following(block)
            if named:
                return named != number
        return True

    def _new_slot(self) -> Slot:
        packet = self.packet
        return Slot(
            packet=packet.packet,
            aux=0,
            exchange=packet.exchange,
            n_items=packet.n_items,
            threshold=0,
            count=0,
            kind=packet.kind,
            bits=packet.bits,
            state=OPEN,
        )

    def members(self) -> Iterator[int]:
        """Yield the clients that take part."""
        job = self.region.job
        yield from (i for i in range(job.layout.n_clients) if job.present >> i & 1)

    def n_beyond(self) -> int:
        """Return how many clients are beyond the packet's block."""
        return sum(self.clocks[i] > self.packet.packet for i in self.members())

    def advance(self) -> None:
        """Move the frontier and answer every block behind it."""
        if not self.have_all_announced():
            return
        old = self.words[0]
        self.words[0] = min(self.clocks[i] for i in self.members())
        stop = min(self.words[0], old + self.half.n_slots)
        done = [block for block in range(old, stop) if self._is_open(block)]
        for block, following in pairwise([*done, self.words[0]]):
            self._complete(block, following)

    def _is_open(self, block: int) -> bool:
        slot = read_slot(self.region.registers, self.slot_at(block))
        return slot.state == OPEN and slot.packet == block

    def _complete(self, block: int, following: int) -> None:
        at = self.slot_at(block)
        slot = read_slot(self.region.registers, at)
        slot = replace(slot, aux=following, state=COMPLETE)
        write_slot(self.region.registers, at, slot)
        if slot.n_items:
            self.region.count_aggregation()
        self.answer_block(at, slot)

    def repeat(self) -> None:
        """Answer a block behind the client's next one, if it is complete and here."""
        if self.packet.packet >= self.words[0]:
            self.region.wait(self.packet, self.n_beyond(), self.next_block())
        at = self.slot_at(self.packet.packet)
        slot = read_slot(self.region.registers, at)
        if slot.state != COMPLETE or slot.packet != self.packet.packet:
            raise DropPacket(Drop.STALE)
        self.answer_block(at, slot, to=self.packet.client)

    def answer_block(self, at: int, slot: Slot, *, to: int = EVERYONE) -> None:
        start = at + SLOT.size
        # Spoilt registers may claim more levels than a packet holds.
        n_items = min(slot.n_items, self.region.job.layout.payload_bytes // 4)
        body = bytes(self.region.registers[start : start + 4 * n_items])
        answer = replace(
            self._answer(to),
            packet=slot.packet,
            n_items=n_items,
            aux=slot.aux,
            body=body,
        )
        self.region.answer(answer, to=to)

    def answer_first(self, *, to: int = EVERYONE) -> None:
        """Announce the first block that any client has."""
        flags = Flag.ANSWER | Flag.ANNOUNCE
        answer = replace(self._answer(to), aux=self.words[1], flags=flags)
        self.region.answer(answer, to=to)

    def _answer(self, to: int) -> Packet:
        return Packet(
            kind=Kind.BLOCK_SUM,
            session=self.packet.session,
            exchange=self.packet.exchange,
            client=to,
            count=self.region.job.n_counted,
            bits=32,
            flags=Flag.ANSWER,
        )
