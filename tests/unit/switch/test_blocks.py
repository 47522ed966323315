from dataclasses import replace

import pytest

from fediac.switch.job import Job
from fediac.switch.pipeline import Switch
from fediac.wire.header import END, EVERYONE, Flag, Kind
from tests.packets import Sent, announce, block, levels, send


@pytest.fixture
def job(switch: Switch) -> Job:
    """Two clients."""
    return switch.open(2)


@pytest.fixture
def lossy(switch: Switch) -> Job:
    """Two clients over a network."""
    return switch.open(2, keeps_early=True)


def told(answers: list[Sent]) -> list[tuple[int, list[int], int]]:
    """Return number, totals and next number of each answer, all to everyone."""
    assert all(to == EVERYONE for to, _ in answers)
    return [(each.packet, levels(each), each.aux) for _, each in answers]


def start(switch: Switch, job: Job, *first: int) -> list[Sent]:
    return send(switch, *(announce(job, i, each) for i, each in enumerate(first)))


def test_the_first_block_of_all_answers_the_announcements(
    switch: Switch, job: Job
) -> None:
    assert send(switch, announce(job, 0, 7)) == []
    ((to, answer),) = send(switch, announce(job, 1, 4))
    assert (to, answer.flags) == (EVERYONE, Flag.ANSWER | Flag.ANNOUNCE)
    assert (answer.aux, answer.n_items, answer.count) == (4, 0, 2)


def test_announcements_from_block_zero_on_are_answered_by_the_block(
    switch: Switch, job: Job
) -> None:
    assert start(switch, job, 0, 4) == []
    assert told(send(switch, block(job, 0, 0, [5]))) == [(0, [5], 4)]


def test_nobody_has_a_block(switch: Switch, job: Job) -> None:
    ((_, answer),) = start(switch, job, END, END)
    assert answer.aux == END


def test_a_block_is_complete_when_nobody_else_can_have_it(
    switch: Switch, job: Job
) -> None:
    start(switch, job, 1, 3)
    assert told(send(switch, block(job, 0, 1, [5, -6], following=3))) == [
        (1, [5, -6], 3)
    ]


def test_a_block_of_several_clients_is_added(switch: Switch, job: Job) -> None:
    start(switch, job, 3, 3)
    assert send(switch, block(job, 0, 3, [5, -6])) == []
    assert told(send(switch, block(job, 1, 3, [1, 1]))) == [(3, [6, -5], END)]


def test_answers_form_a_chain(switch: Switch, job: Job) -> None:
    start(switch, job, 0, 2)
    ahead = [block(job, 1, 2, [2], following=3), block(job, 1, 3, [3], following=6)]
    assert send(switch, *ahead) == []
    answers = send(switch, block(job, 0, 0, [1], following=5))
    assert told(answers) == [(0, [1], 2), (2, [2], 3), (3, [3], 5)]


def test_blocks_sent_before_everyone_announced_start_the_chain(
    switch: Switch, job: Job
) -> None:
    packets = [
        announce(job, 0, 1),
        block(job, 0, 1, [1], following=2),
        block(job, 0, 2, [2], following=9),
    ]
    assert send(switch, *packets) == []
    (_, first), *rest = send(switch, announce(job, 1, 4))
    assert first.aux == 1
    assert told(rest) == [(1, [1], 2), (2, [2], 4)]


def test_a_block_without_items_adds_nothing(switch: Switch, job: Job) -> None:
    start(switch, job, 3, 3)
    send(switch, block(job, 0, 3, []))
    assert told(send(switch, block(job, 1, 3, [1, 1]))) == [(3, [1, 1], END)]


def test_a_block_that_nobody_has_items_for_is_no_aggregation(
    switch: Switch, job: Job
) -> None:
    start(switch, job, 3, 3)
    packets = (block(job, i, 3, []) for i in (0, 1))
    assert told(send(switch, *packets)) == [(3, [], END)]
    assert switch.counters.aggregations == 0


def test_retransmitted_block_is_added_once(switch: Switch, job: Job) -> None:
    start(switch, job, 3, 3)
    again = block(job, 0, 3, [5])
    assert len(send(switch, again, again)) == 1
    assert switch.counters.drops == {"duplicate": 1}
    assert told(send(switch, block(job, 1, 3, [1]))) == [(3, [6], END)]


def test_a_complete_block_is_repeated_to_a_client_that_had_it(
    switch: Switch, job: Job
) -> None:
    start(switch, job, 1, 3)
    own = block(job, 0, 1, [5], following=3)
    ((_, answer),) = send(switch, own)
    assert send(switch, own) == [(0, replace(answer, client=0))]


def test_a_client_gets_a_block_again_that_it_never_had(
    switch: Switch, job: Job
) -> None:
    start(switch, job, 1, 3)
    ((_, answer),) = send(switch, block(job, 0, 1, [5], following=3))
    question = block(job, 1, 1, [], following=3)
    assert send(switch, question) == [(1, replace(answer, client=1))]


def test_announcing_again_tells_the_first_block_again(switch: Switch, job: Job) -> None:
    ((_, answer),) = start(switch, job, 1, 3)
    send(switch, block(job, 0, 1, [5]))
    assert send(switch, announce(job, 1, 3)) == [(1, replace(answer, client=1))]


def test_announcing_again_is_a_duplicate_while_others_are_missing(
    switch: Switch, job: Job
) -> None:
    assert len(send(switch, announce(job, 0, 1), announce(job, 0, 1))) == 1
    assert switch.counters.drops == {"duplicate": 1}


@pytest.mark.parametrize("is_announced", [True, False])
def test_a_block_that_overtook_an_earlier_packet_is_dropped_as_busy(
    switch: Switch, job: Job, *, is_announced: bool
) -> None:
    if is_announced:
        start(switch, job, 1, 1)
    assert send(switch, block(job, 0, 2, [5])) == []
    assert switch.counters.drops == {"busy": 1}


def test_a_block_ahead_of_all_slots_is_dropped_as_busy(
    switch: Switch, job: Job
) -> None:
    n_slots = job.layout.n_slots(Kind.BLOCK_SUM)
    start(switch, job, 1, n_slots + 1)
    assert send(switch, block(job, 1, n_slots + 1, [5])) == []
    assert switch.counters.drops == {"busy": 1}


def test_the_last_slot_before_the_frontier_comes_round_is_usable(
    switch: Switch, job: Job
) -> None:
    n_slots = job.layout.n_slots(Kind.BLOCK_SUM)
    start(switch, job, 1, n_slots)
    send(switch, block(job, 1, n_slots, [5]))
    assert told(send(switch, block(job, 0, 1, [4]))) == [
        (1, [4], n_slots),
        (n_slots, [5], END),
    ]


def test_a_block_whose_slot_was_reused_is_stale(switch: Switch, job: Job) -> None:
    n_slots = job.layout.n_slots(Kind.BLOCK_SUM)
    start(switch, job, 1, END)
    first = block(job, 0, 1, [5], following=n_slots + 1)
    send(switch, first, block(job, 0, n_slots + 1, [6]))
    assert send(switch, first) == []
    assert switch.counters.drops == {"stale": 1}


def test_a_number_that_no_block_has_is_stale(switch: Switch, job: Job) -> None:
    start(switch, job, 4, END)
    assert send(switch, block(job, 1, 2, [])) == []
    assert switch.counters.drops == {"stale": 1}


def test_the_next_block_must_be_behind_this_one(switch: Switch, job: Job) -> None:
    start(switch, job, 1, 1)
    assert send(switch, block(job, 0, 1, [5], following=1)) == []
    assert switch.counters.drops == {"malformed": 1}


def test_the_largest_block_number_is_usable(switch: Switch, job: Job) -> None:
    start(switch, job, END - 1, END - 1)
    packets = (block(job, i, END - 1, [5]) for i in (0, 1))
    assert told(send(switch, *packets)) == [(END - 1, [10], END)]


def test_a_block_sum_without_room_for_one_block_is_dropped() -> None:
    switch = Switch(64 + 2 * (24 + 128) + 2 * (24 + 128 + 16), payload_bytes=16)
    job = switch.open(1024)
    assert send(switch, announce(job, 0)) == []
    assert switch.counters.drops == {"registers": 1}


def waits(answers: list[Sent]) -> list[tuple[int, int, int, int]]:
    """Return who is told to wait, about which block, how many are in, what is next."""
    assert {each.kind for _, each in answers} <= {Kind.WAIT}
    return [(to, each.packet, each.count, each.aux) for to, each in answers]


def test_an_early_block_is_kept_and_its_client_told_what_is_missing(
    switch: Switch, lossy: Job
) -> None:
    start(switch, lossy, 1, 1)
    first, second = block(lossy, 0, 1, [1], following=2), block(lossy, 0, 2, [5])
    assert waits(send(switch, second)) == [(0, 2, 0, 1)]
    assert switch.counters.drops == {}
    assert send(switch, first) == []
    others = [block(lossy, 1, 1, [1], following=2), block(lossy, 1, 2, [2])]
    assert told(send(switch, *others)) == [(1, [2], 2), (2, [7], END)]


def test_an_early_block_is_added_once(switch: Switch, lossy: Job) -> None:
    start(switch, lossy, 1, END)
    early = block(lossy, 0, 2, [5], following=4)
    assert waits(send(switch, early, early)) == [(0, 2, 1, 1), (0, 2, 1, 1)]
    assert switch.counters.drops == {"duplicate": 1}
    first = block(lossy, 0, 1, [1], following=2)
    assert told(send(switch, first)) == [(1, [1], 2), (2, [5], 4)]
    assert told(send(switch, block(lossy, 0, 4, [6]))) == [(4, [6], END)]


def test_only_the_first_block_behind_a_gap_tells_of_it(
    switch: Switch, lossy: Job
) -> None:
    start(switch, lossy, 0, END)
    blocks = {
        i: block(lossy, 0, i, [i], following=j)
        for i, j in [(0, 2), (2, 3), (3, 5), (5, 6), (6, 8), (8, END)]
    }
    assert waits(send(switch, blocks[2])) == [(0, 2, 1, 0)]
    assert send(switch, blocks[3]) == []
    assert waits(send(switch, blocks[6])) == [(0, 6, 1, 0)]
    assert send(switch, blocks[8]) == []
    # The clock goes on as far as nothing is missing.
    assert [each[0] for each in told(send(switch, blocks[0]))] == [0, 2, 3]
    assert told(send(switch, blocks[5])) == [
        (5, [5], 6),
        (6, [6], 8),
        (8, [8], END),
    ]


def test_a_wait_names_the_block_that_is_expected(switch: Switch, lossy: Job) -> None:
    start(switch, lossy, 1, 1)
    own = block(lossy, 0, 1, [5], following=3)
    assert waits(send(switch, own, own)) == [(0, 1, 1, 3)]


def test_an_early_announcement_says_what_was_announced(
    switch: Switch, lossy: Job
) -> None:
    again = announce(lossy, 0, 3)
    assert waits(send(switch, again, again)) == [(0, 0, 1, 3)]


def test_early_blocks_beyond_all_slots_are_dropped_as_busy(
    switch: Switch, lossy: Job
) -> None:
    n_slots = lossy.layout.n_slots(Kind.BLOCK_SUM)
    start(switch, lossy, 1, 1)
    assert send(switch, block(lossy, 0, n_slots + 1, [5])) == []
    assert switch.counters.drops == {"busy": 1}
    assert waits(send(switch, block(lossy, 0, n_slots, [5]))) == [(0, n_slots, 0, 1)]


def test_a_block_of_another_length_is_contradicted_when_it_is_early_too(
    switch: Switch, lossy: Job
) -> None:
    start(switch, lossy, 1, 1)
    send(switch, block(lossy, 0, 2, [5]))
    ((_, error),) = send(switch, block(lossy, 1, 2, [5, 6]))
    assert error.kind == Kind.ERROR
    assert switch.counters.drops == {"mismatch": 1}


def test_a_slot_remembers_nothing_of_its_last_block(switch: Switch, lossy: Job) -> None:
    n_slots = lossy.layout.n_slots(Kind.BLOCK_SUM)
    start(switch, lossy, 0, 2)
    early = block(lossy, 1, 3, [1], following=n_slots + 3)
    send(switch, early, block(lossy, 1, 2, [1], following=3))
    send(switch, block(lossy, 0, 0, [1], following=3))
    send(switch, block(lossy, 0, 3, [1], following=n_slots + 3))
    behind = block(lossy, 1, n_slots + 3, [1], following=END)
    assert send(switch, behind) == []
    assert told(send(switch, block(lossy, 0, n_slots + 3, [2]))) == [
        (n_slots + 3, [3], END)
    ]
