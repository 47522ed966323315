"""Rates of clients: from numbers and from traces."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from fediac.sim import Rates, Uplink, constant_uplinks, trace_uplinks, uniform_uplinks
from fediac.sim.draws import UNIT
from tests.support import refuses


def test_a_table_counts_what_the_rates_allow() -> None:
    rates = Rates(np.array([2.0, 0.0, 0.5]))
    assert rates.totals.tolist() == [0, 2 * UNIT, 2 * UNIT, 5 * UNIT // 2]
    assert rates.ps_per_unit.tolist() == [1e12 / (2 * UNIT), 0.0, 1e12 / (UNIT // 2)]
    assert (rates.n_seconds, rates.mean) == (3, 2.5 / 3)


def test_clipping_moves_rates_into_a_range() -> None:
    rates = Rates(np.array([0.0, 300.0, 9000.0])).clipped(200.0, 2800.0)
    assert rates.per_second.tolist() == [200.0, 300.0, 2800.0]


def test_rates_are_copied() -> None:
    given = np.array([1.0, 2.0])
    rates = Rates(given)
    given[0] = 7.0
    assert rates.per_second.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "rates must be a list of at least 1 number"),
        ([[1.0]], "rates must be a list of at least 1 number"),
        ([1.0, -2.0], "rates must be finite and at least 0, got -2.0 in second 1"),
        ([math.nan], "rates must be finite and at least 0, got nan in second 0"),
        ([math.inf], "rates must be finite and at least 0, got inf in second 0"),
        ([0.0, 0.0], "rates must not all be 0: nothing would ever be sent"),
        (
            [1e-11],
            "rates must not all be below 2.32831e-10 packets/s, got at most 1e-11",
        ),
        ([1e9], "rates must add up to at most 536870912 packets, got 1e+09"),
    ],
)
def test_what_cannot_be_rates_is_refused(given: list[float], message: str) -> None:
    with refuses(message):
        Rates(np.array(given))


def test_constant_rates_are_equal_for_all_clients() -> None:
    uplinks = constant_uplinks(3, 700.0)
    assert [uplink.rates.per_second.tolist() for uplink in uplinks] == [[700.0]] * 3


def test_uniform_rates_stay_in_range_and_follow_the_seed() -> None:
    rates = [u.rates.mean for u in uniform_uplinks(200, seed=1)]
    assert all(200.0 <= rate < 2800.0 for rate in rates)
    assert len(set(rates)) == 200
    assert rates == [u.rates.mean for u in uniform_uplinks(200, seed=1)]
    assert rates != [u.rates.mean for u in uniform_uplinks(200, seed=2)]


def test_client_i_takes_trace_i_mod_n_at_an_offset_of_its_own() -> None:
    traces = [Rates(np.full(length, 100.0)) for length in (50, 60, 70)]
    uplinks = trace_uplinks(7, traces, seed=3)
    assert [each.rates for each in uplinks] == [traces[i % 3] for i in range(7)]
    assert all(0 <= each.offset_s < each.rates.n_seconds for each in uplinks)
    offsets = [each.offset_s for each in uplinks]
    assert len(set(offsets)) > 1
    assert offsets == [each.offset_s for each in trace_uplinks(7, traces, seed=3)]
    assert offsets != [each.offset_s for each in trace_uplinks(7, traces, seed=4)]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: constant_uplinks(0, 700.0), "n_clients must be at least 1, got 0"),
        (
            lambda: Uplink(Rates(np.array([1.0])), -1),
            "offset_s must be at least 0, got -1",
        ),
        (lambda: trace_uplinks(1, [], seed=1), "traces must hold at least 1 trace"),
        (
            lambda: uniform_uplinks(1, 3.0, 2.0, seed=1),
            "uniform rates must have 0 < lowest <= highest, got lowest=3.0 and "
            "highest=2.0",
        ),
    ],
)
def test_impossible_uplinks_are_refused(make: Callable[[], object], text: str) -> None:
    with refuses(text):
        make()
