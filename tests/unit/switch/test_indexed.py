from dataclasses import replace

import pytest

from fediac.switch.job import Job
from fediac.switch.pipeline import Switch
from fediac.wire.header import EVERYONE, Flag
from tests.packets import indexed_totals, lanes, pairs, send


@pytest.fixture
def job(switch: Switch) -> Job:
    """Two clients."""
    return switch.open(2)


def test_totals_of_every_touched_address_come_back_in_order(
    switch: Switch, job: Job
) -> None:
    send(switch, pairs(job, 0, {9: 5, 2: -7}))
    ((to, answer),) = send(switch, pairs(job, 1, {2: 3}))
    assert (to, answer.flags) == (EVERYONE, Flag.ANSWER | Flag.LAST)
    assert list(indexed_totals([answer]).items()) == [(2, -4), (9, 5)]


def test_an_address_whose_levels_cancel_was_touched_all_the_same(
    switch: Switch, job: Job
) -> None:
    answers = send(switch, pairs(job, 0, {3: 4}), pairs(job, 1, {3: -4}))
    assert indexed_totals(each for _, each in answers) == {3: 0}


def test_an_address_twice_in_a_packet_counts_twice(switch: Switch, job: Job) -> None:
    twice = replace(
        pairs(job, 0, {3: 4}), n_items=2, body=2 * pairs(job, 0, {3: 4}).body
    )
    answers = send(switch, twice, pairs(job, 1, {}))
    assert indexed_totals(each for _, each in answers) == {3: 8}


def test_totals_wrap_in_32_bits(switch: Switch, job: Job) -> None:
    top = 2**31 - 1
    answers = send(switch, pairs(job, 0, {3: top}), pairs(job, 1, {3: 1}))
    assert indexed_totals(each for _, each in answers) == {3: -(2**31)}


def test_the_answer_waits_for_the_last_packet_of_everyone(
    switch: Switch, job: Job
) -> None:
    packets = [pairs(job, 0, {1: 1}), pairs(job, 1, {1: 1}, is_last=False)]
    assert send(switch, *packets) == []
    assert len(send(switch, pairs(job, 1, {}, packet=1))) == 1


def test_a_long_answer_takes_several_packets_and_flags_the_last(
    switch: Switch, job: Job
) -> None:
    sent = [pairs(job, 0, {0: 1, 1: 1}, is_last=False), pairs(job, 0, {5: 1}, packet=1)]
    answers = [each for _, each in send(switch, *sent, pairs(job, 1, {9: 1, 15: 1}))]
    assert [each.packet for each in answers] == [0, 1, 2]
    assert [each.n_items for each in answers] == [2, 2, 1]
    assert [Flag.LAST in each.flags for each in answers] == [False, False, True]
    assert list(indexed_totals(answers)) == [0, 1, 5, 9, 15]


def test_nothing_touched_is_answered_by_one_empty_packet(
    switch: Switch, job: Job
) -> None:
    ((_, answer),) = send(switch, pairs(job, 0, {}), pairs(job, 1, {}))
    assert (answer.n_items, answer.body) == (0, b"")
    assert Flag.LAST in answer.flags


def test_a_payload_too_short_for_a_pair_is_answered_too() -> None:
    switch = Switch(4096, payload_bytes=7)
    job = switch.open(1)
    ((_, answer),) = send(switch, pairs(job, 0, {}))
    assert (answer.n_items, answer.body) == (0, b"")


def test_retransmitted_pairs_are_added_once(switch: Switch, job: Job) -> None:
    again = pairs(job, 0, {1: 1}, is_last=False)
    send(switch, again, again, pairs(job, 0, {}, packet=1))
    answers = send(switch, pairs(job, 1, {}))
    assert indexed_totals(each for _, each in answers) == {1: 1}
    assert switch.counters.drops == {"duplicate": 1}


def test_the_answer_is_repeated_to_a_client_that_sends_its_last_packet_again(
    switch: Switch, job: Job
) -> None:
    last = pairs(job, 0, {1: 1, 2: 2})
    answers = send(switch, last, pairs(job, 1, {7: 1}))
    assert send(switch, last) == [(0, replace(each, client=0)) for _, each in answers]


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
    # Four bits tell 16 addresses apart; with three of a level, eight pairs end a byte.
    sent = [
        pairs(job, i, dict.fromkeys(range(8), i - 2), bits=3, is_narrow=True)
        for i in (0, 1)
    ]
    assert [len(each.body) for each in sent] == [7, 7]
    ((_, answer),) = send(switch, *sent)
    assert (answer.bits, len(answer.body)) == (3, 7)
    assert answer.flags == Flag.ANSWER | Flag.LAST | Flag.NARROW
    assert indexed_totals([answer]) == dict.fromkeys(range(8), -3)


def test_a_narrow_answer_fills_packets_to_whole_bytes() -> None:
    # 120 bits hold 17 pairs of 7 bits, but 16 of them end where a byte does.
    switch = Switch(4096, payload_bytes=15)
    job = switch.open(1)
    first, second = (
        pairs(
            job,
            0,
            dict.fromkeys(range(8 * i, 8 * i + 8), 1),
            bits=3,
            packet=i,
            is_narrow=True,
            is_last=bool(i),
        )
        for i in (0, 1)
    )
    ((_, one),) = send(switch, first, second)
    assert (one.n_items, len(one.body)) == (16, 14)
    assert indexed_totals([one]) == dict.fromkeys(range(16), 1)


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
    answers = send(switch, *(pairs(job, i, {size - 1: 1}, size=size) for i in (0, 1)))
    assert indexed_totals(each for _, each in answers) == {size - 1: 2}


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
