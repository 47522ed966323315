"""Networks: defaults, and one clear line for what cannot be one."""

import math
from collections.abc import Callable

import pytest

from fediac.sim import (
    Bounded,
    Downlink,
    Network,
    Server,
    constant_uplinks,
    paper_switch,
)
from tests.support import refuses

FAST = paper_switch("fast")


def test_downloads_are_five_times_as_fast_as_the_mean_upload() -> None:
    uplinks = constant_uplinks(1, 100.0) + constant_uplinks(1, 500.0)
    assert Network(uplinks, FAST).download_rate == 1500.0
    assert Network(uplinks, FAST, downlink=Downlink(70.0)).download_rate == 70.0
    assert Network(uplinks, FAST).upload_rate == 600.0


def test_the_far_server_has_its_defaults() -> None:
    server = Server()
    assert 1.0 / server.service.mean_s == pytest.approx(83_000.0, rel=1e-6)
    assert server.delay_s == 0.02


def test_compute_time_is_one_number_or_one_a_client() -> None:
    uplinks = constant_uplinks(2, 100.0)
    assert Network(uplinks, FAST, compute_s=0.5).compute_ps(1) == 5 * 10**11
    assert Network(uplinks, FAST, compute_s=(0.5, 2.0)).compute_ps(1) == 2 * 10**12


def test_slots_limit_the_window() -> None:
    assert Bounded(8).window_of("sum") == 8
    assert Bounded(8, window=3).window_of("sum") == 3
    assert Bounded(8, window=30).window_of("sum") == 8
    assert Bounded({"sum": 5}).window_of("sum") == 5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Network((), FAST), "n_clients must be at least 1, got 0"),
        (
            lambda: Network(constant_uplinks(2, 9.0), FAST, compute_s=(1.0,)),
            "compute_s must have 2 entries (clients), got 1",
        ),
        (
            lambda: Network(constant_uplinks(1, 9.0), FAST, compute_s=-1.0),
            "compute_s must be finite and at least 0, got -1.0",
        ),
        (
            lambda: Network(constant_uplinks(1, 9.0), FAST, compute_s=(math.nan,)),
            "compute_s must be finite and at least 0, got nan",
        ),
        (
            lambda: Network(constant_uplinks(1, 9.0), FAST, compute_s=1e9),
            "compute_s must be at most 2305843 s (the clock's end), got 1000000000.0",
        ),
        (
            lambda: Network(constant_uplinks(1, 9.0), FAST, compute_s=1e300),
            "compute_s must be at most 2305843 s (the clock's end), got 1e+300",
        ),
        (
            lambda: Downlink(rate=0.0),
            "rate must be finite and above 0, got 0.0",
        ),
        (
            lambda: Downlink(speedup=math.nan),
            "speedup must be finite and above 0, got nan",
        ),
        (
            lambda: Server(delay_s=-0.1),
            "delay_s must be finite and at least 0, got -0.1",
        ),
        (lambda: Bounded(0), "n_slots must be at least 1, got 0"),
        (lambda: Bounded({"sum": 0}), "n_slots must be at least 1, got 0"),
        (lambda: Bounded(1, window=0), "window must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_a_network_is_refused(
    make: Callable[[], object], message: str
) -> None:
    with refuses(message):
        make()
