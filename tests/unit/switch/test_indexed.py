from dataclasses import replace
from typing import Any

import pytest

from fediac.switch.job import Job
from fediac.switch.pipeline import Switch
from fediac.wire.header import Flag, Kind
from tests.packets import (
    answer_to,
    indexed_totals,
    lanes,
    pairs,
    read_totals,
    reading,
    send,
    told,
)


@pytest.fixture
def job(switch: Switch) -> Job:
    """Two clients."""
    return switch.open(2)


def test_totals_of_every_touched_address_are_read_in_order(
    switch: Switch, job: Job
) -> None:
    sent = [pairs(job, 0, {9: 5, 2: -7}), pairs(job, 1, {2: 3})]
    send(switch, *sent)
    for each in sent:
        assert list(read_totals(switch, each).items()) == [(2, -4), (9, 5)]


def test_an_address_whose_levels_cancel_was_touched_all_the_same(
    switch: Switch, job: Job
) -> None:
    sent = [pairs(job, 0, {3: 4}), pairs(job, 1, {3: -4})]
    send(switch, *sent)
    assert read_totals(switch, sent[0]) == {3: 0}


def test_an_address_twice_in_a_packet_counts_twice(switch: Switch, job: Job) -> None:
    once = pairs(job, 0, {3: 4})
    send(switch, replace(once, n_items=2, body=2 * once.body), pairs(job, 1, {}))
    assert read_totals(switch, once) == {3: 8}


def test_totals_wrap_in_32_bits(switch: Switch, job: Job) -> None:
    sent = [pairs(job, 0, {3: 2**31 - 1}), pairs(job, 1, {3: 1})]
    send(switch, *sent)
    assert read_totals(switch, sent[0]) == {3: -(2**31)}


def test_the_answer_waits_for_the_last_packet_of_everyone(
    switch: Switch, job: Job
) -> None:
    packets = [pairs(job, 0, {1: 1}), pairs(job, 1, {1: 1}, is_last=False)]
    assert send(switch, *packets) == []
    assert len(send(switch, pairs(job, 1, {}, packet=1))) == 1


def test_range_0_goes_to_everyone_when_the_sum_is_complete(
    switch: Switch, job: Job
) -> None:
    # Two pairs of 32 + 32 bits fit a packet.
    sent = [pairs(job, 0, {0: 1, 2: 1}), pairs(job, 1, {1: 5, 9: 1})]
    answer = answer_to(switch, *sent)
    assert (answer.packet, answer.flags, answer.count) == (0, Flag.ANSWER, 2)
    assert indexed_totals([answer]) == {0: 1, 1: 5}


def test_each_range_has_the_addresses_behind_those_of_the_one_before(
    switch: Switch, job: Job
) -> None:
    # 14 pairs of 6 + 3 bits fit a packet.
    odd = dict.fromkeys(range(1, 28, 2), 1)
    sent = [
        pairs(job, i, values, size=40, bits=3, is_narrow=True)
        for i, values in enumerate((odd, {39: 2}))
    ]
    send(switch, *sent)
    answers = [told(switch, reading(sent[1], i)) for i in range(3)]
    assert [each.packet for each in answers] == [0, 1, 2]
    read = [list(indexed_totals([each])) for each in answers]
    assert read == [list(range(1, 14, 2)), list(range(15, 28, 2)), [39]]


def test_nothing_touched_is_answered_by_an_empty_packet(
    switch: Switch, job: Job
) -> None:
    sent = [pairs(job, i, {}) for i in (0, 1)]
    answer = answer_to(switch, *sent)
    assert (answer.n_items, answer.body) == (0, b"")
    assert told(switch, reading(sent[0], 7)).body == b""


def test_no_request_is_answered_by_more_than_one_packet(
    switch: Switch, job: Job
) -> None:
    size = job.layout.indexed_capacity
    last = [pairs(job, i, {i: 1}, size=size, packet=1) for i in (0, 1)]
    send(switch, *(replace(each, packet=0, flags=Flag(0)) for each in last))
    for packet in (*last, *last, reading(last[0], 0), reading(last[0], size // 2 - 1)):
        answers = send(switch, packet)
        assert len(answers) <= 1
        assert all(len(each.body) <= switch.payload_bytes for _, each in answers)


def test_who_reads_too_early_is_told_how_many_are_in_and_what_comes_next(
    switch: Switch, job: Job
) -> None:
    first = pairs(job, 0, {1: 1}, is_last=False)
    send(switch, first, pairs(job, 1, {}))
    for number in (0, 7):
        wait = told(switch, reading(first, number))
        assert (wait.kind, wait.packet) == (Kind.WAIT, number)
        assert wait.flags == Flag.ANSWER | Flag.READ
        assert (wait.count, wait.aux, wait.body) == (1, 1, b"")
    assert switch.counters.drops == {"duplicate": 2}


def test_who_repeats_pairs_is_told_which_packet_comes_next(
    switch: Switch, job: Job
) -> None:
    sent = [pairs(job, 0, {i: 1}, packet=i, is_last=False) for i in range(3)]
    send(switch, *sent)
    wait = told(switch, sent[0])
    assert (wait.flags, wait.packet, wait.aux) == (Flag.ANSWER, 0, 3)


def test_reading_begins_no_sum(switch: Switch, job: Job) -> None:
    request = reading(pairs(job, 0, {}), 0)
    before = switch._registers.copy()
    assert send(switch, request) == []
    assert switch.counters.drops == {"busy": 1}
    assert (switch._registers == before).all()


def test_a_sum_that_is_over_is_not_read(switch: Switch, job: Job) -> None:
    sent = [pairs(job, i, {1: 1}) for i in (0, 1)]
    send(switch, *sent, *(lanes(job, i, [1], exchange=1) for i in (0, 1)))
    assert send(switch, reading(sent[0], 0)) == []
    assert switch.counters.drops == {"stale": 1}


@pytest.mark.parametrize(
    "change",
    [
        {"packet": 8},  # 16 addresses are 8 ranges
        {"n_items": 1, "body": bytes(8)},
        {"body": b"\0"},
        {"kind": Kind.MAX, "bits": 0},
        {"kind": Kind.SUM, "bits_up": 8, "bits": 8, "n_items": 1, "body": b"\0"},
        {"kind": Kind.BLOCK_SUM},
        {"kind": Kind.TALLY, "threshold": 1, "n_items": 1, "body": b"\0", "aux": 0},
    ],
)
def test_only_a_range_that_is_there_is_read(
    switch: Switch, job: Job, change: dict[str, Any]
) -> None:
    sent = [pairs(job, i, {1: 1}) for i in (0, 1)]
    send(switch, *sent)
    packet = replace(reading(sent[0], 0), **change)
    assert send(switch, packet) == []
    assert switch.counters.drops == {"malformed": 1}


def test_a_sum_whose_pairs_fit_no_packet_is_malformed() -> None:
    switch = Switch(4096, payload_bytes=7)
    job = switch.open(1)
    assert send(switch, pairs(job, 0, {}), reading(pairs(job, 0, {}), 0)) == []
    assert switch.counters.drops == {"malformed": 2}
    assert len(send(switch, pairs(job, 0, {}, bits=24))) == 1


def test_retransmitted_pairs_are_added_once(switch: Switch, job: Job) -> None:
    again = pairs(job, 0, {1: 1}, is_last=False)
    send(switch, again, again, pairs(job, 0, {}, packet=1), pairs(job, 1, {}))
    assert read_totals(switch, again) == {1: 1}
    assert switch.counters.drops == {"duplicate": 1}


def test_range_0_is_repeated_to_a_client_that_sends_its_last_packet_again(
    switch: Switch, job: Job
) -> None:
    last = pairs(job, 0, {1: 1, 2: 2})
    answer = answer_to(switch, last, pairs(job, 1, {7: 1}))
    assert told(switch, last) == replace(answer, client=0)
    assert switch.counters.repeated == 1


def test_reading_is_no_repetition(switch: Switch, job: Job) -> None:
    sent = [pairs(job, i, {0: 1}) for i in (0, 1)]
    send(switch, *sent, *(reading(each, 0) for each in sent))
    assert (switch.counters.packets_out, switch.counters.repeated) == (3, 0)


def test_pairs_that_overtook_an_earlier_packet_are_dropped_as_busy(
    switch: Switch, job: Job
) -> None:
    assert send(switch, pairs(job, 0, {1: 1}, packet=1)) == []
    assert switch.counters.drops == {"busy": 1}


def test_pairs_after_the_last_packet_are_malformed(switch: Switch, job: Job) -> None:
    assert send(switch, pairs(job, 0, {1: 1}), pairs(job, 0, {1: 1}, packet=1)) == []
    assert switch.counters.drops == {"malformed": 1}


def test_an_address_beyond_the_size_is_malformed(switch: Switch, job: Job) -> None:
    assert send(switch, pairs(job, 0, {16: 1})) == []
    assert switch.counters.drops == {"malformed": 1}


def test_narrow_pairs_are_added_and_answered_as_narrow(
    switch: Switch, job: Job
) -> None:
    # Four bits tell 16 addresses apart; with three of a level, 18 pairs fit a packet.
    sent = [
        pairs(job, i, dict.fromkeys(range(8), i - 2), bits=3, is_narrow=True)
        for i in (0, 1)
    ]
    assert [len(each.body) for each in sent] == [7, 7]
    ((_, answer),) = send(switch, *sent)
    assert (answer.bits, len(answer.body)) == (3, 7)
    assert answer.flags == Flag.ANSWER | Flag.NARROW
    assert indexed_totals([answer]) == dict.fromkeys(range(8), -3)


@pytest.mark.parametrize("bits", [0, 33])
def test_a_level_of_no_or_too_many_bits_is_malformed(
    switch: Switch, job: Job, bits: int
) -> None:
    assert send(switch, replace(pairs(job, 0, {}), bits=bits)) == []
    assert switch.counters.drops == {"malformed": 1}


def test_one_address_has_an_index_of_one_bit(switch: Switch, job: Job) -> None:
    sent = [pairs(job, i, {0: 1}, size=1, bits=3, is_narrow=True) for i in (0, 1)]
    assert [len(each.body) for each in sent] == [1, 1]
    answers = send(switch, *sent)
    assert indexed_totals(each for _, each in answers) == {0: 2}
    stray = replace(sent[0], exchange=1, body=b"\x03")
    assert send(switch, stray) == []
    assert switch.counters.drops == {"malformed": 1}


def test_the_largest_size_fits_and_one_more_does_not(switch: Switch, job: Job) -> None:
    size = job.layout.indexed_capacity
    assert send(switch, pairs(job, 0, {size: 1}, size=size + 1)) == []
    assert switch.counters.drops == {"registers": 1}
    sent = [pairs(job, i, {size - 1: 1}, size=size) for i in (0, 1)]
    send(switch, *sent)
    assert read_totals(switch, sent[0]) == {size - 1: 2}


def test_an_indexed_sum_takes_both_halves_and_gives_them_back(
    switch: Switch, job: Job
) -> None:
    for exchange in range(0, 6, 2):
        send(switch, *(lanes(job, i, [9], exchange=exchange) for i in (0, 1)))
        size = job.layout.indexed_capacity
        packets = (
            pairs(job, i, {0: 1}, size=size, exchange=exchange + 1) for i in (0, 1)
        )
        answers = send(switch, *packets)
        assert indexed_totals(each for _, each in answers) == {0: 2}


def test_packets_dropped_at_the_start_take_no_registers(
    switch: Switch, job: Job
) -> None:
    early = pairs(job, 0, {1: 1}, packet=1)
    send(switch, early)
    once = switch.counters.register_bytes
    send(switch, *[early] * 200)
    assert switch.counters.register_bytes == once <= switch.register_bytes
