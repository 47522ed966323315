"""Traffic by expectation is what real rounds of even, independent choices send."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fediac import aggregate
from fediac.compressors import (
    CATALOG,
    Compressor,
    FedAvg,
    FediAC,
    Libra,
    OmniReduce,
    SwitchML,
    TopK,
)
from fediac.core.ledger import Ledger, Row
from fediac.core.widths import LANES, Lanes
from fediac.errors import ArgumentError, ConfigError
from fediac.plan.expected_traffic import ExpectedRound, expected_ledger, list_expected
from fediac.switch import Switch
from tests.support import refuses

DIM, N_CLIENTS = 72_000, 5
N_SENT = 720
N_HOT = Switch().indexed_capacity(N_CLIENTS)


def real_ledger(
    compressor: Compressor, weights: list[int] | None = None
) -> tuple[Ledger, int]:
    """A round of independent Gaussian updates; how many entries it chose."""
    rng = np.random.default_rng(0)
    updates = [rng.standard_normal(DIM).astype(np.float32) for _ in range(N_CLIENTS)]
    result = aggregate(updates, compressor, seed=1, round_number=1, weights=weights)
    return result.ledger, result.facts.chosen


def shape(row: Row) -> Row:
    """A row without its size."""
    return replace(row, n_items=0, blocks=None, n_bare=0)


def same_size(found: Row, expected: Row) -> bool:
    """Counts of independent entries are at most Poisson: six standard deviations."""
    margin = 6.0 * math.sqrt(expected.n_items)
    return abs(found.n_items - expected.n_items) <= margin


DENSE = [("switchml", SwitchML(N_CLIENTS, bits=12)), ("fedavg", FedAvg(N_CLIENTS))]


@pytest.mark.parametrize(("name", "compressor"), DENSE)
def test_weighted_rounds_are_exactly_as_expected(
    name: str, compressor: Compressor
) -> None:
    weights = list(range(1, N_CLIENTS + 1))
    ledger, _ = real_ledger(compressor, weights)
    expected = ExpectedRound(name, compressor, DIM, is_weighted=True)
    assert expected_ledger(expected) == ledger


@pytest.mark.parametrize(("name", "compressor"), DENSE)
def test_dense_rounds_are_exactly_as_expected(
    name: str, compressor: Compressor
) -> None:
    ledger, _ = real_ledger(compressor)
    assert expected_ledger(ExpectedRound(name, compressor, DIM)) == ledger


@pytest.mark.parametrize("lanes", LANES)
def test_narrow_lanes_are_exactly_as_expected(lanes: Lanes) -> None:
    dense = SwitchML(N_CLIENTS, bits=9, lanes=lanes)
    ledger, _ = real_ledger(dense)
    assert expected_ledger(ExpectedRound("switchml", dense, DIM)) == ledger
    voted = FediAC(N_CLIENTS, 3600, 2, bits=9, lanes=lanes)
    ledger, chosen = real_ledger(voted)
    assert expected_ledger(ExpectedRound("fediac", voted, DIM, chosen)) == ledger


@pytest.mark.parametrize("entries_per_vote", [1, 8])
def test_a_fediac_round_of_known_consensus_is_exactly_as_expected(
    entries_per_vote: int,
) -> None:
    compressor = FediAC(
        N_CLIENTS, threshold=2, bits=10, entries_per_vote=entries_per_vote
    )
    ledger, chosen = real_ledger(compressor)
    assert expected_ledger(ExpectedRound("fediac", compressor, DIM, chosen)) == ledger


@pytest.mark.parametrize(
    ("name", "compressor"),
    [
        ("topk", TopK(N_CLIENTS, n_sent=N_SENT)),
        ("omnireduce", OmniReduce(N_CLIENTS, n_sent=30)),
        # Fewer entries than registers: all are hot.
        ("libra", Libra(N_CLIENTS, n_sent=N_SENT, hot=np.arange(DIM))),
        ("libra", Libra(N_CLIENTS, N_SENT, np.arange(0, DIM, 9), bits=9, narrow=True)),
    ],
)
def test_sparse_rounds_are_as_expected_but_for_chance(
    name: str, compressor: Compressor
) -> None:
    ledger, _ = real_ledger(compressor)
    expected = expected_ledger(ExpectedRound(name, compressor, DIM))
    assert [shape(row) for row in expected.rows] == [shape(row) for row in ledger.rows]
    for found, wanted in zip(ledger.rows, expected.rows, strict=True):
        if found.kind == "blocksum":
            continue
        assert same_size(found, wanted)
    n_found, n_wanted = ledger.traffic().n_packets, expected.traffic().n_packets
    assert abs(n_found - n_wanted) <= 6.0 * n_wanted**0.5 + 2 * N_CLIENTS


def by_phase(setting: ExpectedRound) -> dict[str, int]:
    """What a client sends."""
    rows = expected_ledger(setting).rows
    return {row.phase: row.n_items for row in rows if row.direction == "up"}


def test_entries_beyond_the_registers_are_cold() -> None:
    setting = ExpectedRound("libra", Libra(N_CLIENTS, 40_000), 4 * N_HOT)
    assert by_phase(setting) == {"peak": 0, "indexed": 10_000, "server": 30_000}
    steps = {row.phase: row.step for row in expected_ledger(setting).rows}
    assert steps == {"peak": 0, "indexed": 1, "server": 1}


def test_the_memory_decides_what_is_hot() -> None:
    libra = Libra(N_CLIENTS, 10_000)
    sent = by_phase(ExpectedRound("libra", libra, 10**6, register_bytes=4096))
    n_hot = Switch(4096).indexed_capacity(N_CLIENTS)
    assert sent["indexed"] == round(10_000 * n_hot / 10**6)
    assert sent["server"] == 10_000 - sent["indexed"]


def test_given_hot_entries_are_those_that_are_expected() -> None:
    libra = Libra(N_CLIENTS, 10_000, hot=np.arange(10**5))
    sent = by_phase(ExpectedRound("libra", libra, 10**6))
    assert sent == {"peak": 0, "indexed": 1000, "server": 9000}


def test_by_default_choices_are_the_papers() -> None:
    def sent(name: str) -> int:
        setting = ExpectedRound(name, CATALOG[name](20), 10**6)
        return sum(by_phase(setting).values())

    assert [sent(name) for name in ("libra", "topk")] == [10_000, 10_000]
    assert sent("omnireduce") >= 50_000  # and the rest of their blocks
    # Votes, and P[Binomial(20, 5 %) >= 3] = 0.0755.
    assert sent("fediac") == pytest.approx(1_075_500, rel=1e-4)


def test_nobody_agrees_on_anything_in_a_tiny_model() -> None:
    setting = ExpectedRound("fediac", FediAC(20, n_votes=1, threshold=20), 10)
    assert expected_ledger(setting).phases == ("votes",)


def test_every_algorithm_can_be_expected() -> None:
    assert list_expected() == tuple(CATALOG)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dim": 0}, "dim must be at least 1, got 0"),
        ({"n_chosen": 0}, "n_chosen must be in 1..1000 (dim), got 0"),
        ({"n_chosen": 1001}, "n_chosen must be in 1..1000 (dim), got 1001"),
        (
            {"compressor": FediAC(1025)},
            "n_clients must be in 1..1024, got 1025",
        ),
    ],
)
def test_impossible_settings_are_refused(changes: dict[str, Any], message: str) -> None:
    setting: dict[str, Any] = {"compressor": FediAC(5), "dim": 1000} | changes
    with refuses(message, ArgumentError):
        ExpectedRound("fediac", **setting)


def test_a_number_of_agreed_entries_is_refused_where_nobody_agrees() -> None:
    text = "n_chosen does not apply to topk, whose clients agree on no entries"
    with refuses(text, ArgumentError):
        ExpectedRound("topk", TopK(5), 1000, 10)


class Silent:
    """An algorithm that does not say what its rounds send."""

    n_clients = 2

    def run_round(self, *_: Any, **__: Any) -> Any: ...


def test_an_algorithm_that_does_not_say_what_it_sends_is_refused() -> None:
    text = (
        "the algorithm must have a method expect, which says what its rounds send; "
        "CONTRIBUTING.md shows one"
    )
    with refuses(text, ConfigError):
        expected_ledger(ExpectedRound("silent", Silent(), 10))
