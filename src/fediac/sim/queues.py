"""Servers that take packets first come, first served, by Lindley's recursion.

A packet's service starts when it has arrived and the one before it has left:
start_k = max(arrival_k, start_{k−1} + service_{k−1}). With the sum S_k of the services
before packet k this is start_k = S_k + max over i ≤ k of (arrival_i − S_i): a sum and a
running maximum, exact in integers.
"""

from dataclasses import dataclass

import numpy as np

from fediac.sim.draws import Draws, Ints


def start_times(arrivals: Ints, services: Ints, free_at: int) -> Ints:
    """Return when each packet's service starts.

    Args:
        arrivals: Ascending.
        services: How long each packet takes.
        free_at: When the packet before the first one leaves.
    """
    before = np.cumsum(services) - services
    slack = arrivals - before
    slack[0] = max(int(slack[0]), free_at)
    return np.asarray(before + np.maximum.accumulate(slack))


@dataclass(slots=True)
class Queue:
    """A server during a round, and statistics of what it has served.

    Attributes:
        draws: Its service times.
        free_at: When the last packet leaves.
        wait_ps: All packets' times in the queue.
    """

    draws: Draws
    free_at: int = 0
    n_served: int = 0
    busy_ps: int = 0
    wait_ps: int = 0
    max_wait_ps: int = 0

    def serve(self, arrivals: Ints) -> tuple[Ints, Ints]:
        """Return when the service of arriving packets starts and when they leave."""
        services = self.draws.take(len(arrivals))
        starts = start_times(arrivals, services, self.free_at)
        departures = starts + services
        waits = starts - arrivals
        self.free_at = int(departures[-1])
        self.n_served += len(arrivals)
        self.busy_ps += int(services.sum())
        self.wait_ps += _exact_sum(waits)
        self.max_wait_ps = max(self.max_wait_ps, int(waits.max()))
        return starts, departures

    def serve_one(self, arrival: int) -> tuple[int, int]:
        """Return when the service of one packet starts and when it leaves."""
        service = self.draws.one()
        start = max(arrival, self.free_at)
        self.free_at = start + service
        self.n_served += 1
        self.busy_ps += service
        self.wait_ps += start - arrival
        self.max_wait_ps = max(self.max_wait_ps, start - arrival)
        return start, self.free_at


def _exact_sum(values: Ints) -> int:
    """Return a sum that may not fit 64 bits."""
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())
