"""One wrong packet of a member: it pushes nothing aside, or everyone else is told."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from fediac.switch.job import Job
from fediac.switch.pipeline import Switch
from fediac.wire.header import END, Flag, Kind, Reason
from fediac.wire.packet import Packet
from tests.packets import (
    announce,
    block,
    gia,
    indexed_totals,
    lanes,
    levels,
    observed,
    pairs,
    peak,
    send,
    told,
    totals,
    votes,
)

OBSERVER = 3
Make = Callable[[Job, int, int], Packet]

FIRST: dict[str, Make] = {
    "tally": lambda job, i, e: votes(job, i, "11", threshold=2, exchange=e),
    "sum": lambda job, i, e: lanes(job, i, [i], bits=4, bits_down=9, exchange=e),
    "max": lambda job, i, e: peak(job, i, i, exchange=e),
    "blocks": lambda job, i, e: announce(job, i, 1, exchange=e),
    "indexed": lambda job, i, e: pairs(job, i, {0: i}, exchange=e),
}
"""What clients begin an exchange with."""

HELD = {
    "tally": (Kind.TALLY, 2),
    "sum": (Kind.SUM, 4 << 8 | 9),
    "max": (Kind.MAX, 0),
    "blocks": (Kind.BLOCK_SUM, 0),
    "indexed": (Kind.INDEXED_SUM, 32),
}

OTHER: dict[str, Make] = {
    "threshold": lambda job, i, e: votes(job, i, "11", threshold=3, exchange=e),
    "widths": lambda job, i, e: lanes(job, i, [i], bits=4, exchange=e),
    "level": lambda job, i, e: pairs(job, i, {0: i}, bits=8, exchange=e),
    "index": lambda job, i, e: pairs(job, i, {0: i}, is_narrow=True, exchange=e),
}
"""A packet of the kind of one of those above, with other settings."""


@pytest.fixture
def job(switch: Switch) -> Job:
    """Three clients and an observer."""
    return switch.open(3, n_observers=1)


def last_sum(switch: Switch, job: Job) -> list[Packet]:
    """Return everyone's packets of a sum that is complete."""
    sent = [lanes(job, i, [i + 1]) for i in range(3)]
    sent.append(observed(sent[0], OBSERVER))
    assert len(send(switch, *sent)) == 1
    return sent


@pytest.mark.parametrize("wrong", [*FIRST, *OTHER])
@pytest.mark.parametrize("right", FIRST)
def test_who_contradicts_the_first_packet_is_told_what_it_said(
    switch: Switch, job: Job, wrong: str, right: str
) -> None:
    if wrong == right:
        return
    last_sum(switch, job)
    # The others have sent the right one, and are told again and again.
    assert send(switch, FIRST[right](job, 0, 1)) == []
    for client in (1, 1, 2):
        answer = told(switch, (FIRST | OTHER)[wrong](job, client, 1))
        assert answer.kind == Kind.ERROR
        assert (answer.part, answer.exchange) == (Reason.SETTINGS, 1)
        assert (answer.n_items, answer.aux) == HELD[right]
    assert switch.counters.drops == {"mismatch": 3}


@pytest.mark.parametrize("wrong", FIRST)
@pytest.mark.parametrize("right", FIRST)
def test_observers_are_told_as_well(
    switch: Switch, job: Job, wrong: str, right: str
) -> None:
    if wrong == right:
        return
    assert send(switch, FIRST[right](job, 0, 0)) == []
    answer = told(switch, observed(FIRST[wrong](job, 0, 0), OBSERVER))
    assert (answer.kind, answer.n_items) == (Kind.ERROR, HELD[right][0])


FAR: dict[str, Callable[[Job, int], Packet]] = {
    "votes": lambda job, e: votes(job, 0, "1", packet=END - 1, exchange=e),
    "lanes": lambda job, e: lanes(job, 0, [1], packet=1 << 20, exchange=e),
    "block": lambda job, e: block(job, 0, END - 1, [1], exchange=e),
    "pairs": lambda job, e: pairs(job, 0, {1: 1}, packet=END, exchange=e),
    "next pairs": lambda job, e: pairs(job, 0, {1: 1}, packet=1, exchange=e),
    "range": lambda job, e: replace(
        pairs(job, 0, {}, exchange=e), flags=Flag.READ, packet=1
    ),
    "peak": lambda job, e: peak(job, 0, 1, exchange=e + 1),
}


@pytest.mark.parametrize("ahead", [0, 1, 1000, 0xFFFF - 2])
@pytest.mark.parametrize("far", FAR)
@pytest.mark.parametrize("name", FIRST)
def test_a_far_off_packet_pushes_nothing_aside(
    switch: Switch, job: Job, name: str, far: str, ahead: int
) -> None:
    sent = last_sum(switch, job)
    before = switch._registers.copy()
    stray = FAR[far](job, 1 + ahead)
    assert send(switch, stray) == []
    assert switch.counters.drops == {"busy": 1}
    assert (switch._registers == before).all()
    # What came before is repeated, and what comes next goes on as if nothing was.
    for each in sent:
        assert totals(told(switch, each)) == [6]
    everyone = [FIRST[name](job, i, 1) for i in range(3)]
    everyone.append(observed(everyone[0], OBSERVER))
    if name == "blocks":
        everyone[3] = replace(everyone[3], aux=END)
        assert len(send(switch, *everyone)) == 1
        everyone = [block(job, i, 1, [i], exchange=1) for i in range(3)]
    ((_, answer),) = send(switch, *everyone)
    read: dict[str, Callable[[Packet], object]] = {
        "tally": gia,
        "sum": totals,
        "max": lambda packet: packet.aux,
        "blocks": levels,
        "indexed": lambda packet: indexed_totals([packet]),
    }
    expected = {"tally": "11", "sum": [3], "max": 2, "blocks": [3], "indexed": {0: 3}}
    assert read[name](answer) == expected[name]
