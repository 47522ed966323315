"""Whole rounds: what must hold whatever the random numbers are."""

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from fediac import native
from fediac.core.ledger import Ledger, Row
from fediac.errors import FediacError
from fediac.sim import (
    Bounded,
    Downlink,
    Network,
    Pause,
    Rates,
    RoundTiming,
    Server,
    Uplink,
    constant_uplinks,
    deterministic,
    paper_switch,
    paper_uplinks,
    simulate_round,
)
from fediac.sim import simulate as simulate_module
from fediac.sim.packet_groups import Step, list_steps
from tests.planes import PLANES, data_plane
from tests.support import refuses
from tests.unit.sim.rounds import block_sum, contents, exchange, ledger, packets

NETWORK = Network(paper_uplinks(4, seed=1), paper_switch("slow"), compute_s=0.25)
ROUND = ledger(
    exchange("max", 0, 32, n_clients=4, phase="peak"),
    exchange("tally", 100_000, 1, n_clients=4, phase="votes", step=1),
    exchange("sum", 30_000, 12, n_clients=4, phase="levels", step=2),
)


@pytest.fixture(params=PLANES, autouse=True)
def _plane(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run every test in NumPy and in C."""
    with data_plane(request.param):
        yield


def simulate(
    rows: Ledger = ROUND, network: Network = NETWORK, **changes: Any
) -> RoundTiming:
    settings = {"seed": 1, "round_number": 1} | changes
    return simulate_round(rows, network, **settings)


def test_the_same_seed_gives_the_same_times_and_another_does_not() -> None:
    first = contents(simulate(keeps_packets=True))
    assert contents(simulate(keeps_packets=True)) == first
    assert contents(simulate(keeps_packets=True, seed=2)) != first


def test_rounds_have_their_own_random_numbers() -> None:
    later = Ledger(tuple(replace(row, round_number=2) for row in ROUND.rows))
    both = ROUND + later
    assert contents(simulate(both)) == contents(simulate(ROUND))
    assert simulate(both, round_number=2).round_s != simulate(ROUND).round_s


def test_traces_go_on_across_rounds() -> None:
    assert simulate(start_s=100.0).round_s != simulate().round_s


def test_compute_and_phases_add_up_to_the_round() -> None:
    timing = simulate()
    assert [phase.name for phase in timing.phases] == ["peak", "votes", "levels"]
    total = 0.25 + sum(phase.upload_s + phase.download_s for phase in timing.phases)
    assert total == pytest.approx(timing.round_s, rel=1e-12)
    assert sum(timing.shares.values()) == pytest.approx(timing.round_s, rel=1e-12)
    assert timing.shares["compute"] == pytest.approx(0.25, rel=1e-12)
    assert max(each.finish_s for each in timing.clients) == timing.round_s


def all_but_one(share: Fraction) -> dict[int, Fraction]:
    return {client: share for client in range(4) if client != 2}


def test_a_pause_delays_the_phase_that_it_comes_before() -> None:
    pause = Pause("levels", all_but_one(Fraction(1, 2)))
    timing, without = simulate(pauses=[pause]), simulate()
    assert timing.phases[:2] == without.phases[:2]
    total = sum(phase.upload_s + phase.download_s for phase in timing.phases)
    assert timing.shares["compute"] + total == pytest.approx(timing.round_s, rel=1e-12)
    # All have what came before at about the same time, so those who pause decide.
    assert 0.25 + 0.12 < timing.shares["compute"] <= 0.25 + 0.125
    assert [each.compute_s for each in timing.clients] == [0.375, 0.375, 0.25, 0.375]


def test_a_pause_comes_once_before_a_phase_of_several_exchanges() -> None:
    rows = ledger(
        exchange("max", 0, 32, n_clients=4, phase="statistics"),
        exchange("sum", 3000, 24, n_clients=4, phase="statistics", step=1),
    )
    shares = dict.fromkeys(range(4), Fraction(3))
    timing = simulate(rows, pauses=[Pause("statistics", shares)])
    assert timing.shares["compute"] == 0.25 + 0.75


def test_nobody_pauses_where_training_takes_no_time() -> None:
    pauses = [Pause("votes", all_but_one(Fraction(5)))]
    network = replace(NETWORK, compute_s=0.0)
    assert contents(simulate(network=network, pauses=pauses)) == contents(
        simulate(network=network)
    )


def test_packets_are_kept_only_when_asked_for() -> None:
    assert simulate().packets is None
    log = simulate(keeps_packets=True).packets
    assert log is not None
    assert len(log) == 4 * (1 + 9 + 30)
    step, client, exchange_number, number, arrival, start, departure = log.T
    assert set(step.tolist()) == {0, 1, 2}
    assert set(client.tolist()) == {0, 1, 2, 3}
    assert set(exchange_number.tolist()) == {0}
    assert number.max() == 29
    assert np.all(arrival <= start)
    assert np.all(start < departure)
    assert np.all(start[1:] >= departure[:-1])


def test_a_client_begins_a_step_when_it_has_all_answers_of_the_last() -> None:
    log = simulate(keeps_packets=True).packets
    assert log is not None
    for step in (1, 2):
        last_departure = log[log[:, 0] == step - 1][:, 6].max()
        assert log[log[:, 0] == step][:, 4].min() > last_departure


def test_a_slow_starter_holds_up_everybody() -> None:
    late = replace(NETWORK, compute_s=(0.0, 0.0, 7.0, 0.0))
    timing = simulate(network=late)
    assert timing.shares["compute"] == pytest.approx(7.0, rel=1e-12)
    assert timing.round_s > 7.0
    assert min(each.finish_s for each in timing.clients) > 7.0


def test_clients_may_be_fewer_than_the_networks() -> None:
    rows = Ledger(tuple(row for row in ROUND.rows if row.client in (1, 3)))
    timing = simulate(rows)
    assert [each.client for each in timing.clients] == [1, 3]
    assert timing.slowest_client in (1, 3)


def test_far_packets_go_there_and_back() -> None:
    timing = simulate(ledger(exchange("serversum", 300, 32, n_clients=4)))
    assert timing.server is not None
    assert timing.server.n_packets == 4
    assert timing.shares["server"] > 2 * 0.02
    assert simulate().server is None


def test_exchanges_that_travel_together_share_the_uplink() -> None:
    together = ledger(
        exchange("indexedsum", 2000, 64, n_clients=4, n_down=3000),
        exchange("serversum", 2000, 64, n_clients=4, n_down=3000),
    )
    timing = simulate(together, keeps_packets=True)
    log = timing.packets
    assert log is not None
    for client in range(4):
        mine = log[log[:, 1] == client]
        assert mine[:, 2].tolist() == [0] * 11 + [1] * 11
        assert mine[:, 3].tolist() == [*range(11), *range(11)]
    assert timing.phases[0].upload_s < timing.phases[1].upload_s


@pytest.mark.parametrize("memory", [None, Bounded(5)])
def test_an_overloaded_switch_ends_and_says_so(memory: Bounded | None) -> None:
    network = Network(constant_uplinks(4, 1000.0), deterministic(1e-3), memory=memory)
    timing = simulate(network=network)
    assert timing.switch.load == pytest.approx(4.0, rel=1e-9)
    assert timing.is_overloaded
    assert timing.bottleneck.startswith("switch (")
    assert timing.bottleneck.endswith("; the switch is overloaded (load 4.00)")
    # 160 packets of a millisecond each.
    assert timing.round_s > 0.16


def test_an_overloaded_server_is_named() -> None:
    network = Network(constant_uplinks(4, 50_000.0), paper_switch("fast"))
    timing = simulate(ledger(exchange("serversum", 9000, 32, n_clients=4)), network)
    assert timing.bottleneck.endswith("; the server is overloaded (load 2.41)")


def test_the_switch_is_not_overloaded_by_the_papers_clients() -> None:
    timing = simulate(network=replace(NETWORK, compute_s=0.0))
    assert not timing.is_overloaded
    slowest = timing.slowest_client
    assert timing.bottleneck.startswith(f"uplinks, client {slowest} the slowest (")


@pytest.mark.parametrize("window", [1, 2, 7])
def test_bounded_memory_keeps_within_its_slots(window: int) -> None:
    bounded = replace(NETWORK, memory=Bounded(window))
    timing = simulate(network=bounded)
    assert timing.max_open_slots <= window
    assert timing.series.open_slots.max() == timing.max_open_slots
    assert simulate().max_open_slots > 7


def test_a_closed_window_costs_time() -> None:
    slow_answers = replace(NETWORK, downlink=Downlink(rate=200.0))
    free = simulate(network=slow_answers).round_s
    one = simulate(network=replace(slow_answers, memory=Bounded(1))).round_s
    assert one > 1.5 * free


def test_waiting_for_answers_is_not_sending() -> None:
    slow_answers = replace(NETWORK, downlink=Downlink(rate=20.0), compute_s=0.0)
    timing = simulate(network=replace(slow_answers, memory=Bounded(1)))
    sending = max(each.uplink_s for each in timing.clients)
    assert sending < 0.5 * timing.shares["uplinks"]
    assert timing.bottleneck.startswith("downlinks (")


@pytest.mark.parametrize("memory", [None, Bounded(2)])
def test_a_client_with_nothing_to_send_still_gets_the_answers(
    memory: Bounded | None,
) -> None:
    rows = block_sum([[0, 1], []])
    rows = [replace(row, n_bare=0) for row in rows]
    timing = simulate(ledger(rows), replace(NETWORK, memory=memory))
    silent = timing.clients[1]
    assert silent.uplink_s == 0.0
    assert silent.finish_s > silent.compute_s + timing.phases[0].upload_s


def test_block_sums_run_in_little_memory() -> None:
    blocks = [list(range(i, 200, i + 1)) for i in range(4)]
    rows = ledger(block_sum(blocks))
    for window in (1, 3, 50):
        timing = simulate(rows, replace(NETWORK, memory=Bounded(window)))
        assert timing.max_open_slots <= window


def test_clients_that_wait_forever_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def impossible(*arguments: Any) -> list[Step]:
        (step,) = list_steps(*arguments)
        (plan,) = step.exchanges
        for flow in plan.flows.values():
            assert flow.needs is not None
            flow.needs[1] = 99
        return [step]

    monkeypatch.setattr(simulate_module, "list_steps", impossible)
    with pytest.raises(
        FediacError, match=r"^all clients wait for answers that never come$"
    ):
        simulate(ledger(block_sum([[0, 5]])), replace(NETWORK, memory=Bounded(1)))


def test_waits_that_outlast_the_clock_are_not_taken_for_endless() -> None:
    # One second in a hundred thousand is not silent, and most packets miss it.
    bursts = np.zeros(100_000)
    bursts[0] = 100_000.0
    slow = Network((Uplink(Rates(bursts)),), paper_switch("fast"), memory=Bounded(1))
    assert simulate(ledger(packets(200)), slow).round_s > 40 * 86400
    text = "memory must let a round end within 53 days (the clock's end), got "
    with refuses(f"{text}264 of 300 packets of sum by then"):
        simulate(ledger(packets(300)), slow)


def test_a_run_may_last_for_years() -> None:
    """A round's clock starts anew; its traces go on, in laps of theirs."""
    lap_s = math.lcm(*(each.rates.n_seconds for each in NETWORK.uplinks))
    late = simulate(ROUND, start_s=float(lap_s * (10**9 // lap_s)))
    assert late.round_s == pytest.approx(simulate(ROUND).round_s, rel=1e-6)


@pytest.mark.parametrize(
    ("rows", "changes", "message"),
    [
        (ROUND, {"round_number": 2}, "ledger has no rows of round 2"),
        (Ledger(), {}, "ledger has no rows of round 1"),
        (
            ledger(packets(1, n_clients=5)),
            {},
            "network has 4 clients but the ledger has a row of client 4",
        ),
        (
            ROUND,
            {"start_s": float("nan")},
            "start_s must be finite and at least 0, got nan",
        ),
        (ROUND, {"seed": -1}, "seed must be in 0..2**64-1, got -1"),
        (
            ROUND,
            {"pauses": [Pause("vote", {})]},
            "pauses must come before a phase of the round (peak, votes, levels), "
            "got 'vote'",
        ),
        (
            ROUND,
            {"pauses": [Pause("votes", {1: Fraction(1 << 24)})]},
            "compute_s must let client 1 compute at most 2305843 s in a round (the "
            "clock's end), got 4194304",
        ),
    ],
)
def test_what_cannot_be_simulated_is_refused(
    rows: Ledger, changes: dict[str, Any], message: str
) -> None:
    with refuses(message):
        simulate(rows, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"uplinks": constant_uplinks(1, 1e-3)},
            "rates must let client 0 send 18000 packets within 6 days, "
            "got 0.001 packets/s",
        ),
        (
            {"switch": deterministic(33.0)},
            "switch must serve 18000 packets within 6 days, got 33 s each",
        ),
        (
            {"server": Server(deterministic(33.0))},
            "server must serve 9000 packets within 6 days, got 33 s each",
        ),
        (
            {"downlink": Downlink(service=deterministic(33.0))},
            "downlink must serve 18000 packets within 6 days, got 33 s each",
        ),
        (
            {"downlink": Downlink(rate=1e-3)},
            "downlink must let a client receive 18000 packets within 6 days, "
            "got 0.001 packets/s",
        ),
        (
            {"downlink": Downlink(speedup=1e-5)},
            "rates must let a client receive 18000 packets within 6 days, "
            "got 0.005 packets/s",
        ),
    ],
)
def test_a_round_longer_than_the_clock_is_refused(
    changes: dict[str, Any], message: str
) -> None:
    network = Network(constant_uplinks(1, 500.0), paper_switch("fast"))
    rows = ledger(packets(9000), exchange("serversum", 9000 * 375, 32, n_clients=1))
    with refuses(message):
        simulate(rows, replace(network, **changes))


def test_rows_may_be_given_without_a_ledger() -> None:
    rows: list[Row] = list(ROUND.rows)
    assert contents(simulate_round(rows, NETWORK, seed=1, round_number=1)) == contents(
        simulate()
    )


def test_a_queue_longer_than_its_first_memory_is_still_exact() -> None:
    network = Network(constant_uplinks(2, 1e6), deterministic(1e-3))
    timing = simulate(ledger(packets(6000, n_clients=2)), network)
    # All packets are there after some milliseconds, when a few have been served.
    assert 11_900 < timing.max_waiting < 12_000
    with native.disabled():
        again = simulate(ledger(packets(6000, n_clients=2)), network)
    assert contents(again) == contents(timing)
