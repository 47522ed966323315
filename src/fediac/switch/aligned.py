"""Tally, sum and maximum: packet ``j`` of every client meets in one slot."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from fediac.switch.adder import add_payload, widen
from fediac.switch.bitmap import is_set, set_bit
from fediac.switch.counters import Drop
from fediac.switch.job import DropPacket, Region
from fediac.switch.registers import COMPLETE, FREE, OPEN, SLOT, n_planes
from fediac.switch.tally import count_votes, reach_threshold
from fediac.wire.header import EVERYONE, Flag, Kind, Reason, lanes_per_part
from fediac.wire.packet import Packet


@dataclass(frozen=True, slots=True)
class Slot:
    """The record at the head of a slot."""

    packet: int
    aux: int
    exchange: int
    n_items: int
    threshold: int
    count: int
    kind: int
    bits: int
    state: int
    bits_up: int = 0


def read_slot(registers: memoryview, at: int) -> Slot:
    """Return the slot record at byte ``at``."""
    return Slot(*SLOT.unpack_from(registers, at))


def write_slot(registers: memoryview, at: int, slot: Slot) -> None:
    """Put a slot record at byte ``at``."""
    SLOT.pack_into(
        registers,
        at,
        slot.packet,
        slot.aux,
        slot.exchange,
        slot.n_items,
        slot.threshold,
        slot.count,
        slot.kind,
        slot.bits,
        slot.state,
        slot.bits_up,
    )


def process_aligned(region: Region, packet: Packet) -> None:
    """Count a packet of a tally or a sum in its slot; answer when it is complete."""
    layout = region.job.layout
    threshold = packet.threshold if packet.kind == Kind.TALLY else 1
    widths = (packet.bits_up, packet.bits) if packet.kind == Kind.SUM else None
    stride = layout.slot_bytes(packet.kind, threshold, widths)
    n_slots = layout.n_slots(packet.kind, threshold, widths)
    # No window lets one through that is further on while the exchange begins.
    may_begin = packet.packet < n_slots
    number = region.enter(packet, stride, n_slots, may_begin=may_begin)
    at = region.half_at(number) + packet.packet % n_slots * stride
    slot = read_slot(region.registers, at)
    if slot.state == FREE or slot.packet != packet.packet:
        _check_turn(slot, packet.packet, n_slots)
        if slot.state == FREE:
            region.use(number, stride)
        slot = _take_slot(region, packet, at, stride)
    _contribute(region, packet, at, slot)


def _check_turn(slot: Slot, packet: int, n_slots: int) -> None:
    """Refuse a packet that is not the next one in its slot.

    A window never lets one through that is further on: whatever sends it must not push
    aside those that are waited for.
    """
    if slot.state != FREE and packet < slot.packet:
        raise DropPacket(Drop.STALE)
    following = packet % n_slots if slot.state == FREE else slot.packet + n_slots
    if slot.state == OPEN or packet != following:
        raise DropPacket(Drop.BUSY)


def process_max(region: Region, packet: Packet) -> None:
    """Count a peak in one of the two peak slots, which exchanges take in turn."""
    layout = region.job.layout
    stride = layout.slot_bytes(Kind.MAX)
    places = [region.job.base + layout.peaks_at + i * stride for i in (0, 1)]
    slots = [read_slot(region.registers, at) for at in places]
    for at, slot in zip(places, slots, strict=True):
        if slot.state != FREE and slot.exchange == packet.exchange:
            _contribute(region, packet, at, slot)
            return
    half = region.find_half(packet.exchange)
    if half is not None:
        region.contradict_half(packet, half)
    if packet.exchange < region.begun:
        raise DropPacket(Drop.STALE)
    region.begin(packet.exchange)
    oldest = min((0, 1), key=lambda i: (slots[i].state != FREE, slots[i].exchange))
    at = places[oldest]
    _contribute(region, packet, at, _take_slot(region, packet, at, stride))


def _take_slot(region: Region, packet: Packet, at: int, stride: int) -> Slot:
    """Clear a slot for the packet's group, and return its record."""
    region.registers[at : at + stride] = bytes(stride)
    return Slot(
        packet=packet.packet,
        aux=0,
        exchange=packet.exchange,
        n_items=packet.n_items,
        threshold=packet.threshold,
        count=0,
        kind=packet.kind,
        bits=packet.bits,
        state=OPEN,
        bits_up=packet.bits_up,
    )


def _contribute(region: Region, packet: Packet, at: int, slot: Slot) -> None:
    """Count the packet in its slot, or answer again what it holds."""
    _check_alike(region, slot, packet)
    bitmap_at = at + SLOT.size
    if slot.state == COMPLETE:
        _answer(region, slot, at, to=packet.client)
        return
    if is_set(region.registers, bitmap_at, packet.client):
        region.wait(packet, slot.count)
    set_bit(region.registers, bitmap_at, packet.client)
    if Flag.OBSERVE not in packet.flags:
        _add(region, packet, bitmap_at + region.job.layout.bitmap_bytes)
    count = (slot.count + 1) & 0xFFFF
    is_complete = count == region.job.present.bit_count()
    slot = replace(
        slot,
        count=count,
        n_items=max(slot.n_items, packet.n_items),
        aux=max(slot.aux, packet.aux),
        bits=max(slot.bits, packet.bits),
        state=COMPLETE if is_complete else OPEN,
    )
    write_slot(region.registers, at, slot)
    if is_complete:
        region.count_aggregation()
        _answer(region, slot, at)


def _check_alike(region: Region, slot: Slot, packet: Packet) -> None:
    """Refuse a packet that differs from its group's in what must be the same.

    Tallies agree on the widest width; the lanes of a sum must be equally wide. Only an
    observer's packets have no items where others have some.
    """
    held = (slot.kind, slot.threshold)
    is_alike = held == (packet.kind, packet.threshold)
    widths = (slot.bits_up, slot.bits), (packet.bits_up, packet.bits)
    if not is_alike or (slot.kind == Kind.SUM and widths[0] != widths[1]):
        settings = widths[0][0] << 8 | widths[0][1]
        held_now = slot.threshold if slot.kind == Kind.TALLY else settings
        region.contradict(packet, Reason.SETTINGS, slot.kind, held_now)
    is_known = slot.n_items and Flag.OBSERVE not in packet.flags
    if is_known and slot.n_items != packet.n_items:
        region.contradict(packet, Reason.ITEMS, slot.n_items)


def _planes(
    region: Region, threshold: int, n_items: int, at: int
) -> list[tuple[int, int]]:
    """Return the first and last byte of each plane of a vote slot."""
    payload = -(-region.job.layout.payload_bytes // 8) * 8
    length = -(-n_items // 8)
    starts = (at + i * payload for i in range(n_planes(threshold)))
    return [(start, start + length) for start in starts]


def _add(region: Region, packet: Packet, at: int) -> None:
    if packet.kind == Kind.SUM:
        lanes = widen(packet.body, packet.n_items, packet.bits_up, packet.bits)
        add_payload(region.registers, at, lanes)
    elif packet.kind == Kind.TALLY:
        places = _planes(region, packet.threshold, packet.n_items, at)
        planes = [int.from_bytes(region.registers[a:b], "little") for a, b in places]
        counted = count_votes(planes, int.from_bytes(packet.body, "little"))
        for (start, stop), plane in zip(places, counted, strict=True):
            region.registers[start:stop] = plane.to_bytes(stop - start, "little")


def _answer(region: Region, slot: Slot, at: int, *, to: int = EVERYONE) -> None:
    """Send what a complete slot holds, in as many packets as that fills."""
    values_at = at + SLOT.size + region.job.layout.bitmap_bytes
    for part, (n_items, body) in enumerate(_parts(region, slot, values_at)):
        answer = Packet(
            kind=Kind(slot.kind),
            session=region.job.session,
            exchange=slot.exchange,
            client=to,
            packet=slot.packet,
            n_items=n_items,
            count=(slot.count - region.job.n_observers) & 0xFFFF,
            aux=slot.aux,
            bits_up=slot.bits_up,
            bits=slot.bits,
            part=part,
            flags=Flag.ANSWER,
            body=body,
        )
        region.answer(answer, to=to)


def _parts(region: Region, slot: Slot, at: int) -> Iterator[tuple[int, bytes]]:
    """Yield the items in each packet of the answer, and their bytes."""
    if slot.kind == Kind.MAX:
        yield 0, b""
        return
    payload_bytes = region.job.layout.payload_bytes
    # Spoilt registers may claim more items than a packet up can hold.
    most = 8 * payload_bytes // (slot.bits_up if slot.kind == Kind.SUM else 1)
    n_left = min(slot.n_items, most)
    if slot.kind == Kind.TALLY:
        places = _planes(region, slot.threshold, n_left, at)
        planes = [int.from_bytes(region.registers[a:b], "little") for a, b in places]
        length = -(-n_left // 8)
        gia = reach_threshold(planes, slot.threshold, 8 * length)
        yield n_left, gia.to_bytes(length, "little")
        return
    per_part = n_left
    if slot.bits_up != slot.bits:
        per_part = lanes_per_part(slot.bits, payload_bytes)
    while n_left:
        n_items = min(per_part, n_left)
        length = -(-n_items * slot.bits // 8)
        yield n_items, bytes(region.registers[at : at + length])
        at += n_items * slot.bits // 8
        n_left -= n_items
