from dataclasses import replace

import pytest

from fediac.switch.job import Job
from fediac.switch.pipeline import Switch
from fediac.wire.header import EVERYONE, Flag, Kind
from tests.packets import answer_to, gia, lanes, peak, send, totals, votes


def test_nothing_is_answered_before_every_client_voted(
    switch: Switch, job: Job
) -> None:
    assert send(switch, votes(job, 0, "1"), votes(job, 2, "1")) == []


def test_the_answer_goes_to_everyone(switch: Switch, job: Job) -> None:
    ((to, answer),) = send(
        switch, *(votes(job, i, "101", threshold=3) for i in range(3))
    )
    assert (to, answer.client) == (EVERYONE, EVERYONE)
    assert answer.flags == Flag.ANSWER
    assert (gia(answer), answer.count) == ("101", 3)


def test_retransmitted_vote_is_counted_once(switch: Switch, job: Job) -> None:
    again = votes(job, 0, "1", threshold=2)
    assert len(send(switch, again, again, again)) == 2
    others = (votes(job, i, "0", threshold=2) for i in (1, 2))
    assert gia(answer_to(switch, *others)) == "0"
    assert switch.counters.drops == {"duplicate": 2}


def test_retransmitted_levels_are_added_once(switch: Switch, job: Job) -> None:
    again = lanes(job, 0, [7])
    assert len(send(switch, again, again)) == 1
    assert totals(answer_to(switch, lanes(job, 1, [1]), lanes(job, 2, [2]))) == [10]


def test_full_slot_repeats_its_answer_to_the_client_that_lost_it(
    switch: Switch, job: Job
) -> None:
    first = answer_to(switch, *(lanes(job, i, [i]) for i in range(3)))
    assert send(switch, lanes(job, 1, [1])) == [(1, replace(first, client=1))]
    assert switch.counters.repeated == 1


def test_peak_and_width_of_a_tally_are_the_largest_of_all(
    switch: Switch, job: Job
) -> None:
    told = [(5, 9), (8, 7), (6, 11)]
    answer = answer_to(
        switch,
        *(
            votes(job, i, "1", peak=top, bits=bits)
            for i, (top, bits) in enumerate(told)
        ),
    )
    assert (answer.aux, answer.bits) == (8, 11)


def test_largest_peak_comes_back(switch: Switch, job: Job) -> None:
    answer = answer_to(
        switch, *(peak(job, i, top) for i, top in enumerate((3, 0x7F7FFFFF, 7)))
    )
    assert (answer.kind, answer.aux, answer.body) == (Kind.MAX, 0x7F7FFFFF, b"")


@pytest.mark.parametrize("aux", [0x7F800000, 0x7FC00000, 0x80000001, 0xFFFFFFFF])
def test_a_peak_that_is_no_finite_number_is_malformed(
    switch: Switch, job: Job, aux: int
) -> None:
    ballot = replace(votes(job, 1, "1", threshold=1), aux=aux)
    assert send(switch, peak(job, 0, aux), ballot) == []
    assert switch.counters.drops == {"malformed": 2}


def test_a_wish_wider_than_a_lane_is_malformed(switch: Switch, job: Job) -> None:
    for bits in (33, 200, 255):
        assert send(switch, replace(votes(job, 0, "1", threshold=1), bits=bits)) == []
    assert switch.counters.drops == {"malformed": 3}


def test_a_packet_ahead_of_the_window_is_dropped_as_busy(
    switch: Switch, job: Job
) -> None:
    n_slots = job.layout.n_slots(Kind.SUM)
    assert send(switch, lanes(job, 0, [1]), lanes(job, 0, [1], packet=n_slots)) == []
    assert switch.counters.drops == {"busy": 1}


def test_a_complete_slot_is_reused(switch: Switch, job: Job) -> None:
    n_slots = job.layout.n_slots(Kind.SUM)
    for packet in (0, n_slots, 2 * n_slots):
        values = (lanes(job, i, [packet % 7 + i], packet=packet) for i in range(3))
        assert totals(answer_to(switch, *values)) == [3 * (packet % 7) + 3]


def test_a_packet_of_a_reused_slot_is_stale(switch: Switch, job: Job) -> None:
    n_slots = job.layout.n_slots(Kind.SUM)
    answer_to(switch, *(lanes(job, i, [1]) for i in range(3)))
    send(switch, lanes(job, 0, [1], packet=n_slots), lanes(job, 1, [1], packet=0))
    assert switch.counters.drops == {"stale": 1}


def test_the_last_exchange_is_repeated_while_the_next_one_runs(
    switch: Switch, job: Job
) -> None:
    first = answer_to(switch, *(votes(job, i, "11") for i in range(3)))
    send(switch, lanes(job, 0, [1], exchange=1))
    assert send(switch, votes(job, 2, "11")) == [(2, replace(first, client=2))]


def test_the_last_exchange_but_one_is_stale(switch: Switch, job: Job) -> None:
    for exchange in range(3):
        answer_to(switch, *(lanes(job, i, [1], exchange=exchange) for i in range(3)))
    assert send(switch, lanes(job, 0, [1], exchange=0)) == []
    assert switch.counters.drops == {"stale": 1}


def test_an_exchange_further_on_than_the_next_pushes_nothing_aside(
    switch: Switch, job: Job
) -> None:
    send(switch, lanes(job, 0, [1]), lanes(job, 1, [1]))
    for exchange in (2, 9, 65535):
        assert send(switch, lanes(job, 0, [1], exchange=exchange)) == []
        assert send(switch, peak(job, 0, 7, exchange=exchange)) == []
    assert switch.counters.drops == {"busy": 6}
    assert totals(answer_to(switch, lanes(job, 2, [1]))) == [3]


@pytest.mark.parametrize("number", [1, 2, 2**31, 2**31 + 2**30])
def test_a_packet_further_on_than_its_slot_s_next_pushes_nothing_aside(
    switch: Switch, job: Job, number: int
) -> None:
    n_slots = job.layout.n_slots(Kind.SUM)
    ahead = lanes(job, 0, [1], packet=number // n_slots * n_slots + n_slots)
    assert send(switch, ahead) == []
    assert switch.counters.drops == {"busy": 1}
    for packet in (0, n_slots, 2 * n_slots):
        each = (lanes(job, i, [2], packet=packet) for i in range(3))
        assert totals(answer_to(switch, *each)) == [6]


def test_a_packet_two_turns_on_takes_no_slot_of_an_exchange_that_runs(
    switch: Switch, job: Job
) -> None:
    n_slots = job.layout.n_slots(Kind.SUM)
    first = [lanes(job, i, [2], packet=0) for i in range(3)]
    send(switch, *first)
    for number in (2 * n_slots, 3 * n_slots, n_slots + 1):
        assert send(switch, lanes(job, 0, [1], packet=number)) == []
    assert switch.counters.drops == {"busy": 3}
    ((to, repeated),) = send(switch, first[0])
    assert (to, totals(repeated)) == (0, [6])
    following = (lanes(job, i, [4], packet=n_slots) for i in range(3))
    assert totals(answer_to(switch, *following)) == [12]


def test_the_last_two_peaks_are_repeated_and_older_ones_are_stale(
    switch: Switch, job: Job
) -> None:
    for exchange in range(3):
        answer_to(switch, *(peak(job, i, 7, exchange=exchange) for i in range(3)))
    assert len(send(switch, peak(job, 0, 7, exchange=2))) == 1
    assert len(send(switch, peak(job, 0, 7, exchange=1))) == 1
    assert send(switch, peak(job, 0, 7, exchange=0)) == []
    assert switch.counters.drops == {"stale": 1}


def test_peaks_leave_the_halves_alone(switch: Switch, job: Job) -> None:
    first = answer_to(switch, *(lanes(job, i, [1]) for i in range(3)))
    for exchange in (1, 2, 3):
        answer_to(switch, *(peak(job, i, 7, exchange=exchange) for i in range(3)))
    assert send(switch, lanes(job, 0, [1])) == [(0, replace(first, client=0))]


def test_a_tally_too_wide_for_a_half_is_dropped() -> None:
    switch = Switch(64 + 2 * (24 + 128) + 2 * (24 + 128 + 16), payload_bytes=16)
    job = switch.open(1024)
    send(switch, votes(job, 0, "1", threshold=1024))
    assert switch.counters.drops == {"registers": 1}
    assert len(send(switch, lanes(job, 0, [1]))) == 0
    assert switch.counters.drops == {"registers": 1}
