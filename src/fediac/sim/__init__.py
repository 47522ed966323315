"""The network of a round, on its own clock: links, queues and traces."""

from fediac.sim.network import Bounded, Downlink, Network, Server
from fediac.sim.pauses import Pause
from fediac.sim.rates import (
    Rates,
    Uplink,
    constant_uplinks,
    trace_uplinks,
    uniform_uplinks,
)
from fediac.sim.service import (
    Service,
    deterministic,
    exponential,
    from_distribution,
    gaussian,
    paper_switch,
    switch_of_rate,
)
from fediac.sim.simulate import simulate_round
from fediac.sim.timing import (
    ClientTiming,
    PhaseTiming,
    QueueTiming,
    RoundTiming,
    Series,
)
from fediac.sim.traces import load_trace, paper_uplinks, shipped_traces

__all__ = [
    "Bounded",
    "ClientTiming",
    "Downlink",
    "Network",
    "Pause",
    "PhaseTiming",
    "QueueTiming",
    "Rates",
    "RoundTiming",
    "Series",
    "Server",
    "Service",
    "Uplink",
    "constant_uplinks",
    "deterministic",
    "exponential",
    "from_distribution",
    "gaussian",
    "load_trace",
    "paper_switch",
    "paper_uplinks",
    "shipped_traces",
    "simulate_round",
    "switch_of_rate",
    "trace_uplinks",
    "uniform_uplinks",
]
