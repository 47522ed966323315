"""What befalls datagrams: seeded, counted, and as often as asked for."""

import math

import pytest

from fediac.selftest.weather import Faults, Held, Weather
from tests.support import refuses

DATA = bytes(range(200))
N = 20_000


def arrivals(weather: Weather, n: int, *, seed: int = 1) -> list[list[bytes]]:
    faults = Faults(weather, seed)
    return [[data for _, data in faults.befall(DATA)] for _ in range(n)]


def slack(n: int) -> float:
    """How far a share of n coins is from its own, once in 10^6 times (Hoeffding)."""
    return math.sqrt(math.log(2 / 1e-6) / (2 * n))


def test_in_good_weather_everything_arrives_at_once() -> None:
    faults = Faults(Weather(), 1)
    assert [list(faults.befall(DATA)) for _ in range(50)] == [[(0.0, DATA)]] * 50
    assert faults.counts["passed"] == 50


def test_the_same_seed_does_the_same() -> None:
    weather = Weather(0.2, 0.2, 0.2, 0.2)
    assert arrivals(weather, 300) == arrivals(weather, 300)
    assert arrivals(weather, 300) != arrivals(weather, 300, seed=2)


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_as_many_are_lost_as_asked_for(share: float) -> None:
    lost = sum(not each for each in arrivals(Weather(loss=share), N)) / N
    assert abs(lost - share) < slack(N)


def test_as_many_arrive_twice_as_asked_for() -> None:
    twice = sum(each == [DATA, DATA] for each in arrivals(Weather(duplicate=0.1), N))
    assert abs(twice / N - 0.1) < slack(N)


def test_as_many_are_damaged_as_asked_for_and_each_of_them_is() -> None:
    faults = Faults(Weather(corrupt=0.3), 1)
    got = [data for _ in range(N) for _, data in faults.befall(DATA)]
    damaged = [data for data in got if data != DATA]
    assert len(damaged) == faults.counts["corrupt"]
    assert abs(len(damaged) / N - 0.3) < slack(N)
    assert {len(data) < len(DATA) for data in damaged} == {True, False}


def test_those_that_others_overtake_are_held_back_for_a_while() -> None:
    faults = Faults(Weather(reorder=0.3), 1)
    delays = [delay for _ in range(N) for delay, _ in faults.befall(DATA)]
    held = [delay for delay in delays if delay]
    assert abs(len(held) / N - 0.3) < slack(N)
    assert 0.0005 <= min(held) < max(held) <= 0.005


def test_nothing_can_be_cut_off_an_empty_datagram() -> None:
    faults = Faults(Weather(corrupt=0.9), 1)
    assert {data for _ in range(99) for _, data in faults.befall(b"")} == {b""}


def test_what_is_held_goes_in_the_order_of_its_times() -> None:
    held: Held[str] = Held()
    for due, what in ((3.0, "c"), (1.0, "a"), (2.0, "b")):
        held.hold(due, what)
    assert held.due_s == 1.0
    assert list(held.take(2.5)) == ["a", "b"]
    assert (held.due_s, list(held.take(2.5)), list(held.take(3.0))) == (3.0, [], ["c"])
    assert held.due_s is None


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_shares_are_checked(share: float) -> None:
    with refuses(f"loss must be at least 0 and below 1, got {share:g}"):
        Weather(loss=share)
