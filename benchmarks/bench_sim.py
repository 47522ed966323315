"""Packets a second of the simulator, next to SimPy in the same run, and its memory.

    python -m benchmarks.bench_sim

A packet is one that goes up or one that comes down; both are drawn, queued and served.
Everything runs on one core. Rates differ between machines and runs, ratios much less.
"""

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

from benchmarks.sim_events import Round

from fediac import native
from fediac.core.ledger import Ledger, Row
from fediac.sim import (
    Bounded,
    Network,
    RoundTiming,
    paper_switch,
    paper_uplinks,
    simulate_round,
)

N_CLIENTS = 20
SMALL, LARGE, HUGE = 5 * 10**6, 10**8, 10**9
BITS = 12
SEED = 1
BILLION = "--billion"


def switchml_rows(dim: int) -> Ledger:
    """The levels of a SwitchML round; 1,000 of them fill a packet."""
    rows = [
        Row(1, client, "levels", "sum", direction, "switch", dim, BITS)
        for direction in ("up", "down")
        for client in range(N_CLIENTS)
    ]
    return Ledger(tuple(rows))


def make_network(memory: Bounded | None = None) -> Network:
    uplinks = paper_uplinks(N_CLIENTS, seed=SEED)
    return Network(uplinks, paper_switch("fast"), memory=memory)


def simulate(dim: int, network: Network) -> RoundTiming:
    return simulate_round(switchml_rows(dim), network, seed=SEED, round_number=1)


def n_packets(dim: int) -> int:
    """Packets up and down."""
    return 2 * N_CLIENTS * (dim // 1000)


def best_time(work: Callable[[], object], n_repeats: int) -> float:
    times = []
    for _ in range(n_repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    """Print one line for each way to simulate, then the memory of the largest round."""
    network, bounded = make_network(), make_network(Bounded(128))
    simulate(1000, network)  # loads the library and the traces
    events = Round(network, SMALL // 1000, seed=SEED)
    simpy_s = best_time(events.run, 1)
    simpy_rate = n_packets(SMALL) / simpy_s
    is_equal = events.env.now / 10**12 == simulate(SMALL, network).round_s
    print(
        f"SwitchML, {N_CLIENTS} clients, fast switch, the shipped traces, {BITS} bits"
    )
    print(f"{'':<32}{'packets':>12}{'seconds':>10}{'packets/s':>14}{'x SimPy':>9}")
    show("SimPy, an event a packet", SMALL, simpy_s, simpy_rate)
    with native.disabled():
        numpy_s = best_time(lambda: simulate(SMALL, network), 3)
    show("fediac, NumPy", SMALL, numpy_s, simpy_rate)
    for name, links in (("fediac, C", network), ("fediac, C, bounded", bounded)):
        for dim in (SMALL, LARGE):
            seconds = best_time(partial(simulate, dim, links), 3)
            show(name, dim, seconds, simpy_rate)
    print(f"SimPy and fediac end at the same picosecond: {is_equal}")
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.bench_sim", BILLION],
        check=True,
        capture_output=True,
        text=True,
    )
    print(run.stdout, end="")


def show(name: str, dim: int, seconds: float, simpy_rate: float) -> None:
    packets = n_packets(dim)
    rate = packets / seconds
    times = rate / simpy_rate
    print(f"{name:<32}{packets:>12,}{seconds:>10.3f}{rate:>14,.0f}{times:>9,.1f}")


def show_billion() -> None:
    """Print time and peak memory of a round of 10^9 parameters in this process."""
    network = make_network()
    start = time.perf_counter()
    timing = simulate(HUGE, network)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"10^9 parameters: {timing.switch.n_packets:,} packets up and as many down in "
        f"{seconds:.2f} s, peak memory of the process {peak:.2f} GiB"
    )


if __name__ == "__main__":
    if BILLION in sys.argv:
        show_billion()
    else:
        main()
