"""The paper's example (Sec. III): five entries, two clients, one level a packet."""

import pytest

from fediac.switch.job import Job
from fediac.switch.pipeline import Switch
from tests.packets import (
    answer_to,
    gia,
    lanes,
    pairs,
    read_totals,
    send,
    totals,
    votes,
)

CLIENTS = ([5, 4, 3, 2, 1], [1, 3, 4, 5, 2])
TOP_3 = ("11100", "01110")
TOP_2 = ([0, 1], [3, 2])


@pytest.fixture
def job(switch: Switch) -> Job:
    return switch.open(2)


def add_entries(
    switch: Switch, job: Job, entries: list[int], exchange: int
) -> list[int]:
    """Return the totals of some entries, one a packet."""
    found = []
    for packet, entry in enumerate(entries):
        packets = (
            lanes(job, i, [update[entry]], packet=packet, exchange=exchange)
            for i, update in enumerate(CLIENTS)
        )
        found += totals(answer_to(switch, *packets))
    return found


def test_a_dense_sum_takes_five_aggregations(switch: Switch, job: Job) -> None:
    assert add_entries(switch, job, [0, 1, 2, 3, 4], 0) == [6, 7, 7, 7, 3]
    assert switch.counters.aggregations == 5


def test_top_2_takes_four_aggregations(switch: Switch, job: Job) -> None:
    packets = [
        pairs(job, i, {entry: CLIENTS[i][entry] for entry in TOP_2[i]}, size=5)
        for i in (0, 1)
    ]
    send(switch, *packets)
    assert read_totals(switch, packets[0]) == {0: 5, 1: 4, 2: 4, 3: 5}
    assert switch.counters.aggregations == 4


def test_fediac_takes_three_aggregations(switch: Switch, job: Job) -> None:
    packets = (votes(job, i, mask, threshold=2) for i, mask in enumerate(TOP_3))
    agreed = gia(answer_to(switch, *packets))
    assert agreed == "01100"
    entries = [entry for entry, chosen in enumerate(agreed) if chosen == "1"]
    assert add_entries(switch, job, entries, 1) == [7, 7]
    assert switch.counters.aggregations == 3
