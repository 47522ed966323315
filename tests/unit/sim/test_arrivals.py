"""Arrivals: a Poisson process that follows its trace to the second."""

import numpy as np
import pytest

from fediac.core.rng import Stream
from fediac.sim import Rates, Uplink
from fediac.sim.arrivals import Sender
from fediac.sim.clock import PS_PER_S
from fediac.sim.draws import Draws


def sender(
    rates: list[float],
    *,
    offset_s: int = 0,
    origin_s: float = 0.0,
    start_s: float = 0.0,
) -> Sender:
    return Sender(
        Uplink(Rates(np.array(rates)), offset_s),
        Draws(Stream(1, 1, 1, "gaps")),
        origin_ps=round(origin_s * PS_PER_S),
        start_ps=round(start_s * PS_PER_S),
    )


def test_constant_rates_divide_the_exponentials() -> None:
    gaps = Draws(Stream(1, 1, 1, "gaps")).take(1000)
    expected = np.cumsum(gaps) / 2.0**32 / 250.0
    times = sender([250.0]).arrivals(1000) / PS_PER_S
    # A place in 2**-32 packets, cut to whole picoseconds.
    assert np.abs(times - expected).max() < 2e-12 + 2.0**-32 / 250.0 + 1e-15 * 8


def test_a_second_of_rate_zero_is_silence() -> None:
    times = sender([0.0, 1000.0, 0.0]).arrivals(5000)
    seconds = times // PS_PER_S % 3
    assert set(seconds.tolist()) == {1}
    assert times[-1] > 10 * PS_PER_S


def test_traces_wrap_at_their_end() -> None:
    short = sender([300.0, 900.0]).arrivals(4000)
    long = sender([300.0, 900.0] * 7).arrivals(4000)
    assert np.array_equal(short, long)


def test_an_offset_and_an_origin_both_move_into_the_trace() -> None:
    rates = [100.0, 500.0, 2000.0, 50.0]
    expected = sender(rates[2:] + rates[:2]).arrivals(3000)
    assert np.array_equal(sender(rates, offset_s=2).arrivals(3000), expected)
    assert np.array_equal(sender(rates, origin_s=2.0).arrivals(3000), expected)
    both = sender(rates, offset_s=5, origin_s=1.0)
    assert np.array_equal(both.arrivals(3000), expected)


@pytest.mark.parametrize("start_s", [0.0, 0.3, 1.999999999999, 2.5, 17.25])
def test_nothing_arrives_before_the_start(start_s: float) -> None:
    times = sender([0.001, 3000.0, 0.0], start_s=start_s).arrivals(1000)
    assert times[0] >= round(start_s * PS_PER_S)
    assert np.all(np.diff(times) >= 0)


def test_single_arrivals_are_those_of_a_chunk() -> None:
    rates = [0.0, 700.0, 20.0, 1e5, 0.0]
    every = sender(rates, offset_s=3, start_s=0.4).arrivals(3000).tolist()
    one = sender(rates, offset_s=3, start_s=0.4)
    assert [one.next_arrival() for _ in range(3000)] == every
    mixed = sender(rates, offset_s=3, start_s=0.4)
    found = mixed.arrivals(700).tolist()
    found += [mixed.next_arrival() for _ in range(900)]
    assert found + mixed.arrivals(1400).tolist() == every
