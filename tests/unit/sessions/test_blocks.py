"""Block sums from the side of one member: the chain of answers, and how far ahead."""

from dataclasses import replace

import numpy as np

from fediac.core.exchange import BlockSum, BlockTotals
from fediac.sessions.blocks import BlocksQuestion
from fediac.sessions.questions import Place
from fediac.switch.registers import Layout
from fediac.wire.header import END, EVERYONE, Flag, Kind
from fediac.wire.packet import Packet
from tests.unit.sessions.rooms import new_keys

LENGTH, N_BLOCKS = 16, 40
LAYOUT = Layout(3, 64, 3200, keeps_early=True)
THIRD = (LAYOUT.n_slots(Kind.BLOCK_SUM) + 1) // 3
ANNOUNCEMENT = -1


def ask(*numbers: int, is_observer: bool = False) -> BlocksQuestion:
    levels = np.outer(numbers, np.ones(LENGTH)).astype(np.int32).reshape(-1, LENGTH)
    place = Place(100, 2 if is_observer else 1, 4, LAYOUT, is_observer)
    return BlocksQuestion(place, BlockSum(np.array(numbers), levels, N_BLOCKS))


def answer(number: int, following: int, *, has_items: bool = True) -> Packet:
    body = np.full(LENGTH, 10 * number, dtype="<i4").tobytes() if has_items else b""
    return Packet(
        Kind.BLOCK_SUM,
        100,
        4,
        EVERYONE,
        packet=number,
        aux=following,
        bits=32,
        count=2,
        n_items=len(body) // 4,
        flags=Flag.ANSWER,
        body=body,
    )


def first_is(number: int) -> Packet:
    told = replace(answer(0, number, has_items=False))
    return replace(told, flags=Flag.ANSWER | Flag.ANNOUNCE)


def test_the_slots_are_few_enough_to_matter() -> None:
    assert 1 < THIRD < N_BLOCKS // 3


def test_the_first_block_is_announced_and_sent_if_it_is_near() -> None:
    near, far = ask(0, 30), ask(30)
    assert new_keys(near) == [ANNOUNCEMENT, 0]
    assert near.packet(ANNOUNCEMENT).aux == 0
    # A client never names a block more than a third ahead, though it has none there.
    assert new_keys(far) == [ANNOUNCEMENT]
    assert far.packet(ANNOUNCEMENT).aux == THIRD
    assert Flag.ANNOUNCE in far.packet(ANNOUNCEMENT).flags


def test_blocks_below_a_third_ahead_are_on_their_way() -> None:
    question = ask(*range(N_BLOCKS))
    assert new_keys(question) == [ANNOUNCEMENT, *range(THIRD)]
    assert list(question.take(first_is(0))) == [ANNOUNCEMENT]
    assert new_keys(question) == []
    assert list(question.take(answer(0, 1))) == [0, ANNOUNCEMENT]
    assert new_keys(question) == [THIRD]


def test_each_block_names_the_next_one_and_the_last_one_the_end() -> None:
    question = ask(0, 1, N_BLOCKS - 1)
    question.take(first_is(0))
    new_keys(question)
    assert question.packet(0).aux == 1
    assert question.packet(1).aux == 1 + THIRD
    for number in range(N_BLOCKS - 1):
        question.take(answer(number, number + 1))
        new_keys(question)
    assert question.packet(N_BLOCKS - 1).aux == END
    assert not question.is_done
    question.take(answer(N_BLOCKS - 1, END))
    assert question.is_done
    assert new_keys(question) == []


def test_a_block_of_others_is_asked_for_without_items() -> None:
    question = ask(0, 3)
    question.take(first_is(0))
    new_keys(question)
    assert question.awaited() is None
    question.take(answer(0, 1))
    assert question.awaited() == 1
    packet = question.packet(1)
    assert (packet.n_items, packet.body) == (0, b"")
    assert question.packet(3).n_items == LENGTH


def test_answers_may_come_in_any_order() -> None:
    question = ask(0, 1)
    new_keys(question)
    question.take(answer(1, END))
    assert not question.is_done
    question.take(answer(0, 1))
    assert question.is_done
    totals = question.answer()
    assert isinstance(totals, BlockTotals)
    assert totals.blocks.tolist() == [0, 1]
    assert totals.totals.tolist() == [[0] * LENGTH, [10] * LENGTH]
    assert totals.n_clients == 2


def test_a_block_that_nobody_has_is_not_in_the_answer() -> None:
    question = ask(0)
    question.take(answer(0, 2))
    question.take(answer(2, END, has_items=False))
    totals = question.answer()
    assert isinstance(totals, BlockTotals)
    assert totals.blocks.tolist() == [0]


def test_an_answer_of_another_length_changes_nothing() -> None:
    question = ask(0)
    question.take(replace(answer(0, END), n_items=3, body=bytes(12)))
    assert not question.is_done
    assert question.say_missing() == "the number of the first block"
    question.take(first_is(0))
    assert question.say_missing() == f"blocks from 0 on, of {N_BLOCKS}"


def test_the_first_word_of_where_the_chain_begins_holds() -> None:
    question = ask(5)
    question.take(first_is(5))
    question.take(first_is(9))
    question.take(answer(5, END))
    assert question.is_done


def test_an_observer_follows_the_chain_without_blocks() -> None:
    question = ask(is_observer=True)
    new_keys(question)
    question.take(answer(0, 1))
    packets = [question.packet(key) for key in new_keys(question)]
    packets.append(question.packet(1))
    assert question.awaited() == 1
    assert all(Flag.OBSERVE in each.flags and not each.n_items for each in packets)


def test_a_wait_before_the_first_block_is_about_the_announcement_too() -> None:
    question = ask(0)
    new_keys(question)
    told = Packet(Kind.WAIT, 100, 4, 1, packet=0, flags=Flag.ANSWER)
    assert list(question.counted(told)) == [ANNOUNCEMENT]
    assert list(question.missing(told)) == []


def test_a_wait_tells_what_is_counted_and_what_is_missing() -> None:
    question = ask(0, 2, 3, 5)
    new_keys(question)
    question.take(answer(0, 1))
    new_keys(question)
    told = Packet(Kind.WAIT, 100, 4, 1, packet=5, aux=2, flags=Flag.ANSWER)
    assert list(question.counted(told)) == [ANNOUNCEMENT, 5]
    # What it expects, and what stands right before the block that it has.
    assert list(question.missing(told)) == [2, 3]
    further = replace(told, packet=3, aux=5)
    assert list(question.counted(further)) == [ANNOUNCEMENT, 2, 3]
    assert list(question.missing(further)) == []


def test_three_answers_behind_the_next_one_tell_that_it_is_lost() -> None:
    question = ask(*range(N_BLOCKS))
    new_keys(question)
    question.take(answer(0, 1))
    for number in (2, 3):
        question.take(answer(number, number + 1))
        assert question.overdue() is None
    question.take(answer(3, 4))
    assert question.overdue() is None
    question.take(answer(4, 5))
    assert question.overdue() == 1
    question.take(answer(1, 2))
    assert question.overdue() is None
