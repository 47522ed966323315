"""``fediac bench``: each kernel against a copy of the update, and a whole round."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from fediac import native
from fediac.compressors import FediAC, State
from fediac.console import count, open_console, write_json
from fediac.core.bitpack import pack_bits, pack_lanes, unpack_lanes
from fediac.core.chunks import chunks
from fediac.core.consensus import agree
from fediac.core.corrected import Corrected, correct
from fediac.core.magnitudes import largest, pattern_counts
from fediac.core.quantize import Grid, send_chosen
from fediac.core.rng import Stream, to_unit
from fediac.core.voting import draw_votes
from fediac.defaults import RESNET18_DIM
from fediac.errors import ArgumentError
from fediac.plan.synthetic import synthetic_updates
from fediac.switch import Switch
from fediac.transports.vectors import aggregate_vectors

N_CLIENTS = 20
THRESHOLD = 3
CHOSEN_SHARE = 0.05
BITS = 12

_FLUSH_BYTES = 128 << 20


@dataclass(frozen=True, slots=True)
class KernelTiming:
    """The cost of one kernel.

    Attributes:
        name: What was done, in the words of core.
        backend: ``native`` for the C kernels, ``core`` for NumPy.
        threads: How many it could use.
        ns_per_entry: Best time of all repeats, by entry of the update.
        ratio_to_memcpy: That time divided by one thread's best copy of the update.
    """

    name: str
    backend: str
    threads: int
    ns_per_entry: float
    ratio_to_memcpy: float


class BenchRound:
    """The arrays of one client and of the switch that the kernels work on.

    Magnitudes fall like the power law that ResNet-18 updates were found to follow.
    """

    def __init__(self, dim: int) -> None:
        self.stream = Stream(seed=1, round_number=0, client=0)
        self.update = np.empty(dim, np.float32)
        chosen = []
        for start, stop in chunks(dim, self.update):
            words = self.stream.purpose("update").words(start, stop, like=self.update)
            signs = np.where(words & 1, 1.0, -1.0)
            self.update[start:stop] = signs * (1.0 + to_unit(words) * dim) ** -0.37
            words = self.stream.purpose("gia").words(start, stop, like=self.update)
            chosen.append(pack_bits(to_unit(words) < CHOSEN_SHARE))
        self.gia: NDArray[np.uint8] = np.concatenate(chosen)
        self.votes = [np.roll(self.gia, 4099 * client) for client in range(N_CLIENTS)]
        self.residual = self.update.copy()
        self.corrected: Corrected = correct(self.update, None)
        self.n_votes = max(1, round(CHOSEN_SHARE * dim))
        self.grid = Grid.of(peak=self.corrected.peak, bits=BITS, n_clients=N_CLIENTS)
        sent = send_chosen(self.update, self.gia, self.grid, self._rounding)
        self.lanes, self.n_levels = sent.lanes, sent.n_levels
        self.levels = unpack_lanes(self.lanes, self.n_levels, BITS)

    @property
    def _rounding(self) -> Stream:
        return self.stream.purpose("rounding")

    def steps(self) -> dict[str, Callable[[], object]]:
        """Return the timed steps by name, in the order of a round."""
        voting = self.stream.purpose("votes")
        values, residual, gia, grid = self.update, self.residual, self.gia, self.grid
        return {
            "first_pass": lambda: correct(values, None),
            "first_pass, in place": lambda: correct(values, residual, out=residual),
            "pattern_counts": lambda: pattern_counts(values),
            "draw_votes, 5%": lambda: draw_votes(self.corrected, self.n_votes, voting),
            "largest, 5%": lambda: largest(values, self.n_votes),
            f"agree, {N_CLIENTS} clients": lambda: agree(self.votes, THRESHOLD),
            "send_chosen, 5%": lambda: send_chosen(
                residual, gia, grid, self._rounding, out=residual
            ),
            "send_chosen, all": lambda: send_chosen(
                residual, None, grid, self._rounding, out=residual
            ),
            "pack_lanes, 5%": lambda: pack_lanes(self.levels, BITS),
            "unpack_lanes, 5%": lambda: unpack_lanes(self.lanes, self.n_levels, BITS),
        }


def step_names() -> list[str]:
    """Return the names of `BenchRound.steps`."""
    return list(BenchRound(8).steps())


class _Clock:
    """Times calls with cold caches."""

    def __init__(self, dim: int) -> None:
        self._dim = dim
        self._other = np.zeros(_FLUSH_BYTES, np.uint8)

    def ns_per_entry(self, step: Callable[[], object], n_repeats: int) -> float:
        """Return the best time of ``n_repeats`` calls."""
        times = []
        for _ in range(n_repeats):
            self._other += 1  # pushes everything else out of the caches
            start = perf_counter()
            step()
            times.append(perf_counter() - start)
        return min(times) * 1e9 / self._dim


@contextmanager
def _threads(n_threads: int) -> Iterator[None]:
    before = native.n_threads()
    native.set_threads(n_threads)
    try:
        yield
    finally:
        native.set_threads(before)


def time_kernels(
    *, dim: int = RESNET18_DIM, n_repeats: int = 9, with_core: bool = True
) -> tuple[float, list[KernelTiming]]:
    """Return the nanoseconds per entry of a copy, and the timings.

    Kernels run with one thread and with two, core's NumPy code once or twice: it
    takes seconds. The copy is timed again before each kernel, since a busy machine
    slows down everything alike.
    """
    if dim < 1:
        raise ArgumentError("dim", f"must be at least 1, got {dim}")
    if n_repeats < 1:
        raise ArgumentError("n_repeats", f"must be at least 1, got {n_repeats}")
    round_ = BenchRound(dim)
    clock = _Clock(dim)
    copy = np.empty_like(round_.update)
    memcpy_ns = float("inf")
    found: list[tuple[str, str, int, float]] = []

    def time_copy() -> None:
        nonlocal memcpy_ns
        ns = clock.ns_per_entry(lambda: np.copyto(copy, round_.update), n_repeats)
        memcpy_ns = min(memcpy_ns, ns)

    for name, step in round_.steps().items():
        time_copy()
        if native.isa() is not None:
            for n_threads in (1, 2):
                with _threads(n_threads):
                    ns = clock.ns_per_entry(step, n_repeats)
                found.append((name, "native", n_threads, ns))
        if with_core:
            with native.disabled():
                ns = clock.ns_per_entry(step, min(2, n_repeats))
            found.append((name, "core", 1, ns))
    return memcpy_ns, [KernelTiming(*row, row[-1] / memcpy_ns) for row in found]


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
            result = aggregate_vectors(
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


def run_bench(
    *,
    dim: int = RESNET18_DIM,
    n_repeats: int = 9,
    with_core: bool = True,
    as_json: bool = False,
) -> list[KernelTiming]:
    """Time the kernels and whole rounds, show the timings, and return the kernels'."""
    memcpy_ns, timings = time_kernels(dim=dim, n_repeats=n_repeats, with_core=with_core)
    rounds = time_rounds(dim=dim, n_clients=N_CLIENTS, n_repeats=min(3, n_repeats))
    if as_json:
        document = _document(dim, n_repeats, memcpy_ns, timings)
        write_json({**document, "rounds": [asdict(cost) for cost in rounds]})
    else:
        _show(dim, n_repeats, memcpy_ns, timings)
        _show_rounds(rounds)
    return timings


def _document(
    dim: int, n_repeats: int, memcpy_ns: float, timings: list[KernelTiming]
) -> dict[str, Any]:
    return {
        "dim": dim,
        "statistic": f"best of {n_repeats}, cold caches",
        "isa": native.isa(),
        "memcpy_ns_per_entry": memcpy_ns,
        "kernels": [asdict(timing) for timing in timings],
    }


def _show(
    dim: int, n_repeats: int, memcpy_ns: float, timings: list[KernelTiming]
) -> None:
    console = open_console()
    console.print(
        f"{dim:,} float32 entries, best of {n_repeats} (core: of 2), cold caches; "
        f"instruction set {native.isa() or 'none, kernels not in use'}; "
        f"one memcpy takes {memcpy_ns:.2f} ns an entry"
    )
    table = Table("kernel", "backend")
    for heading in ("threads", "ns/entry", "x memcpy"):
        table.add_column(heading, justify="right")
    for timing in timings:
        table.add_row(
            timing.name,
            timing.backend,
            str(timing.threads),
            f"{timing.ns_per_entry:.2f}",
            f"{timing.ratio_to_memcpy:.2f}",
        )
    console.print(table)


def _show_rounds(rounds: list[RoundCost]) -> None:
    console = open_console()
    for cost in rounds:
        console.print(
            f"one FediAC round of {cost.n_clients} clients, {cost.n_packets:,} packets "
            f"through the switch, {count(cost.threads, 'thread')}, {cost.name}: "
            f"{cost.seconds:.2f} s"
        )
