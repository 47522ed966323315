"""The simulator, its C kernels and a plain reference agree to the picosecond."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fediac import native
from fediac.core.ledger import Ledger
from fediac.core.rng import Stream
from fediac.native.queueing import queue_kernels
from fediac.sim import (
    Bounded,
    Downlink,
    Network,
    Rates,
    Server,
    Uplink,
    compiled,
    deterministic,
    exponential,
    gaussian,
    simulate_round,
    unbounded,
)
from fediac.sim.arrivals import Sender
from fediac.sim.draws import Draws
from fediac.sim.packet_groups import list_steps
from fediac.sim.queues import Queue
from tests.planes import require_native
from tests.reference.draws import PS
from tests.reference.queueing import Simulation
from tests.unit.sim.rounds import block_sum, contents, exchange, ledger

SERVICES = (
    gaussian(3.03e-6),
    exponential(2e-4),
    deterministic(1e-3),
    gaussian(1e-5, 1e-5),
)
RATES = st.sampled_from([0.0, 0.5, 40.0, 700.0, 2800.0, 1e5])


@dataclass(frozen=True)
class Case:
    rows: Ledger
    network: Network
    seed: int
    start_s: float


@st.composite
def traces(draw: st.DrawFn) -> Rates:
    rates = draw(st.lists(RATES, min_size=1, max_size=4))
    return Rates(np.array([*rates, draw(RATES.filter(bool))]))


@st.composite
def ledgers(draw: st.DrawFn, n_clients: int) -> Ledger:
    counts = st.integers(0, 30_000)
    blocks = st.lists(
        st.lists(st.integers(0, 25), unique=True, max_size=12).map(sorted),
        min_size=n_clients,
        max_size=n_clients,
    )
    n_votes, n_pairs, n_cold = draw(counts), draw(counts) // 40, draw(counts) // 40
    every = [
        exchange("max", 0, 32, n_clients=n_clients),
        exchange("tally", n_votes, 1, n_clients=n_clients, step=1),
        exchange("sum", n_votes // 4, 12, n_clients=n_clients, step=2),
        exchange(
            "indexedsum", n_pairs, 64, n_clients=n_clients, n_down=2 * n_pairs, step=3
        ),
        exchange(
            "serversum", n_cold, 64, n_clients=n_clients, n_down=3 * n_cold, step=3
        ),
        block_sum(draw(blocks), step=4),
        exchange(
            "serversum", n_votes // 8, 32, n_clients=n_clients, step=5, phase="dense"
        ),
    ]
    bits_up, bits_down = draw(st.sampled_from([(4, 8), (6, 10), (8, 12), (5, 32)]))
    every.append(
        exchange("sum", n_votes // 4, bits_down, n_clients=n_clients, step=6,
                 bits_up=bits_up, phase="wide")
    )  # fmt: skip
    kept = draw(st.lists(st.sampled_from(range(8)), min_size=1, unique=True))
    return ledger(*(rows for i, rows in enumerate(every) if i in kept))


CLIENTS = st.sampled_from(["twins", "strangers"])

MEMORIES = st.none() | st.builds(
    Bounded, st.integers(1, 12), st.none() | st.integers(1, 12)
)


@st.composite
def cases(draw: st.DrawFn, memories: st.SearchStrategy[Any] = MEMORIES) -> Case:
    n_clients = draw(st.integers(1, 5))
    uplinks = [
        Uplink(draw(traces()), draw(st.integers(0, 5))) for _ in range(n_clients)
    ]
    network = Network(
        uplinks=tuple(uplinks),
        switch=draw(st.sampled_from(SERVICES)),
        downlink=Downlink(service=draw(st.sampled_from(SERVICES))),
        server=Server(
            draw(st.sampled_from(SERVICES)), draw(st.sampled_from([0.0, 0.02]))
        ),
        compute_s=tuple(draw(st.sampled_from([0.0, 0.25, 1.5])) for _ in uplinks),
        memory=draw(memories),
    )
    seed = draw(st.integers(0, 2**32))
    return Case(
        draw(ledgers(n_clients)), network, seed, draw(st.sampled_from([0.0, 7.75]))
    )


def simulate(case: Case) -> Any:
    return simulate_round(
        case.rows,
        case.network,
        seed=case.seed,
        round_number=1,
        start_s=case.start_s,
        keeps_packets=True,
    )


def refer(case: Case) -> Any:
    """Return what the reference makes of a case, event by event."""
    start_ps = round(case.start_s * PS)
    return Simulation(
        case.rows.rows, case.network, seed=case.seed, start_ps=start_ps
    ).run()


@given(cases())
@settings(max_examples=60, deadline=None)
def test_every_packet_is_served_when_the_reference_serves_it(case: Case) -> None:
    with native.disabled():
        timing = simulate(case)
    expected = refer(case)
    assert [tuple(row) for row in timing.packets.tolist()] == expected.packets
    finish = {each.client: each.finish_s for each in timing.clients}
    assert finish == {c: time / PS for c, time in sorted(expected.finish.items())}
    assert timing.max_waiting == expected.max_waiting
    assert timing.max_open_slots == expected.max_open


@given(cases())
@settings(max_examples=60, deadline=None)
def test_littles_law_and_the_utilization_law_hold(case: Case) -> None:
    """The reference adds up the queue's length over time; the simulator never does."""
    with native.disabled():
        timing = simulate(case)
    expected = refer(case)
    switch = timing.switch
    area = switch.mean_waiting * timing.round_s
    # Two roundings of a 53-bit product and quotient each.
    assert area == pytest.approx(expected.area / PS, rel=1e-14, abs=1e-18)
    assert switch.n_packets * switch.mean_wait_s == pytest.approx(area, rel=1e-14)
    busy = sum(row[6] - row[5] for row in expected.packets)
    assert switch.utilization * timing.round_s == pytest.approx(busy / PS, rel=1e-14)
    series = timing.series
    assert series.utilization.sum() * series.bin_s == pytest.approx(
        busy / PS, rel=1e-12
    )
    assert series.waiting.max() == timing.max_waiting
    assert series.open_slots.max() == timing.max_open_slots


@given(cases())
@settings(max_examples=100, deadline=None)
def test_kernels_give_the_same_times(case: Case) -> None:
    require_native()
    compiled_timing = simulate(case)
    with native.disabled():
        assert contents(simulate(case)) == contents(compiled_timing)


@given(cases(memories=st.none()), st.integers(1, 40), CLIENTS)
@settings(max_examples=60, deadline=None)
def test_no_chunk_size_changes_a_packet(case: Case, chunk: int, kind: str) -> None:
    whole = logs(case, chunk=unbounded.CHUNK, are_twins=kind == "twins")
    assert logs(case, chunk=chunk, are_twins=kind == "twins") == whole


@given(cases(memories=st.none()), st.integers(1, 200), CLIENTS)
@settings(max_examples=60, deadline=None)
def test_no_batch_size_changes_a_packet(case: Case, batch: int, kind: str) -> None:
    require_native()
    whole = logs(case, chunk=unbounded.CHUNK, are_twins=kind == "twins")
    assert logs(case, batch=batch, are_twins=kind == "twins") == whole


@given(cases(memories=st.none()))
@settings(max_examples=30, deadline=None)
def test_of_packets_that_arrive_together_the_lower_client_is_first(case: Case) -> None:
    for packets, *_ in logs(case, chunk=7, are_twins=True):
        order = [(row[3], row[0], row[1], row[2]) for row in packets]
        assert order == sorted(order)


def logs(case: Case, *, chunk: int = 0, batch: int = 0, are_twins: bool = False) -> Any:
    """All packets of every step, each step begun at time 0, and the switch at the end.

    Twins have one uplink and one stream of random numbers, so all their packets arrive
    at the same times.
    """
    found = []
    for step in list_steps(case.rows.rows, case.network.view, None):
        switch = unbounded.SimulatedSwitch(
            server("switch", case), server("server", case), 20
        )
        switch.log = []
        senders = [sender(case, 0 if are_twins else client) for client in step.clients]
        if batch:
            kernels = queue_kernels()
            assert kernels is not None
            uploads = compiled.upload(kernels, step, senders, switch, batch=batch)
        else:
            uploads = unbounded.upload(step, senders, switch, chunk=chunk)
        monitor = switch.monitor
        found.append(
            [
                np.concatenate(switch.log).tolist(),
                [each.tolist() for each in uploads.done],
                uploads.last_arrival.tolist(),
                [switch.queue.wait_ps, switch.queue.busy_ps, switch.far.wait_ps],
                [monitor.shift, monitor.n_open, monitor.pending.tolist()],
                [monitor.waiting().tolist(), monitor.most_open.tolist()],
            ]
        )
    return found


def sender(case: Case, client: int) -> Sender:
    gaps = Draws(Stream(case.seed, 1, client, "uplink"), start=client)
    return Sender(case.network.uplinks[client], gaps, origin_ps=0, start_ps=0)


def server(name: str, case: Case) -> Queue:
    return Queue(Draws(Stream(case.seed, 1, 0, name), table=case.network.switch.table))


@given(cases(memories=st.none()))
@settings(max_examples=40, deadline=None)
def test_a_window_that_never_closes_changes_nothing(case: Case) -> None:
    rows = Ledger(tuple(row for row in case.rows.rows if row.kind != "blocksum"))
    if not rows.rows:
        return
    bounded = replace(case.network, memory=Bounded(10**6))
    first = simulate(replace(case, rows=rows))
    second = simulate(replace(case, rows=rows, network=bounded))
    assert contents(first) == contents(second)
