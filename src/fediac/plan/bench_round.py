"""The cost of a whole round: all clients and the packet-level switch."""

from dataclasses import dataclass
from time import perf_counter

from fediac import native
from fediac.compressors import FediAC, State
from fediac.plan.synthetic import synthetic_updates
from fediac.switch import Switch
from fediac.transports import aggregate

BITS = 12
THRESHOLD = 3


@dataclass(frozen=True, slots=True)
class RoundCost:
    """The best time of a round.

    Attributes:
        name: What was done.
        n_clients: Clients in the round.
        threads: That clients share.
        seconds: Best of all repeats.
        n_packets: That the switch was sent.
    """

    name: str
    n_clients: int
    threads: int
    seconds: float
    n_packets: int


def time_rounds(*, dim: int, n_clients: int, n_repeats: int) -> list[RoundCost]:
    """Return the cost of a FediAC round, with new residuals and with reused ones."""
    updates = list(synthetic_updates(dim, n_clients, seed=1))
    compressor = FediAC(
        n_clients,
        n_votes=-(-dim // 20),
        threshold=min(THRESHOLD, n_clients),
        bits=BITS,
    )
    states: tuple[State, ...] | None = None
    costs = []
    for name, reuses in (("new residuals", False), ("residuals in place", True)):
        times, n_packets = [], 0
        for number in range(n_repeats + 1):
            switch = Switch()
            start = perf_counter()
            result = aggregate(
                updates,
                compressor,
                switch=switch,
                seed=1,
                round_number=number,
                states=states,
                out=states if reuses else None,
            )
            times.append(perf_counter() - start)
            states, n_packets = result.states, switch.counters.packets_in
        # The first of them fetches memory from the system, which later ones reuse.
        seconds = min(times[1:])
        threads = native.n_threads()
        costs.append(RoundCost(name, n_clients, threads, seconds, n_packets))
    return costs
