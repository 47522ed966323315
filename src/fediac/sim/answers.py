"""The way back: when answers are ready, and when a client has received them."""

import numpy as np

from fediac.sim.draws import Draws, Ints
from fediac.sim.packet_groups import Step
from fediac.sim.queues import Queue, start_times
from fediac.sim.unbounded import Uploads


class Receiver:
    """A client's downlink in the course of a round.

    Answer j arrives an exponential time after it was ready and answer j − 1 was there,
    then it is served (paper, Sec. V-A).
    """

    def __init__(self, gaps: Draws, ps_per_unit: float, queue: Queue) -> None:
        self.gaps = gaps
        self.ps_per_unit = ps_per_unit
        self.queue = queue
        self.arrival = 0
        self.link_ps = 0

    def receive(self, ready: Ints) -> int:
        """Return when the client has all packets, given when each was ready."""
        units = self.gaps.take(len(ready)).astype(np.float64)
        gaps = (units * self.ps_per_unit).astype(np.int64)
        arrivals = start_times(ready, gaps, self.arrival) + gaps
        self.arrival = int(arrivals[-1])
        self.link_ps += int(gaps.sum())
        self.queue.serve(arrivals)
        return self.queue.free_at

    def receive_one(self, ready: int) -> int:
        """Return when the client has received one packet."""
        gap = int(float(self.gaps.one()) * self.ps_per_unit)
        self.arrival = max(ready, self.arrival) + gap
        self.link_ps += gap
        return self.queue.serve_one(self.arrival)[1]


def order_answers(step: Step, uploads: Uploads) -> tuple[Ints, list[tuple[int, int]]]:
    """Return when each answer is ready, ascending, and where each exchange's ends.

    Answers of equal time go in the order of their exchanges.
    """
    ready = []
    for exchange, done in zip(step.exchanges, uploads.done, strict=True):
        if exchange.n_answers > exchange.n_groups:
            counts = np.full(exchange.n_groups, exchange.n_parts)
            counts[-1] = exchange.n_last
            done = np.repeat(done, counts)
        ready.append(done)
    if len(ready) == 1:
        return ready[0], [(len(ready[0]), 0)]
    every = np.concatenate(ready)
    order = np.argsort(every, kind="stable")
    numbers = np.repeat(np.arange(len(ready)), [len(each) for each in ready])[order]
    lasts = [len(order) - int(np.argmax(numbers[::-1] == i)) for i in range(len(ready))]
    return every[order], sorted((stop, i) for i, stop in enumerate(lasts))
