"""Indexed sums: a register per address; pairs of (index, level) in any order.

A client's packets are taken in order, which also tells repeats. Levels are added in 32
bits, whatever their width; whoever sends fewer sees to it that the sum of all clients
has no more, either.

The totals are read range by range: a range has as many addresses as a packet holds
pairs, and its answer has those that were touched. When the last packet of the last
member is in, range 0 goes to everyone, which tells that the others can be read. Until
then, who reads is told how many are in, and which of its own packets comes next.

An indexed sum takes both halves, so it wipes out the answers of the exchange before it,
and the exchange after it wipes out its own. Where packets get lost, a `Kind.MAX` must
therefore come before it and after it: the peak of every client is there only when every
client has all earlier answers. `fediac.transports.packets.hidden_max_places` says where
one is missing.
"""

from dataclasses import replace

import numpy as np

from fediac.switch.aligned import Slot, read_slot, write_slot
from fediac.switch.bitmap import is_set, set_bit
from fediac.switch.counters import Count, Drop
from fediac.switch.job import DropPacket, Region
from fediac.switch.registers import COMPLETE, FREE, OPEN, SLOT
from fediac.wire.header import EVERYONE, Flag, Kind, Reason
from fediac.wire.packet import Packet
from fediac.wire.pairs import (
    WORD_BITS,
    index_bits,
    pack_pairs,
    range_length,
    unpack_pairs,
)


def process_indexed(region: Region, packet: Packet) -> None:
    """Add a packet's pairs, or answer for a range once all last packets are in."""
    layout = region.job.layout
    size = packet.aux
    fits = size <= layout.indexed_capacity
    stride = layout.indexed_bytes(size) if fits else 0
    may_begin = packet.packet == 0 and Flag.READ not in packet.flags
    number = region.enter(packet, stride, int(fits), may_begin=may_begin)
    at = region.half_at(number)
    slot = read_slot(region.registers, at)
    if slot.state == FREE:
        region.use(number, stride)
        slot = _new_slot(packet)
        write_slot(region.registers, at, slot)
    if (slot.aux, slot.threshold, slot.bits) != (size, *pair_widths(packet)):
        region.contradict(packet, Reason.ITEMS, 0, slot.aux)
    clocks_at = at + SLOT.size + layout.bitmap_bytes
    clocks = region.registers[clocks_at : clocks_at + 4 * layout.n_clients].cast("I")
    following = clocks[packet.client]
    if Flag.READ in packet.flags or packet.packet < following:
        _repeat(region, packet, slot, at, following)
    elif packet.packet > following:
        raise DropPacket(Drop.BUSY)
    else:
        _contribute(region, packet, slot, at)
        clocks[packet.client] = (packet.packet + 1) & 0xFFFFFFFF


def _repeat(
    region: Region, packet: Packet, slot: Slot, at: int, following: int
) -> None:
    """Answer who reads a range, or sends again the last packet, which reads range 0."""
    is_read = Flag.READ in packet.flags
    asks = is_read or Flag.LAST in packet.flags
    if slot.state != COMPLETE or not asks:
        region.wait(packet, slot.count, following)
    region.counts[Count.REPEATED] += not is_read
    number = packet.packet if is_read else 0
    region.tell(_range(region, slot, at, number, to=packet.client))


def _contribute(region: Region, packet: Packet, slot: Slot, at: int) -> None:
    done_at = at + SLOT.size
    if is_set(region.registers, done_at, packet.client):
        raise DropPacket(Drop.MALFORMED)
    _add(region, packet, at)
    if Flag.LAST not in packet.flags:
        return
    set_bit(region.registers, done_at, packet.client)
    count = (slot.count + 1) & 0xFFFF
    is_complete = count == region.job.present.bit_count()
    slot = replace(slot, count=count, state=COMPLETE if is_complete else OPEN)
    write_slot(region.registers, at, slot)
    if is_complete:
        region.tell(_range(region, slot, at, 0, to=EVERYONE))


def pair_widths(packet: Packet) -> tuple[int, int]:
    """Return the bits of an index and of a level in an indexed sum's packet."""
    is_narrow = Flag.NARROW in packet.flags
    return index_bits(packet.aux, is_narrow=is_narrow), packet.bits


def read_pairs(packet: Packet) -> tuple[list[int], list[int]]:
    """Return the indices and levels in an indexed sum's packet."""
    body = np.frombuffer(packet.body, dtype=np.uint8)
    indices, levels = unpack_pairs(body, packet.n_items, pair_widths(packet))
    return indices.tolist(), levels.tolist()


def _new_slot(packet: Packet) -> Slot:
    """Return the record of a sum that begins, with an index's width as threshold."""
    index_width, level_width = pair_widths(packet)
    return Slot(
        packet=0,
        aux=packet.aux,
        exchange=packet.exchange,
        n_items=0,
        threshold=index_width,
        count=0,
        kind=packet.kind,
        bits=level_width,
        state=OPEN,
    )


def _touched_at(region: Region, at: int) -> int:
    layout = region.job.layout
    return at + layout.indexed_bytes(0)


def _values_at(region: Region, at: int, size: int) -> int:
    return _touched_at(region, at) + -(-size // 64) * 8


def _add(region: Region, packet: Packet, at: int) -> None:
    touched_at = _touched_at(region, at)
    values_at = _values_at(region, at, packet.aux)
    values = region.registers[values_at : values_at + 4 * packet.aux].cast("I")
    for index, level in zip(*read_pairs(packet), strict=True):
        if not is_set(region.registers, touched_at, index):
            set_bit(region.registers, touched_at, index)
            region.count_aggregation()
        values[index] = (values[index] + level) & 0xFFFFFFFF


def _range(region: Region, slot: Slot, at: int, number: int, *, to: int) -> Packet:
    """Return the touched addresses of a range with their totals, which fit a packet."""
    size, widths = slot.aux, (slot.threshold, slot.bits)
    length = range_length(widths, region.job.layout.payload_bytes)
    start, stop = number * length, min((number + 1) * length, size)
    touched_at, values_at = _touched_at(region, at), _values_at(region, at, size)
    bitmap = np.frombuffer(
        region.registers[touched_at + start // 8 : touched_at + -(-stop // 8)],
        dtype=np.uint8,
    )
    touched = np.unpackbits(bitmap, count=stop - start // 8 * 8, bitorder="little")
    indices = start + np.flatnonzero(touched[start % 8 :])
    values = np.frombuffer(
        region.registers[values_at : values_at + 4 * size], dtype="<i4"
    )
    is_narrow = slot.threshold < WORD_BITS
    return Packet(
        kind=Kind.INDEXED_SUM,
        session=region.job.session,
        exchange=slot.exchange,
        client=to,
        packet=number,
        n_items=len(indices),
        count=(slot.count - region.job.n_observers) & 0xFFFF,
        aux=size,
        bits=slot.bits,
        flags=Flag.ANSWER | (Flag.NARROW if is_narrow else Flag(0)),
        body=pack_pairs(indices, values[indices], widths).tobytes(),
    )
