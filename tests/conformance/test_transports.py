"""Every transport gives the same answer to every exchange, and counts alike."""

from typing import Any

import numpy as np
import pytest

from fediac.core.exchange import BlockTotals, IndexedTotals, Totals
from fediac.switch import Switch
from fediac.switch.job import Job
from fediac.transports.arrays import ArrayTransport
from fediac.transports.memory import MemoryTransport
from fediac.transports.protocol import Transport
from tests.conformance.exchanges import QUESTIONS, Asker, check_answer
from tests.support import KINDS, Make

SWITCHES: dict[str, dict[str, int]] = {
    "as it comes": {},
    "short packets": {"payload_bytes": 32},
    "few slots": {"payload_bytes": 32, "register_bytes": 2400},
}


class Both:
    """A job on a switch, carried in packets and, next to it, in arrays."""

    def __init__(self, settings: dict[str, int], n_clients: int, present: int) -> None:
        self.switch = Switch(**settings)
        self.job: Job = self.switch.open(n_clients, present=present)
        self.memory = MemoryTransport(self.switch, self.job)
        self.arrays = ArrayTransport(self.job)

    @property
    def transports(self) -> tuple[Transport, Transport]:
        return self.memory, self.arrays


@pytest.fixture(params=sorted(KINDS))
def make(request: pytest.FixtureRequest) -> Make:
    return KINDS[request.param]


def asker(both: Both, make: Make, seed: Any) -> Asker:
    layout = both.job.layout
    clients = [i for i in range(layout.n_clients) if both.job.present >> i & 1]
    rng = np.random.default_rng(seed)
    return Asker(clients, make, layout.payload_bytes, rng)


@pytest.mark.parametrize("kind", QUESTIONS)
@pytest.mark.parametrize(
    ("n_clients", "present"), [(1, 0b1), (3, 0b111), (7, 0b0101101)]
)
@pytest.mark.parametrize("switch", SWITCHES)
def test_answer_is_that_of_plain_arithmetic(
    make: Make, switch: str, n_clients: int, present: int, kind: str
) -> None:
    for seed in range(3):
        both = Both(SWITCHES[switch], n_clients, present)
        asked, expected = QUESTIONS[kind](asker(both, make, [n_clients, seed]))
        for transport in both.transports:
            answer = transport.carry(asked)
            check_answer(answer, expected, make)
            if isinstance(answer, Totals | BlockTotals | IndexedTotals):
                assert answer.n_clients == present.bit_count()


@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize("seed", range(6))
def test_exchanges_in_any_order_are_counted_alike(switch: str, seed: int) -> None:
    both = Both(SWITCHES[switch], 4, 0b1011)
    questions = asker(both, np.array, seed)
    kinds = np.random.default_rng(seed).choice(list(QUESTIONS), 8).tolist()
    for kind in kinds:
        asked, expected = QUESTIONS[kind](questions)
        for transport in both.transports:
            check_answer(transport.carry(asked), expected, np.array)
        assert both.arrays.counters == both.switch.counters
    assert both.switch.counters.drops == {}
