"""The paper's example (Sec. III-B), on the exchanges themselves."""

from typing import Any

import numpy as np

from fediac import FediAC, Switch, aggregate
from fediac.core.bitpack import indices_of, pack_lanes, unpack_bits, unpack_lanes
from fediac.core.corrected import correct
from fediac.core.exchange import IndexedSum, Sum, Tally
from fediac.core.magnitudes import largest
from fediac.core.rng import Stream
from fediac.core.voting import draw_votes
from fediac.transports.arrays import ArrayTransport
from fediac.transports.memory import MemoryTransport

UPDATES = [np.array([5, 4, 3, 2, 1]), np.array([1, 3, 4, 5, 2])]
LIMIT = 63
"""Two levels of at most this fit a lane of 8 bits."""


class Carrier:
    """A switch that adds one pair of integers at a time, if its packets are that short.

    Packets and arrays must agree on the answer and on the count.
    """

    def __init__(self, payload_bytes: int) -> None:
        self.switch = Switch(payload_bytes=payload_bytes)
        job = self.switch.open(len(UPDATES))
        self.transports: list[Any] = [
            MemoryTransport(self.switch, job),
            ArrayTransport(job),
        ]

    def ask(self, exchanges: list[Any]) -> Any:
        requests = dict(enumerate(exchanges))
        answers = [each.carry(requests) for each in self.transports]
        assert self.switch.counters == self.transports[1].counters
        return answers[0]

    @property
    def n_aggregations(self) -> int:
        return self.switch.counters.aggregations


def as_sum(levels: Any) -> Sum:
    return Sum(pack_lanes(levels + LIMIT, 8), len(levels), 8, 8, LIMIT)


def totals_of(answer: Any) -> list[int]:
    lanes = unpack_lanes(answer.lanes, answer.n_levels, 8)
    total: list[int] = (lanes - len(UPDATES) * LIMIT).tolist()
    return total


def test_all_values_take_five_aggregations() -> None:
    carrier = Carrier(payload_bytes=1)
    answer = carrier.ask([as_sum(update) for update in UPDATES])
    assert totals_of(answer) == [6, 7, 7, 7, 3]
    assert carrier.n_aggregations == 5


def test_two_largest_values_of_each_take_four_aggregations() -> None:
    carrier = Carrier(payload_bytes=8)
    pairs = []
    for update in UPDATES:
        indices = indices_of(largest(update.astype(np.float32), 2), 5)
        pairs.append(IndexedSum(indices, update[indices], size=5))
    answer = carrier.ask(pairs)
    assert answer.indices.tolist() == [0, 1, 2, 3]
    assert answer.totals.tolist() == [5, 4, 4, 5]
    assert carrier.n_aggregations == 4


def test_votes_and_agreed_values_take_three_aggregations() -> None:
    carrier = Carrier(payload_bytes=1)
    ballots = []
    for client, update in enumerate(UPDATES):
        stream = Stream(1, 1, client).purpose("votes")
        corrected = correct(update.astype(np.float32), None)
        ballots.append(draw_votes(corrected, 3, stream, law="topk"))
    assert [
        "".join(map(str, unpack_bits(each, 5).astype(int))) for each in ballots
    ] == [
        "11100",
        "01110",
    ]
    consensus = carrier.ask(
        [Tally(votes, dim=5, threshold=2, peak=5.0, bits=8) for votes in ballots]
    )
    gia = unpack_bits(consensus.gia, 5)
    assert gia.astype(int).tolist() == [0, 1, 1, 0, 0]
    assert carrier.n_aggregations == 1
    answer = carrier.ask([as_sum(update[gia]) for update in UPDATES])
    assert totals_of(answer) == [7, 7]
    assert carrier.n_aggregations == 3


def test_whole_round_counts_the_same_three() -> None:
    updates = [update.astype(np.float32) for update in UPDATES]
    compressor = FediAC(n_clients=2, n_votes=3, threshold=2, bits=8, law="topk")
    result = aggregate(
        updates, compressor, seed=1, round_number=1, switch=Switch(payload_bytes=1)
    )
    assert result.facts.aggregations == 3
    assert (result.facts.votes, result.facts.chosen) == (6, 2)
    # Levels are off by less than one each: f = (2^7 - 2) / (2 * 5).
    assert np.flatnonzero(result.mean).tolist() == [1, 2]
    assert np.all(np.abs(result.mean[[1, 2]] - 3.5) < 10 / 126)
