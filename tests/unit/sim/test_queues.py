"""Queues: Lindley's recursion, exactly."""

import numpy as np

from fediac.core.rng import Stream
from fediac.sim import deterministic
from fediac.sim.draws import Draws
from fediac.sim.queues import Queue, start_times

STREAM = Stream(1, 1, 0, "services")


def test_a_packet_starts_when_it_is_there_and_the_one_before_has_left() -> None:
    arrivals = np.array([0, 1, 2, 20, 21])
    services = np.array([5, 5, 1, 4, 4])
    assert start_times(arrivals, services, 0).tolist() == [0, 5, 10, 20, 24]
    assert start_times(arrivals, services, 7).tolist() == [7, 12, 17, 20, 24]


def test_a_queue_adds_up_what_it_sees() -> None:
    queue = Queue(Draws(STREAM, table=deterministic(10e-12).table))
    starts, departures = queue.serve(np.array([0, 4, 40]))
    assert (starts.tolist(), departures.tolist()) == ([0, 10, 40], [10, 20, 50])
    assert queue.serve_one(45) == (50, 60)
    assert (queue.n_served, queue.busy_ps, queue.free_at) == (4, 40, 60)
    assert (queue.wait_ps, queue.max_wait_ps) == (6 + 5, 6)


def test_waits_are_added_beyond_64_bits() -> None:
    queue = Queue(Draws(STREAM, table=deterministic(1e-12).table))
    queue.free_at = 2**61
    queue.serve(np.zeros(32, np.int64))
    assert queue.wait_ps == 32 * 2**61 + sum(range(32))
