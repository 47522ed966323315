"""The result of a simulated round: times, queues, and its bottleneck."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fediac.sim.clock import to_s
from fediac.sim.draws import Ints


@dataclass(frozen=True, slots=True)
class PhaseTiming:
    """How long an exchange took.

    Phases follow each other, so what is computed before and between them and these add
    up to the round. Those that
    travel together begin together and overlap.

    Attributes:
        name: What the ledger calls it.
        upload_s: From when the last client could begin until all groups were served.
        download_s: From then until the last client had all answers.
    """

    name: str
    upload_s: float
    download_s: float


@dataclass(frozen=True, slots=True)
class QueueTiming:
    """Statistics of a first-come-first-served server in a round.

    Attributes:
        n_packets: How many it served.
        utilization: Share of the round in which it worked.
        load: Packets a second that clients send on average, times its mean service
            time. From 1 on the queue grows as long as they send.
        mean_wait_s: Time a packet stood in the queue, not counting its service.
        max_wait_s: The longest of these.
        mean_waiting: Packets in the queue, on average over the round.
    """

    n_packets: int
    utilization: float
    load: float
    mean_wait_s: float
    max_wait_s: float
    mean_waiting: float

    @property
    def is_overloaded(self) -> bool:
        """Whether packets come faster than they are served."""
        return self.load >= 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """The switch over time, in bins of equal width.

    Attributes:
        bin_s: Width of a bin; the first begins with the round.
        waiting: The most packets in the queue in each bin.
        utilization: The share of each bin in which the switch worked.
        open_slots: The most groups in each bin that were served in part; each takes a
            slot.
    """

    bin_s: float
    waiting: Ints
    utilization: NDArray[np.float64]
    open_slots: Ints


@dataclass(frozen=True, slots=True)
class ClientTiming:
    """One client's round.

    Attributes:
        compute_s: Local training, and what it computed between exchanges.
        uplink_s: Time in which it was sending, all steps together.
        finish_s: When it had the last answer, since the round began.
    """

    client: int
    compute_s: float
    uplink_s: float
    finish_s: float


@dataclass(frozen=True, slots=True, eq=False)
class RoundTiming:
    """How long a round took, and why.

    Attributes:
        round_s: From its beginning until the last client had everything.
        phases: In the order of the ledger.
        clients: In the order of their numbers.
        switch: The switch's queue.
        server: The far server's, if anything went there.
        max_waiting: The most packets in the switch's queue at a time.
        max_open_slots: The most groups under way at a time.
        series: The switch over time.
        shares: Seconds that went to compute, to uplinks until the last packet was at
            the switch, then to switch, server and downlinks; their sum is the round.
        demands: The share of the round that each of these needs by itself: the slowest
            client's compute, sending and receiving, the services, the server's delay.
        bottleneck: What has the largest demand, in words.
        packets: If asked for: step, client, exchange, number, arrival, start and
            departure of every packet at the switch, in picoseconds since the round
            began, in the order of service.
    """

    round_s: float
    phases: tuple[PhaseTiming, ...]
    clients: tuple[ClientTiming, ...]
    switch: QueueTiming
    server: QueueTiming | None
    max_waiting: int
    max_open_slots: int
    series: Series
    shares: dict[str, float]
    demands: dict[str, float]
    bottleneck: str
    packets: Ints | None = None

    @property
    def is_overloaded(self) -> bool:
        """Whether the switch or the server was offered more than it can serve."""
        servers = (self.switch, self.server)
        return any(each is not None and each.is_overloaded for each in servers)

    @property
    def slowest_client(self) -> int:
        """The client that took longest to send."""
        return max(self.clients, key=lambda each: each.uplink_s).client


@dataclass(frozen=True, slots=True)
class StepTimes:
    """When a step began and ended, in picoseconds.

    Attributes:
        phases: The name of each exchange.
        is_far: Some packets went to the server.
        begin: When the last client could begin.
        done: For each exchange, when its last group was served.
        finish: For each exchange, when the last client had its answers.
    """

    phases: tuple[str, ...]
    is_far: bool
    begin: int
    last_arrival: int
    last_departure: int
    done: tuple[int, ...]
    finish: tuple[int, ...]


def time_phases(times: StepTimes) -> Iterable[PhaseTiming]:
    """Yield the phases of a step."""
    for name, done, finish in zip(times.phases, times.done, times.finish, strict=True):
        upload_ps = max(0, done - times.begin)
        yield PhaseTiming(name, to_s(upload_ps), to_s(finish - done))


def divide_round(steps: Sequence[StepTimes], round_ps: int) -> dict[str, float]:
    """Return how the time on the critical path was spent, in seconds."""
    spent = dict.fromkeys(("uplinks", "switch", "server", "downlinks"), 0)
    for times in steps:
        spent["uplinks"] += times.last_arrival - times.begin
        spent["switch"] += times.last_departure - times.last_arrival
        spent["server"] += max(times.done) - times.last_departure
        spent["downlinks"] += max(times.finish) - max(times.done)
    compute = round_ps - sum(spent.values())
    return {"compute": to_s(compute)} | {name: to_s(ps) for name, ps in spent.items()}


def name_bottleneck(
    demands: dict[str, float],
    slowest: int,
    switch: QueueTiming,
    server: QueueTiming | None,
) -> str:
    """Return the bottleneck of a round, in words.

    Args:
        demands: Share of the round that each part needs by itself.
        slowest: The client that sends longest.
        switch: To say when it is overloaded.
        server: The same.
    """
    name = max(demands, key=lambda each: demands[each])
    words = {
        "compute": "local compute",
        "uplinks": f"uplinks, client {slowest} the slowest",
        "switch": "switch",
        "server": "far server",
        "downlinks": "downlinks",
    }
    text = f"{words[name]} ({100.0 * demands[name]:.0f} % of the round)"
    for queue, place in ((switch, "switch"), (server, "server")):
        if queue is not None and queue.is_overloaded:
            text += f"; the {place} is overloaded (load {queue.load:.2f})"
    return text
