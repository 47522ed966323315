from typing import Any

import numpy as np
import pytest

from fediac.core.bitpack import pack_bits, pack_lanes
from fediac.core.exchange import BlockSum, Exchange, IndexedSum, Max, Sum, Tally
from fediac.errors import FediacError
from fediac.switch import Answers, Switch
from fediac.transports.batches import BATCH_PACKETS
from fediac.transports.memory import MemoryTransport
from tests.support import refuses


class CountingSwitch(Switch):
    """A switch that notes how many packets it gets at a time."""

    def __init__(self, *, register_bytes: int) -> None:
        super().__init__(register_bytes, payload_bytes=8)
        self.batches: list[int] = []

    def process(self, packets: Any, lengths: Any, *, out: Any = None) -> Answers:
        self.batches.append(len(packets))
        return super().process(packets, lengths, out=out)


class DeafSwitch(Switch):
    """A switch that never answers."""

    def process(self, packets: Any, lengths: Any, *, out: Any = None) -> Answers:
        answers = super().process(packets[:0], lengths[:0], out=out)
        assert len(answers.packets) == 0
        return answers


N_LEVELS = 600
EXCHANGES: dict[str, Exchange] = {
    "tally": Tally(pack_bits(np.ones(64 * 100, dtype=bool)), 64 * 100, 1, 1.0, 8),
    "sum": Sum(pack_lanes(np.full(N_LEVELS, 1), 12), N_LEVELS, 12, 12, 1),
    "blocks": BlockSum(
        np.arange(1, 101), np.ones((100, 2), dtype=np.int32), n_blocks=101
    ),
    "pairs": IndexedSum(np.arange(100), np.ones(100, dtype=np.int32), 100),
}


@pytest.mark.parametrize("name", EXCHANGES)
def test_few_packets_are_built_at_a_time_however_many_clients(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The constant itself would take too long to fill here.
    monkeypatch.setattr("fediac.transports.batches.BATCH_PACKETS", 64)
    monkeypatch.setattr("fediac.transports.memory.BATCH_PACKETS", 64)
    switch = CountingSwitch(register_bytes=20_000)
    job = switch.open(9)
    transport = MemoryTransport(switch, job)
    transport.carry(dict.fromkeys(range(9), EXCHANGES[name]))
    assert sum(switch.batches) == switch.counters.packets_in
    assert switch.counters.packets_in >= 9 * 75
    assert max(switch.batches) <= 64
    assert switch.counters.drops == {}


def test_a_full_batch_of_packets_takes_a_few_megabytes() -> None:
    assert BATCH_PACKETS * 1500 < 64 << 20


@pytest.mark.parametrize("name", ["tally", "sum", "blocks", "pairs"])
def test_switch_that_never_answers_is_an_error_not_a_hang(name: str) -> None:
    switch = DeafSwitch()
    transport = MemoryTransport(switch, switch.open(2))
    text = "session 1: the switch must give 1 answer, got 0 (drops: {})"
    with refuses(text, FediacError):
        transport.carry(dict.fromkeys(range(2), EXCHANGES[name]))


def test_peak_without_an_answer_is_an_error() -> None:
    switch = DeafSwitch()
    transport = MemoryTransport(switch, switch.open(2))
    text = "session 1: the switch must give 1 answer, got 0 (drops: {})"
    with refuses(text, FediacError):
        transport.carry({0: Max(1.0), 1: Max(2.0)})


def test_dropped_packets_are_named() -> None:
    switch = Switch()
    job = switch.open(2)
    switch.close(job)
    transport = MemoryTransport(switch, job)
    text = "session 1: the switch must give 1 answer, got 0"
    with refuses(f"{text} (drops: {{'unknown_session': 2}})", FediacError):
        transport.carry({0: Max(1.0), 1: Max(2.0)})
