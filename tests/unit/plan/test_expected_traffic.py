"""Traffic by expectation is what real rounds of even, independent choices send."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fediac import aggregate
from fediac.compressors import (
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
from fediac.errors import ConfigError
from fediac.plan.expected_traffic import ExpectedRound, expected_ledger, list_expected
from fediac.switch import Switch

DIM, N_CLIENTS = 72_000, 5
N_SENT = 720
N_HOT = Switch().indexed_capacity(N_CLIENTS)


def real_ledger(compressor: Compressor) -> tuple[Ledger, int, int]:
    """A round of independent Gaussian updates; how many entries it chose, its bits."""
    rng = np.random.default_rng(0)
    updates = [rng.standard_normal(DIM).astype(np.float32) for _ in range(N_CLIENTS)]
    result = aggregate(updates, compressor, seed=1, round_number=1)
    return result.ledger, result.facts.chosen, result.facts.bits


def shape(row: Row) -> Row:
    """A row without its size."""
    return replace(row, n_items=0, blocks=None, n_bare=0)


def same_size(found: Row, expected: Row) -> bool:
    """Counts of independent entries are at most Poisson: six standard deviations."""
    margin = 6.0 * math.sqrt(expected.n_items)
    return abs(found.n_items - expected.n_items) <= margin


@pytest.mark.parametrize(
    ("name", "compressor"),
    [("switchml", SwitchML(N_CLIENTS, bits=12)), ("fedavg", FedAvg(N_CLIENTS))],
)
def test_dense_rounds_are_exactly_as_expected(
    name: str, compressor: Compressor
) -> None:
    ledger, _, _ = real_ledger(compressor)
    assert expected_ledger(ExpectedRound(name, DIM, N_CLIENTS)) == ledger


@pytest.mark.parametrize("lanes", LANES)
def test_narrow_lanes_are_exactly_as_expected(lanes: Lanes) -> None:
    ledger, _, _ = real_ledger(SwitchML(N_CLIENTS, bits=9, lanes=lanes))
    setting = ExpectedRound("switchml", DIM, N_CLIENTS, bits=9, lanes=lanes)
    assert expected_ledger(setting) == ledger
    ledger, chosen, _ = real_ledger(FediAC(N_CLIENTS, 3600, 2, bits=9, lanes=lanes))
    setting = ExpectedRound(
        "fediac", DIM, N_CLIENTS, chosen, bits=9, threshold=2, lanes=lanes
    )
    assert expected_ledger(setting) == ledger


@pytest.mark.parametrize("entries_per_vote", [1, 8])
def test_a_fediac_round_of_known_consensus_is_exactly_as_expected(
    entries_per_vote: int,
) -> None:
    given: Any = {"threshold": 2, "entries_per_vote": entries_per_vote}
    compressor = FediAC(N_CLIENTS, n_votes=DIM // 20, bits=10, **given)
    ledger, chosen, bits = real_ledger(compressor)
    setting = ExpectedRound("fediac", DIM, N_CLIENTS, chosen, bits, **given)
    assert expected_ledger(setting) == ledger


@pytest.mark.parametrize(
    ("name", "compressor"),
    [
        ("topk", TopK(N_CLIENTS, n_sent=N_SENT)),
        ("omnireduce", OmniReduce(N_CLIENTS, n_sent=30)),
        # Fewer entries than registers: all are hot.
        ("libra", Libra(N_CLIENTS, n_sent=N_SENT, hot=np.arange(DIM))),
    ],
)
def test_sparse_rounds_are_as_expected_but_for_chance(
    name: str, compressor: Compressor
) -> None:
    ledger, chosen, _ = real_ledger(compressor)
    expected = expected_ledger(ExpectedRound(name, DIM, N_CLIENTS, chosen))
    assert [shape(row) for row in expected.rows] == [shape(row) for row in ledger.rows]
    for found, wanted in zip(ledger.rows, expected.rows, strict=True):
        if found.kind == "blocksum":
            continue
        assert same_size(found, wanted)
    n_found, n_wanted = ledger.traffic().n_packets, expected.traffic().n_packets
    assert abs(n_found - n_wanted) <= 6.0 * n_wanted**0.5 + 2 * N_CLIENTS


def test_entries_beyond_the_registers_are_cold() -> None:
    dim = 4 * N_HOT
    ledger = expected_ledger(ExpectedRound("libra", dim, N_CLIENTS, 40_000))
    by_phase = {row.phase: row.n_items for row in ledger.rows if row.direction == "up"}
    assert by_phase == {"peak": 0, "indexed": 10_000, "server": 30_000}
    steps = {row.phase: row.step for row in ledger.rows}
    assert steps == {"peak": 0, "indexed": 1, "server": 1}


def test_the_memory_decides_what_is_hot() -> None:
    little = ExpectedRound("libra", 10**6, N_CLIENTS, 10_000, register_bytes=4096)
    ledger = expected_ledger(little)
    by_phase = {row.phase: row.n_items for row in ledger.rows if row.direction == "up"}
    n_hot = Switch(4096).indexed_capacity(N_CLIENTS)
    assert by_phase["indexed"] == round(10_000 * n_hot / 10**6)
    assert by_phase["server"] == 10_000 - by_phase["indexed"]


def test_without_a_number_choices_are_the_papers() -> None:
    def chosen(name: str) -> int:
        return ExpectedRound(name, 10**6, 20).chosen

    assert [chosen(name) for name in ("omnireduce", "libra", "topk")] == [
        50_000,
        10_000,
        10_000,
    ]
    # P[Binomial(20, 5 %) >= 3] = 0.0755.
    assert chosen("fediac") == pytest.approx(75_500, rel=1e-3)
    assert ExpectedRound("fediac", 10**6, 2).votes_needed == 2


def test_nobody_agrees_on_anything_in_a_tiny_model() -> None:
    ledger = expected_ledger(ExpectedRound("fediac", 10, 20, threshold=20))
    assert ledger.phases == ("votes",)


def test_every_algorithm_can_be_expected() -> None:
    assert list_expected() == (
        "fediac",
        "switchml",
        "omnireduce",
        "libra",
        "fedavg",
        "topk",
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dim": 0}, "dim must be at least 1, got 0"),
        ({"n_clients": 0}, "n_clients must be in 1..1024, got 0"),
        ({"n_chosen": 0}, "chosen must be in 1..1000 (dim), got 0"),
        ({"n_chosen": 1001}, "chosen must be in 1..1000 (dim), got 1001"),
        ({"threshold": 9}, "threshold must be in 1..5 (n_clients), got 9"),
        ({"threshold": 0}, "threshold must be in 1..5 (n_clients), got 0"),
        (
            {"entries_per_vote": 3},
            "entries_per_vote must be 1 or a power of two in 8..4096, got 3",
        ),
        ({"bits": 40}, "bits must be at most 32, got 40"),
        ({"lanes": "wide"}, "lanes must be one of same, dense, words, got 'wide'"),
        (
            {"bits": 2},
            "bits must leave room for 5 clients (at least 4), got 2",
        ),
    ],
)
def test_impossible_settings_are_refused(changes: dict[str, Any], message: str) -> None:
    setting: dict[str, Any] = {"dim": 1000, "n_clients": 5} | changes
    with pytest.raises(ValueError, match=r"^[a-z_]+ must") as caught:
        ExpectedRound("fediac", **setting)
    assert str(caught.value) == message


def test_an_unknown_algorithm_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"^unknown algorithm 'fedavrg'; did you mean 'fedavg'\?$"
    ):
        ExpectedRound("fedavrg", 10, 1)
