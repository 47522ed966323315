"""A missing client (k of n): a slot closes without it and says so."""

from dataclasses import replace

import pytest

from fediac.switch.job import Job
from fediac.switch.pipeline import Switch
from fediac.wire.header import Flag
from tests.packets import answer_to, gia, lanes, peak, send, totals, votes


@pytest.fixture
def job(switch: Switch) -> Job:
    """Eleven clients, of which 0, 2 and 9 take part; two of them suffice."""
    return switch.open(11, present=0b010_0000_0101, quorum=2)


def test_a_quorum_completes_a_sum_and_names_who_was_counted(
    switch: Switch, job: Job
) -> None:
    answer = answer_to(switch, lanes(job, 9, [5]), lanes(job, 0, [6]))
    assert answer.flags == Flag.ANSWER | Flag.PARTIAL
    assert answer.count == 2
    assert (answer.body[:1], answer.body[1:]) == (b"\x0b", b"\x01\x02")


def test_a_quorum_completes_a_tally(switch: Switch, job: Job) -> None:
    packets = (votes(job, i, "10", threshold=2) for i in (2, 0))
    answer = answer_to(switch, *packets)
    assert (gia(answer), answer.body[1:]) == ("10", b"\x05\x00")


def test_a_quorum_completes_a_maximum(switch: Switch, job: Job) -> None:
    answer = answer_to(switch, peak(job, 2, 3), peak(job, 9, 4))
    assert (answer.aux, answer.body) == (4, b"\x04\x02")


def test_a_late_client_gets_the_answer_but_is_not_counted(
    switch: Switch, job: Job
) -> None:
    answer = answer_to(switch, lanes(job, 9, [5]), lanes(job, 0, [6]))
    assert send(switch, lanes(job, 2, [7])) == [(2, replace(answer, client=2))]
    assert switch.counters.drops == {"late": 1}


def test_the_answer_stays_the_same_after_a_late_client(
    switch: Switch, job: Job
) -> None:
    answer = answer_to(switch, lanes(job, 9, [5]), lanes(job, 0, [6]))
    send(switch, lanes(job, 2, [7]))
    assert send(switch, lanes(job, 0, [6])) == [(0, replace(answer, client=0))]


def test_a_duplicate_does_not_fill_the_quorum(switch: Switch, job: Job) -> None:
    assert send(switch, lanes(job, 9, [5]), lanes(job, 9, [5])) == []


def test_a_client_that_is_absent_is_a_stranger(switch: Switch, job: Job) -> None:
    assert send(switch, *(lanes(job, i, [5]) for i in (1, 10, 11, 1024, 65535))) == []
    assert switch.counters.drops == {"stranger": 5}


def test_an_answer_of_all_present_clients_is_not_partial(switch: Switch) -> None:
    job = switch.open(11, present=0b101)
    answer = answer_to(switch, lanes(job, 0, [1]), lanes(job, 2, [1]))
    assert (answer.flags, totals(answer)) == (Flag.ANSWER, [2])


def test_the_longest_answer_holds_the_bitmap_of_1024_clients() -> None:
    switch = Switch(1 << 14, payload_bytes=16)
    job = switch.open(1024, quorum=1)
    answer = answer_to(switch, lanes(job, 1023, [9] * 16))
    assert answer.body == bytes([9] * 16) + bytes(127) + b"\x80"
