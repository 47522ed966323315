"""Sums whose lanes are narrow on their way up and wide on their way down."""

from dataclasses import replace

import pytest

from fediac.switch.job import Job
from fediac.switch.pipeline import Switch
from fediac.wire.header import EVERYONE, Kind
from fediac.wire.packet import Packet
from tests.packets import lanes, pack, peak, send, totals, votes

# Packets hold 16 bytes: 32 lanes of 4 bits up, 16 lanes of 8 bits down.
FULL = list(range(16)) * 2


def narrow(job: Job, client: int, values: list[int], **settings: int) -> Packet:
    return lanes(job, client, values, **({"bits": 4, "bits_down": 8} | settings))


def test_a_full_packet_is_answered_in_parts(switch: Switch, job: Job) -> None:
    sent = send(switch, *(narrow(job, i, FULL, packet=7) for i in range(3)))
    answers = [answer for _, answer in sent]
    assert [to for to, _ in sent] == [EVERYONE, EVERYONE]
    assert [(each.packet, each.part) for each in answers] == [(7, 0), (7, 1)]
    assert {(each.bits_up, each.bits, each.count) for each in answers} == {(4, 8, 3)}
    assert [total for each in answers for total in totals(each)] == [
        3 * value for value in FULL
    ]
    assert switch.counters.aggregations == 1
    assert switch.counters.packets_out == 2


def test_lanes_that_fill_one_part_are_answered_in_one(switch: Switch, job: Job) -> None:
    packets = (narrow(job, i, [15] * 16) for i in range(3))
    ((_, answer),) = send(switch, *packets)
    assert (answer.part, totals(answer)) == (0, [45] * 16)


@pytest.mark.parametrize(
    ("bits", "bits_down"), [(1, 2), (3, 7), (5, 16), (7, 13), (4, 16), (8, 16)]
)
def test_lanes_of_any_width_are_widened(
    switch: Switch, job: Job, bits: int, bits_down: int
) -> None:
    values = [value % (1 << bits) for value in range(1, 17)]
    packets = (narrow(job, i, values, bits=bits, bits_down=bits_down) for i in range(3))
    found = [total for _, answer in send(switch, *packets) for total in totals(answer)]
    assert found == [3 * value for value in values]


def test_all_parts_are_repeated_to_the_client_that_lost_one(
    switch: Switch, job: Job
) -> None:
    sent = send(switch, *(narrow(job, i, FULL) for i in range(3)))
    again = send(switch, narrow(job, 1, FULL))
    assert again == [(1, replace(answer, client=1)) for _, answer in sent]
    assert switch.counters.repeated == 2


@pytest.mark.parametrize(
    ("bits_up", "bits"), [(0, 8), (9, 8), (4, 0), (4, 33), (200, 255), (8, 17)]
)
def test_widths_that_no_sum_has_are_malformed(
    switch: Switch, job: Job, bits_up: int, bits: int
) -> None:
    # Eight lanes of 17 bits are one byte more than a packet holds.
    packet = replace(lanes(job, 0, [1] * 8), bits_up=bits_up, bits=bits)
    assert send(switch, packet) == []
    assert switch.counters.drops == {"malformed": 1}


def test_only_answers_have_parts_and_only_sums_have_widths_up(
    switch: Switch, job: Job
) -> None:
    for packet in (lanes(job, 0, [1]), votes(job, 0, "1"), peak(job, 0, 1)):
        assert send(switch, replace(packet, part=1)) == []
    for packet in (votes(job, 0, "1"), peak(job, 0, 1)):
        assert send(switch, replace(packet, bits_up=8)) == []
    assert switch.counters.drops == {"malformed": 5}


def test_slots_are_as_long_as_the_sums(switch: Switch, job: Job) -> None:
    widths = (4, 8)
    assert job.layout.slot_bytes(Kind.SUM, widths=widths) == 24 + 8 + 32
    before = switch.counters.register_bytes
    send(switch, *(narrow(job, 0, FULL, packet=packet) for packet in (0, 1)))
    assert switch.counters.register_bytes - before == 2 * (24 + 8 + 32)


def test_a_packet_ahead_of_the_wide_slots_is_dropped(switch: Switch, job: Job) -> None:
    n_slots = job.layout.n_slots(Kind.SUM, widths=(4, 8))
    assert n_slots < job.layout.n_slots(Kind.SUM)
    send(switch, narrow(job, 0, FULL), narrow(job, 0, FULL, packet=n_slots))
    assert switch.counters.drops == {"busy": 1}


def test_sums_beyond_their_lanes_stay_in_their_slot(switch: Switch) -> None:
    """Forty clients of the largest lanes carry out of 6 bits, never out of the slot."""
    job = switch.open(40)
    full, values = [15] * 16, []
    for client in range(40):
        sent = send(
            switch,
            narrow(job, client, full, bits_down=6),
            narrow(job, client, [1] * 16, bits_down=6, packet=1),
        )
        values += [answer for _, answer in sent]
    widened = int.from_bytes(pack(full, 6), "little")
    spoilt, good = values
    assert int.from_bytes(spoilt.body, "little") == 40 * widened % (1 << 96)
    assert totals(good) == [40] * 16
