"""Tallies, sums and maxima from the side of one member."""

from dataclasses import replace

import numpy as np
import pytest

from fediac.core.exchange import Consensus, Max, Peak, Sum, Tally, Totals
from fediac.sessions.aligned import (
    MaxQuestion,
    SumQuestion,
    TallyQuestion,
    half_of,
)
from fediac.sessions.questions import Place
from fediac.switch.registers import Layout
from fediac.wire.header import EVERYONE, Flag, Kind
from fediac.wire.packet import Packet
from tests.unit.sessions.rooms import new_keys

LAYOUT = Layout(3, 64, 2048)
DIM = 20 * 512 + 9
"""Twenty full packets of votes, and nine in the last one."""


def place(*, is_observer: bool = False) -> Place:
    return Place(100, 2 if is_observer else 1, 4, LAYOUT, is_observer)


def tally() -> Tally:
    votes = np.arange(-(-DIM // 8), dtype=np.uint8)
    return Tally(votes, DIM, threshold=2, peak=1.5, bits=7)


def asked_sum(n_levels: int = 200) -> Sum:
    lanes = np.arange(n_levels // 2, dtype=np.uint8)
    return Sum(lanes, n_levels, bits_up=4, bits_down=8, limit=7)


def answer_to(packet: Packet, **fields: object) -> Packet:
    told = replace(packet, client=EVERYONE, flags=Flag.ANSWER, threshold=0, count=2)
    return replace(told, **fields)  # type: ignore[arg-type]


def test_a_window_is_half_of_the_slots_from_the_first_without_an_answer() -> None:
    question = TallyQuestion(place(), tally())
    n_slots = LAYOUT.n_slots(Kind.TALLY, 2)
    half = n_slots // 2
    assert new_keys(question) == list(range(half))
    question.take(answer_to(question.packet(1)))
    assert new_keys(question) == []
    question.take(answer_to(question.packet(0)))
    assert new_keys(question) == [half, half + 1]


@pytest.mark.parametrize(("n_slots", "window"), [(2, 1), (3, 1), (4, 2), (9, 4)])
def test_half_of_the_slots_is_rounded_down(n_slots: int, window: int) -> None:
    assert half_of(n_slots) == window


def test_packets_hold_the_votes_in_order() -> None:
    asked = tally()
    question = TallyQuestion(place(), asked)
    packets = [question.packet(i) for i in range(21)]
    assert b"".join(each.body for each in packets) == asked.votes.tobytes()
    assert [each.n_items for each in packets] == [512] * 20 + [9]
    assert {(each.threshold, each.bits, each.client) for each in packets} == {(2, 7, 1)}


def test_an_observer_s_packets_add_nothing() -> None:
    question = TallyQuestion(place(is_observer=True), tally())
    packet = question.packet(3)
    assert (packet.n_items, packet.body, packet.aux, packet.bits) == (0, b"", 0, 0)
    assert Flag.OBSERVE in packet.flags
    observed = SumQuestion(place(is_observer=True), asked_sum()).packet(0)
    assert (observed.n_items, observed.body) == (0, b"")


def test_a_tally_s_answer_is_gathered_in_the_order_of_packets() -> None:
    asked = tally()
    question = TallyQuestion(place(), asked)
    other = TallyQuestion(place(is_observer=True), asked)
    n_taken = 0
    while not question.is_done:
        for key in reversed(new_keys(question)):
            told = answer_to(question.packet(key), aux=0x40000000, bits=9)
            question.take(told)
            other.take(told)
            n_taken += 1
    assert n_taken == 21
    answer = question.answer()
    assert isinstance(answer, Consensus)
    assert answer.gia.tobytes() == asked.votes.tobytes()
    assert (answer.peak, answer.bits) == (2.0, 9)
    observed = other.answer()
    assert isinstance(observed, Consensus)
    assert observed.gia.tobytes() == answer.gia.tobytes()


def test_a_wide_sum_is_done_when_all_parts_are_there() -> None:
    question = SumQuestion(place(), asked_sum())
    # 128 lanes of 4 bits fill a packet; their sums of 8 bits take two.
    assert [question.packet(i).n_items for i in (0, 1)] == [128, 72]
    whole = answer_to(question.packet(0), n_items=64, bits=8, body=bytes(range(64)))
    last = answer_to(question.packet(1), n_items=64, bits=8, body=bytes(64))
    assert list(question.take(replace(whole, part=1))) == []
    assert list(question.take(whole)) == [0]
    assert list(question.take(whole)) == []
    assert question.say_missing() == "1 of 2 packets (first: 1)"
    question.take(last)
    assert list(question.take(replace(last, part=1, n_items=8, body=bytes(8)))) == [1]
    assert question.is_done
    answer = question.answer()
    assert isinstance(answer, Totals)
    assert answer.lanes.tobytes() == bytes(range(64)) * 2 + bytes(72)
    assert (answer.n_levels, answer.bits, answer.n_clients) == (200, 8, 2)


@pytest.mark.parametrize(
    "wrong",
    [
        {"packet": 99},
        {"part": 2},
        {"n_items": 63},
        {"n_items": 64, "body": bytes(63)},
    ],
)
def test_an_answer_that_does_not_fit_changes_nothing(wrong: dict[str, object]) -> None:
    question = SumQuestion(place(), asked_sum())
    right = answer_to(question.packet(0), n_items=64, bits=8, body=bytes(64))
    told = replace(right, **wrong)  # type: ignore[arg-type]
    assert list(question.take(told)) == []
    assert question.say_missing() == "2 of 2 packets (first: 0)"
    assert not question.packed.any()


def test_a_maximum_is_one_packet_and_one_answer() -> None:
    question = MaxQuestion.of(place(), Max(1.5))
    assert new_keys(question) == [0]
    packet = question.packet(0)
    assert (packet.kind, packet.aux, packet.body) == (Kind.MAX, 0x3FC00000, b"")
    assert question.say_missing() == "1 of 1 packets (first: 0)"
    assert list(question.take(answer_to(packet, aux=0x40000000))) == [0]
    assert question.is_done
    assert new_keys(question) == []
    assert question.answer() == Peak(2.0)


def test_an_observer_knows_no_peak() -> None:
    assert MaxQuestion(place(is_observer=True), 1.5).packet(0).aux == 0


def test_a_wait_is_about_the_packet_that_it_names() -> None:
    told = Packet(Kind.WAIT, 100, 4, 1, packet=3, count=1, flags=Flag.ANSWER)
    question, peak = TallyQuestion(place(), tally()), MaxQuestion(place(), 1.0)
    assert list(question.counted(told)) == [3]
    assert list(peak.counted(replace(told, packet=0))) == [0]
    for each in (question, peak):
        assert list(each.missing(told)) == []
        assert each.awaited() is None
        assert each.overdue() is None
