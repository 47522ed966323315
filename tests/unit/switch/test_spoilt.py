"""Registers that something else wrote to: answers may be wrong, nothing else is."""

from dataclasses import replace

import numpy as np
import pytest

from fediac.switch.aligned import read_slot, write_slot
from fediac.switch.counters import Drop
from fediac.switch.job import Job, settings_of
from fediac.switch.pipeline import Switch
from fediac.switch.registers import COMPLETE, OPEN
from fediac.wire.header import END, Kind
from fediac.wire.packet import Packet
from tests.packets import (
    announce,
    block,
    indexed_totals,
    lanes,
    levels,
    pairs,
    peak,
    reading,
    send,
    told,
    votes,
)


def claim(switch: Switch, job: Job, number: int, packet: Packet, **words: int) -> None:
    """Let a half's record say that the packet's exchange runs there."""
    record = switch._region(job, []).record
    record[0] = number
    first = 1 + 7 * number
    tag = (1, packet.exchange, packet.kind)
    settings = settings_of(packet)
    runs = words["stride"], words["n_slots"], settings, 0
    for place, word in enumerate((*tag, *runs)):
        record[first + place] = word
    record[15] = packet.exchange + 1


def half_at(switch: Switch, job: Job, number: int) -> int:
    return switch._region(job, []).half_at(number)


def dropped(switch: Switch, packet: Packet) -> Drop:
    before = switch._counts.copy()
    assert all(each.kind == Kind.ERROR for _, each in send(switch, packet))
    (place,) = np.flatnonzero((switch._counts - before)[6:])
    return Drop(int(place))


def test_there_are_two_halves_whatever_the_register_says(
    switch: Switch, job: Job
) -> None:
    switch._region(job, []).record[0] = END
    sent = [lanes(job, client, [client]) for client in range(3)]
    ((_, answer),) = send(switch, *sent)
    assert answer.body == b"\3"


@pytest.mark.parametrize("n_slots", [0, 1, END])
def test_an_exchange_never_runs_without_slots(n_slots: int) -> None:
    small = Switch(2048, payload_bytes=600)
    job = small.open(64)
    packet = votes(job, 0, "1", threshold=64)
    stride = job.layout.slot_bytes(Kind.TALLY, 64)
    assert job.layout.n_slots(Kind.TALLY, 64) == 0
    claim(small, job, 0, packet, stride=stride, n_slots=n_slots)
    assert dropped(small, packet) == Drop.MISMATCH


def test_slots_are_as_many_as_fit_whatever_the_register_says(
    switch: Switch, job: Job
) -> None:
    packet = lanes(job, 0, [1], packet=500)
    stride = job.layout.slot_bytes(Kind.SUM)
    claim(switch, job, 0, packet, stride=stride, n_slots=501)
    assert dropped(switch, packet) == Drop.MISMATCH


def test_an_indexed_sum_never_runs_in_the_second_half(switch: Switch, job: Job) -> None:
    size = job.layout.indexed_capacity
    packet = pairs(job, 0, {size - 1: 1}, size=size)
    stride = job.layout.indexed_bytes(size)
    claim(switch, job, 1, packet, stride=stride, n_slots=1)
    assert dropped(switch, packet) == Drop.MISMATCH


def test_a_range_fits_a_packet_whatever_the_registers_say(
    switch: Switch, job: Job
) -> None:
    sent = [
        pairs(job, i, {}, size=41, bits=3, is_narrow=True, is_last=i > 0)
        for i in range(3)
    ]
    assert send(switch, *sent) == []
    at = half_at(switch, job, 0) + job.layout.indexed_bytes(0)
    switch._registers[at : job.base + job.layout.register_bytes] = 255
    last = replace(sent[0], packet=1, flags=sent[1].flags)
    ((_, first),) = send(switch, last)
    answers = [first, *(told(switch, reading(last, i)) for i in (1, 2))]
    assert [list(indexed_totals([each])) for each in answers] == [
        list(range(14)),
        list(range(14, 28)),
        list(range(28, 41)),
    ]


def test_a_slot_of_another_kind_is_not_answered_from(switch: Switch, job: Job) -> None:
    first = votes(job, 0, "1" * 128, bits=32, threshold=1)
    assert len(send(switch, first)) == 0
    at = half_at(switch, job, 0)
    held = read_slot(switch._registers.data, at)
    for kind in (Kind.SUM, Kind.MAX, 0, 255):
        for state in (OPEN, COMPLETE, 255):
            changed = replace(held, kind=int(kind), state=state)
            write_slot(switch._registers.data, at, changed)
            second = votes(job, 1, "1" * 128, bits=32, threshold=1)
            assert dropped(switch, second) == Drop.MISMATCH


def test_a_peak_slot_of_another_kind_is_not_answered_from(
    switch: Switch, job: Job
) -> None:
    assert send(switch, peak(job, 0, 5)) == []
    at = job.base + job.layout.peaks_at
    held = read_slot(switch._registers.data, at)
    write_slot(switch._registers.data, at, replace(held, kind=int(Kind.TALLY)))
    assert dropped(switch, peak(job, 1, 5)) == Drop.MISMATCH


def test_a_block_has_no_more_levels_than_a_packet_holds(
    switch: Switch, job: Job
) -> None:
    send(switch, *(announce(job, client, 0) for client in range(3)))
    assert send(switch, *(block(job, i, 0, [7, 8]) for i in (0, 1))) == []
    at = half_at(switch, job, 0) + job.layout.clocks_bytes
    # n_items stands behind packet, aux and exchange.
    switch._registers[at + 10 : at + 12] = 255
    ((_, answer),) = send(switch, block(job, 2, 0, []))
    assert levels(answer) == [14, 16, 0, 0]
    ((_, again),) = send(switch, block(job, 2, 0, []))
    assert levels(again) == [14, 16, 0, 0]


def test_a_count_wraps_as_the_register_does(switch: Switch, job: Job) -> None:
    assert send(switch, lanes(job, 0, [1])) == []
    at = half_at(switch, job, 0)
    # The count stands behind packet, aux, exchange, n_items and threshold.
    switch._registers[at + 14 : at + 16] = 255
    assert send(switch, lanes(job, 1, [1])) == []
    assert read_slot(switch._registers.data, at).count == 0
