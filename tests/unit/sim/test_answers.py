"""A client's downlink, the same however its answers come in."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fediac.core.rng import Stream
from fediac.native.queueing import queue_kernels
from fediac.sim import Downlink, Network, compiled, constant_uplinks, paper_switch
from fediac.sim import simulate as simulate_module
from fediac.sim.answers import Receiver
from fediac.sim.clock import PS_PER_S
from fediac.sim.draws import UNIT, Draws, Ints
from fediac.sim.queues import Queue
from fediac.sim.service import exponential
from tests.planes import PLANES, data_plane
from tests.unit.sim.rounds import contents, exchange, ledger

RATE = 1000.0
N_ANSWERS = 500


@pytest.fixture(params=PLANES, autouse=True)
def _plane(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run every test in NumPy and in C."""
    with data_plane(request.param):
        yield


def make_receiver() -> Receiver:
    service = Draws(Stream(1, 1, 0, "service"), table=exponential(1e-4).table)
    gaps = Draws(Stream(1, 1, 0, "gaps"))
    return Receiver(gaps, PS_PER_S / (RATE * UNIT), Queue(service))


def receive(receiver: Receiver, ready: Ints) -> int:
    kernels = queue_kernels()
    if kernels is None:
        return receiver.receive(ready)
    return compiled.receive(kernels, receiver, ready)


def seen(receiver: Receiver) -> tuple[int, ...]:
    queue = receiver.queue
    of_queue = (queue.free_at, queue.n_served, queue.busy_ps, queue.wait_ps)
    return (receiver.arrival, receiver.link_ps, *of_queue)


# All at once, the link is what everything waits for; in 10 seconds, nothing waits.
@pytest.mark.parametrize("spread_s", [0.0, 0.4, 10.0])
@pytest.mark.parametrize("piece", [1, 7, 499])
def test_answers_come_one_after_another_across_calls(
    spread_s: float, piece: int
) -> None:
    rng = np.random.default_rng(0)
    ready = np.sort(rng.integers(0, int(spread_s * PS_PER_S) + 1, N_ANSWERS))
    whole, in_pieces, one_by_one = (make_receiver() for _ in range(3))
    last = receive(whole, ready)
    for start in range(0, N_ANSWERS, piece):
        assert receive(in_pieces, ready[start : start + piece]) <= last
    for each in ready.tolist():
        one_by_one.receive_one(each)
    assert seen(in_pieces) == seen(one_by_one) == seen(whole)
    # 500 exponential gaps of a millisecond: half a second, 10 standard deviations off.
    assert abs(whole.link_ps - 0.5 * PS_PER_S) < 10 * 500**0.5 * 1e-3 * PS_PER_S


@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_a_round_has_the_same_times_whatever_is_received_at_a_time(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = ledger(
        exchange("indexedsum", 20_000, 64, n_clients=2, n_down=30_000),
        exchange("serversum", 20_000, 64, n_clients=2, n_down=30_000),
    )
    network = Network(
        constant_uplinks(2, 2000.0), paper_switch("fast"), Downlink(rate=500.0)
    )

    def simulate() -> Any:
        timing = simulate_module.simulate_round(
            together, network, seed=1, round_number=1
        )
        return contents(timing)

    whole = simulate()
    monkeypatch.setattr(simulate_module, "CHUNK", chunk)
    assert simulate() == whole
