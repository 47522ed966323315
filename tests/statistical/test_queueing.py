"""Queues and links behave as theory says: Pollaczek-Khinchine, Poisson, round times.

The waits of neighbouring packets depend on each other, so a mean wait is judged by
independent runs: each gives one mean over many packets, after a warm-up, and Student's
t says how far the mean of those may be from theory. With ``N_RUNS`` runs and nine
checks, correct code fails with probability 1e-6. What is missed as seldom is an error
of twice the interval's half width, which is stated with each load.
"""

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from fediac.core.ledger import Row
from fediac.core.rng import Stream
from fediac.sim import (
    Network,
    Rates,
    Service,
    Uplink,
    constant_uplinks,
    deterministic,
    exponential,
    gaussian,
    paper_switch,
    simulate_round,
)
from fediac.sim.arrivals import Sender
from fediac.sim.clock import PS_PER_S
from fediac.sim.draws import UNIT, Draws
from tests.planes import require_native
from tests.statistical.tails import FALSE_ALARM, means_are_likely
from tests.unit.sim.rounds import exchange, packets

Ints: TypeAlias = NDArray[np.int64]
Waits: TypeAlias = Callable[[Ints, Ints], Ints]
"""Arrivals and service times -> waits."""

MEAN_S = 3.03e-6
SERVICES = {
    "exponential": exponential(MEAN_S),
    "deterministic": deterministic(MEAN_S),
    "Gaussian": gaussian(MEAN_S, MEAN_S / 3.0),
}
LOADS = {0.3: 0.014, 0.7: 0.024, 0.95: 0.13}
"""Load -> half width of the interval, relative to the mean wait, at most.

For exponential service the variance of a mean over n waits tends to
r(2 + 5r - 4r^2 + r^3) / (1 - r)^4 / n squared service times at load r, which makes half
widths of 0.9 %, 1.6 % and 8 %; half as much again is for the estimate of the variance.
The other services vary less.
"""

N_RUNS = 64
N_CLIENTS = 4
N_WARM_UP = 50_000
N_COUNTED = 150_000


def mean_wait_s(service: Service, load: float) -> float:
    """The Pollaczek-Khinchine formula."""
    second_moment = service.variance_s2 + service.mean_s**2
    rate = load / service.mean_s
    return rate * second_moment / (2.0 * (1.0 - load))


def simulated_packets(service: Service, load: float, seed: int) -> NDArray[np.int64]:
    """Packets at a switch while all clients send, after a warm-up.

    A queue at load 0.95 forgets within about 2 / (1 - sqrt(load))^2 = 3,100 service
    times by a factor of e, so nothing is left of the empty start after the warm-up.
    """
    rate = load / service.mean_s / N_CLIENTS
    network = Network(constant_uplinks(N_CLIENTS, rate), service)
    n_each = (N_WARM_UP + N_COUNTED) // N_CLIENTS + 2000
    timing = simulate_round(
        packets(n_each, n_clients=N_CLIENTS),
        network,
        seed=seed,
        round_number=1,
        keeps_packets=True,
    )
    log = timing.packets
    assert log is not None
    return log[N_WARM_UP : N_WARM_UP + N_COUNTED]


def simulated_waits(service: Service, load: float) -> list[float]:
    logs = (simulated_packets(service, load, seed) for seed in range(N_RUNS))
    return [float(np.mean(log[:, 5] - log[:, 4])) / PS_PER_S for log in logs]


def interval(means: Sequence[float], n_checks: int) -> tuple[float, float]:
    """Middle and half width of Student's interval."""
    quantile = float(stats.t.isf(FALSE_ALARM / n_checks / 2.0, len(means) - 1))
    spread = float(np.std(means, ddof=1)) / math.sqrt(len(means))
    return float(np.mean(means)), quantile * spread


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("name", SERVICES)
def test_mean_waits_are_those_of_pollaczek_and_khinchine(
    name: str, load: float
) -> None:
    require_native()  # the same times come out of NumPy, but not within minutes
    service = SERVICES[name]
    means = simulated_waits(service, load)
    middle, half = interval(means, len(LOADS) * len(SERVICES))
    expected = mean_wait_s(service, load)
    assert half < LOADS[load] * expected
    assert abs(middle - expected) <= half


def forget_who_is_served(arrivals: Ints, services: Ints) -> Ints:
    """A server that starts a packet when the one before has started."""
    del services
    return np.maximum.accumulate(arrivals) - arrivals


def count_service(arrivals: Ints, services: Ints) -> Ints:
    """Time in the system instead of time in the queue."""
    return _lindley(arrivals, services) + services


def serve_by_the_mean(arrivals: Ints, services: Ints) -> Ints:
    """All packets take the mean time: the variance is lost."""
    return _lindley(arrivals, np.full_like(services, int(services.mean())))


def _lindley(arrivals: Ints, services: Ints) -> Ints:
    before = np.cumsum(services) - services
    waits: Ints = before + np.maximum.accumulate(arrivals - before) - arrivals
    return waits


@pytest.mark.parametrize(
    "wrong", [forget_who_is_served, count_service, serve_by_the_mean]
)
def test_control_wrong_queues_are_noticed(wrong: Waits) -> None:
    require_native()
    service, load = SERVICES["exponential"], 0.7
    means = []
    for seed in range(8):
        log = simulated_packets(service, load, seed)
        waits = wrong(log[:, 4], log[:, 6] - log[:, 5])
        means.append(float(np.mean(waits)) / PS_PER_S)
    middle, half = interval(means, 1)
    assert abs(middle - mean_wait_s(service, load)) > half


class TestUplinks:
    """Counts of a Poisson process, second by second."""

    RATES = (40.0, 2800.0, 0.0, 700.0, 0.5)
    N_LAPS = 400

    def counts(self, sender: Sender, n_packets: int) -> NDArray[np.int64]:
        times = sender.arrivals(n_packets)
        n_seconds = self.N_LAPS * len(self.RATES)
        assert times[-1] > n_seconds * PS_PER_S
        seconds = times[times < n_seconds * PS_PER_S] // PS_PER_S
        return np.bincount(seconds, minlength=n_seconds)

    def sender(self, rates: Sequence[float]) -> Sender:
        gaps = Draws(Stream(3, 1, 2, "sim uplink"))
        return Sender(Uplink(Rates(np.array(rates))), gaps, origin_ps=0, start_ps=0)

    def are_likely(self, counts: NDArray[np.int64]) -> bool:
        """Exact tails of each second's count, and of its dispersion over the laps."""
        rates = np.tile(self.RATES, self.N_LAPS)
        tails = np.minimum(
            stats.poisson.cdf(counts, rates), stats.poisson.sf(counts - 1, rates)
        )
        by_lap = counts.reshape(self.N_LAPS, -1)
        dispersion = []
        for column, rate in zip(by_lap.T, self.RATES, strict=True):
            if rate > 10.0:  # where chi-squared is a good approximation
                statistic = float(np.sum((column - rate) ** 2)) / rate
                dispersion += [
                    stats.chi2.cdf(statistic, self.N_LAPS),
                    stats.chi2.sf(statistic, self.N_LAPS),
                ]
        n_checks = len(counts) + len(dispersion)
        return bool(2.0 * min(tails.min(), *dispersion) >= FALSE_ALARM / n_checks)

    def test_counts_follow_the_trace(self) -> None:
        n_packets = int(1.1 * self.N_LAPS * sum(self.RATES))
        assert self.are_likely(self.counts(self.sender(self.RATES), n_packets))

    def test_control_a_trace_one_second_late_is_noticed(self) -> None:
        late = self.RATES[-1:] + self.RATES[:-1]
        n_packets = int(1.1 * self.N_LAPS * sum(self.RATES))
        assert not self.are_likely(self.counts(self.sender(late), n_packets))

    def test_control_evenly_spaced_packets_are_noticed(self) -> None:
        counts = np.tile(np.rint(self.RATES).astype(np.int64), self.N_LAPS)
        assert not self.are_likely(counts)

    def test_gaps_are_exponential(self) -> None:
        gaps = Draws(Stream(3, 1, 2, "sim uplink")).take(400_000) / UNIT
        thresholds = np.linspace(0.05, 6.0, 40)
        shares = np.array([np.mean(gaps < each) for each in thresholds])
        # The Hoeffding margin is 0.0047.
        assert means_are_likely(shares, -np.expm1(-thresholds), len(gaps))

    def test_control_gaps_of_half_the_spread_are_noticed(self) -> None:
        gaps = Draws(Stream(3, 1, 2, "sim uplink")).take(800_000) / UNIT
        gaps = (gaps[::2] + gaps[1::2]) / 2.0
        thresholds = np.linspace(0.05, 6.0, 40)
        shares = np.array([np.mean(gaps < each) for each in thresholds])
        assert not means_are_likely(shares, -np.expm1(-thresholds), len(gaps))


class TestSwitchML:
    """ResNet-18 at 12 bits is 11,174 packets, and one more for the peak.

    At 200 packets a second they take 55.875 s in expectation, with a standard
    deviation of sqrt(11,175) / 200 = 0.53 s a round. Over all rounds the time is a
    Gamma variable, of which the tails are exact; services add microseconds.
    """

    N_ROUNDS = 40
    N_PACKETS = 11_175

    def rows(self, n_packets: int) -> list[Row]:
        rows = exchange("max", 0, 32, n_clients=1, phase="peak")
        return rows + packets(n_packets - 1, step=1)

    def upload_s(self, n_packets: int) -> float:
        network = Network(constant_uplinks(1, 200.0), paper_switch("fast"))
        rounds = [
            simulate_round(self.rows(n_packets), network, seed=seed, round_number=1)
            for seed in range(self.N_ROUNDS)
        ]
        return sum(phase.upload_s for each in rounds for phase in each.phases)

    def is_likely(self, upload_s: float) -> bool:
        gamma = stats.gamma(self.N_ROUNDS * self.N_PACKETS, scale=1.0 / 200.0)
        tail = min(gamma.cdf(upload_s), gamma.sf(upload_s))
        return bool(2.0 * tail >= FALSE_ALARM)

    def test_a_round_at_200_packets_a_second_takes_56_seconds(self) -> None:
        total = self.upload_s(self.N_PACKETS)
        assert self.is_likely(total)
        # 0.53 s / sqrt(40 rounds) = 0.084 s; five of these are 0.42 s.
        assert total / self.N_ROUNDS == pytest.approx(55.9, abs=0.45)

    def test_control_one_percent_more_packets_are_noticed(self) -> None:
        assert not self.is_likely(self.upload_s(self.N_PACKETS * 101 // 100))
