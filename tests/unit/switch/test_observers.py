"""Observers add nothing, and get every answer."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from fediac.switch.job import Job
from fediac.switch.pipeline import Switch
from fediac.wire.header import Flag, Kind
from fediac.wire.packet import Packet
from tests.packets import (
    announce,
    answer_to,
    block,
    gia,
    indexed_totals,
    lanes,
    levels,
    observed,
    pairs,
    peak,
    reading,
    send,
    told,
    totals,
    votes,
)
from tests.support import refuses

OBSERVER = 3


@pytest.fixture
def job(switch: Switch) -> Job:
    """Three clients and an observer."""
    return switch.open(3, n_observers=1)


@pytest.mark.parametrize("place", range(4))
def test_an_answer_waits_for_the_observer_and_does_not_count_it(
    switch: Switch, job: Job, place: int
) -> None:
    sent = [lanes(job, i, [i, 5]) for i in range(3)]
    sent.insert(place, observed(sent[0], OBSERVER))
    assert send(switch, *sent[:3]) == []
    answer = answer_to(switch, sent[3])
    assert (totals(answer), answer.count, answer.n_items) == ([3, 15], 3, 2)


@pytest.mark.parametrize("place", range(4))
def test_an_observer_changes_no_tally(switch: Switch, job: Job, place: int) -> None:
    sent = [votes(job, i, "110", threshold=3, peak=i, bits=7 + i) for i in range(3)]
    sent.insert(place, observed(sent[0], OBSERVER))
    answer = answer_to(switch, *sent)
    assert (gia(answer), answer.aux, answer.bits, answer.count) == ("110", 2, 9, 3)


def test_an_observer_changes_no_maximum(switch: Switch, job: Job) -> None:
    sent = [observed(peak(job, 0, 0), OBSERVER), *(peak(job, i, i) for i in range(3))]
    answer = answer_to(switch, *sent)
    assert (answer.aux, answer.count) == (2, 3)


def test_an_observer_changes_no_block_sum(switch: Switch, job: Job) -> None:
    nothing = observed(announce(job, 0), OBSERVER)
    answers = send(switch, nothing, *(announce(job, i, 0) for i in range(3)))
    assert answers == []
    answer = answer_to(switch, *(block(job, i, 0, [i, 1]) for i in range(3)))
    assert (levels(answer), answer.count) == ([3, 3], 3)


def test_an_observer_changes_no_indexed_sum(switch: Switch, job: Job) -> None:
    sent = [pairs(job, i, {2: i + 1}) for i in range(3)]
    watching = observed(sent[0], OBSERVER)
    answer = answer_to(switch, watching, *sent)
    assert (indexed_totals([answer]), answer.count) == ({}, 3)
    answer = told(switch, observed(reading(sent[0], 1), OBSERVER))
    assert (indexed_totals([answer]), answer.count) == ({2: 6}, 3)


def test_an_answer_in_parts_is_whole_although_the_observer_completes_it(
    switch: Switch, job: Job
) -> None:
    sent = [lanes(job, i, [1] * 32, bits=4, bits_down=8) for i in range(3)]
    answers = send(switch, *sent, observed(sent[0], OBSERVER))
    assert [totals(each) for _, each in answers] == [[3] * 16, [3] * 16]


def test_an_observer_is_repeated_what_it_lost_and_told_to_wait(
    switch: Switch, job: Job
) -> None:
    sent = [lanes(job, i, [1]) for i in range(3)]
    empty = observed(sent[0], OBSERVER)
    send(switch, *sent[:2], empty)
    wait = told(switch, empty)
    assert (wait.kind, wait.count) == (Kind.WAIT, 3)
    answer = answer_to(switch, sent[2])
    assert told(switch, empty) == replace(answer, client=OBSERVER)


@pytest.mark.parametrize(
    "change",
    [
        lambda packet: replace(packet, client=0),
        lambda packet: replace(packet, client=OBSERVER, flags=Flag(0)),
        lambda packet: replace(packet, client=4),
    ],
)
def test_only_an_observer_observes_and_it_does_nothing_else(
    switch: Switch, job: Job, change: Callable[[Packet], Packet]
) -> None:
    empty = observed(peak(job, 0, 0), OBSERVER)
    assert send(switch, change(empty)) == []
    assert switch.counters.drops == {"stranger": 1}


@pytest.mark.parametrize(
    "change", [{"n_items": 8, "body": b"\1"}, {"aux": 1}, {"bits": 5}]
)
def test_an_observer_that_adds_something_is_malformed(
    switch: Switch, job: Job, change: dict[str, object]
) -> None:
    empty = observed(votes(job, 0, "1"), OBSERVER)
    packet = replace(empty, **change)  # type: ignore[arg-type] # any field
    assert send(switch, packet) == []
    assert switch.counters.drops == {"malformed": 1}


def test_a_threshold_is_of_those_that_vote(switch: Switch, job: Job) -> None:
    assert send(switch, votes(job, 0, "1", threshold=4)) == []
    assert switch.counters.drops == {"malformed": 1}


def test_observers_are_among_the_most_clients() -> None:
    assert Switch().open(1000, n_observers=24).layout.n_clients == 1024
    for n_observers in (25, -1):
        text = f"n_observers must be in 0..24 beside 1000 clients, got {n_observers}"
        with refuses(text):
            Switch().open(1000, n_observers=n_observers)
