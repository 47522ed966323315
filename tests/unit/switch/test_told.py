"""What the switch tells a client whose packet it drops: wait, or what contradicts."""

from dataclasses import replace
from typing import Any

import pytest

from fediac.switch.job import Job
from fediac.switch.pipeline import Switch
from fediac.wire.header import Flag, Kind, Reason
from fediac.wire.packet import Packet, encode
from tests.packets import announce, block, lanes, pairs, peak, send, told, votes


def test_who_repeats_too_early_is_told_how_many_are_in(
    switch: Switch, job: Job
) -> None:
    sent = [lanes(job, i, [1], packet=1) for i in (0, 1)]
    assert send(switch, *sent) == []
    wait = told(switch, sent[0])
    assert (wait.kind, wait.flags, wait.count) == (Kind.WAIT, Flag.ANSWER, 2)
    assert (wait.session, wait.exchange, wait.packet) == (job.session, 0, 1)
    assert switch.counters.drops == {"duplicate": 1}


@pytest.mark.parametrize("n_in", [1, 2])
@pytest.mark.parametrize("kind", ["votes", "peak", "announcement", "block", "pairs"])
def test_all_exchanges_tell_how_many_are_in(
    switch: Switch, job: Job, kind: str, n_in: int
) -> None:
    ways: dict[str, Any] = {
        "votes": lambda i: votes(job, i, "1", exchange=0),
        "peak": lambda i: peak(job, i, 7),
        "announcement": lambda i: announce(job, i, 2),
        "block": lambda i: block(job, i, 2, [1]),
        "pairs": lambda i: pairs(job, i, {1: 1}),
    }
    if kind == "block":
        send(switch, *(announce(job, i, 2) for i in range(3)))
    assert send(switch, *(ways[kind](i) for i in range(n_in))) == []
    wait = told(switch, ways[kind](0))
    assert (wait.kind, wait.count) == (Kind.WAIT, n_in)


def test_nobody_is_told_more_than_was_sent(switch: Switch, job: Job) -> None:
    first = lanes(job, 0, [1])
    send(switch, first)
    for packet in (first, lanes(job, 1, [1, 2]), votes(job, 1, "1")):
        answer = told(switch, packet)
        assert len(encode(answer)) <= len(encode(packet))


def error(reason: Reason, n_items: int, aux: int = 0) -> tuple[object, ...]:
    return Kind.ERROR, Flag.ANSWER, reason, n_items, aux


def fields(answer: Packet) -> tuple[object, ...]:
    return answer.kind, answer.flags, answer.part, answer.n_items, answer.aux


def test_a_threshold_that_differs_is_told_the_one_that_holds(
    switch: Switch, job: Job
) -> None:
    send(switch, votes(job, 0, "1", threshold=2))
    for threshold in (1, 3):  # as many planes as two votes take, or others
        answer = told(switch, votes(job, 1, "1", threshold=threshold))
        assert fields(answer) == error(Reason.SETTINGS, Kind.TALLY, 2)
    assert switch.counters.drops == {"mismatch": 2}


def test_a_threshold_holds_for_all_packets_of_an_exchange(
    switch: Switch, job: Job
) -> None:
    send(switch, votes(job, 0, "1", threshold=2))
    answer = told(switch, votes(job, 1, "1", threshold=3, packet=1))
    assert fields(answer) == error(Reason.SETTINGS, Kind.TALLY, 2)


@pytest.mark.parametrize(
    ("bits", "bits_down"), [(4, 9), (5, 8), (8, 8), (4, 4), (3, 12)]
)
def test_widths_that_differ_are_told_those_that_hold(
    switch: Switch, job: Job, bits: int, bits_down: int
) -> None:
    send(switch, lanes(job, 0, [1] * 8, bits=4, bits_down=8))
    answer = told(switch, lanes(job, 1, [1] * 8, bits=bits, bits_down=bits_down))
    assert fields(answer) == error(Reason.SETTINGS, Kind.SUM, 4 << 8 | 8)
    assert switch.counters.drops == {"mismatch": 1}


def test_a_kind_that_differs_is_told_the_one_that_runs(
    switch: Switch, job: Job
) -> None:
    send(switch, lanes(job, 0, [1]))
    answer = told(switch, votes(job, 1, "1"))
    assert fields(answer) == error(Reason.SETTINGS, Kind.SUM, 8 << 8 | 8)


def test_a_length_that_differs_is_told_the_one_that_holds(
    switch: Switch, job: Job
) -> None:
    send(switch, lanes(job, 0, [1, 2]))
    answer = told(switch, lanes(job, 1, [1, 2, 3]))
    assert fields(answer) == error(Reason.ITEMS, 2)


def test_a_block_s_length_that_differs_is_told_the_one_that_holds(
    switch: Switch, job: Job
) -> None:
    send(switch, *(announce(job, i, 1) for i in range(3)))
    answer = told(switch, block(job, 0, 1, [5, 6]), block(job, 1, 1, [5]))
    assert fields(answer) == error(Reason.ITEMS, 2)


def test_sizes_of_indexed_sums_must_agree(switch: Switch, job: Job) -> None:
    send(switch, pairs(job, 0, {1: 1}))
    # 15 and 16 addresses take the same registers, 17 take more.
    for size in (15, 17, 1 << 20):
        answer = told(switch, pairs(job, 1, {1: 1}, size=size))
        assert fields(answer) == error(Reason.ITEMS, 0, 16)


@pytest.mark.parametrize("other", [{"bits": 9}, {"is_narrow": True}])
def test_widths_of_pairs_must_agree(
    switch: Switch, job: Job, other: dict[str, Any]
) -> None:
    send(switch, pairs(job, 0, {1: 1}, bits=8))
    answer = told(switch, pairs(job, 1, {1: 1}, **{"bits": 8} | other))
    assert fields(answer) == error(Reason.SETTINGS, Kind.INDEXED_SUM, 8)


@pytest.mark.parametrize("kind", [Kind.WAIT, Kind.ERROR])
def test_what_the_switch_tells_is_foreign_when_it_comes_in(
    switch: Switch, job: Job, kind: Kind
) -> None:
    assert send(switch, replace(peak(job, 0, 7), kind=kind)) == []
    assert switch.counters.drops == {"foreign": 1}
