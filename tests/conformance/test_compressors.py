"""What every compressor promises, on every transport and kind of array."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fediac import FedAvg, FediAC, Libra, OmniReduce, State, SwitchML, TopK, aggregate
from fediac.compressors import CATALOG, Compressor, ErrorFeedback
from fediac.core.ledger import Direction
from fediac.core.widths import Lanes
from fediac.transports import RoundResult
from tests.conformance.rounds import (
    SEED,
    Result,
    check_balance,
    check_packet_counts,
    make_updates,
    residual_bytes,
    row_values,
    run_round,
)
from tests.support import KINDS, Make, bytes_of, kind_of, to_numpy

Build = Callable[[int, int], Compressor]


def share(dim: int) -> int:
    """A tenth of the entries."""
    return -(-dim // 10)


def hot(dim: int) -> Any:
    return np.arange(0, dim, 3)


# A new compressor adds a line: how to build it for some clients and entries.
COMPRESSORS: dict[str, Build] = {
    "fediac": lambda n, d: FediAC(n, share(d), -(-n // 2), bits=12),
    "fediac of tuned width": lambda n, d: FediAC(n, share(d), 1, bits="tuned"),
    "fediac of least width": lambda n, d: FediAC(n, share(d), 1, bits="bound"),
    "fediac by draws": lambda n, d: FediAC(n, share(d), 1, bits=9, law="draws"),
    "fediac by topk": lambda n, d: FediAC(n, share(d), 1, bits=13, law="topk"),
    "fediac unanimous": lambda n, d: FediAC(n, share(d), n, bits=32),
    "fediac by groups": lambda n, d: FediAC(
        n, share(d), 1, bits=11, law="topk", entries_per_vote=8
    ),
    "fediac by long groups": lambda n, d: FediAC(
        n, share(d), -(-n // 2), bits="adaptive", entries_per_vote=64
    ),
    "fediac of clipped peaks": lambda n, d: FediAC(
        n, share(d), 1, bits=12, law="topk", clip=0.5
    ),
    "fediac with narrow lanes up": lambda n, d: FediAC(
        n, share(d), -(-n // 2), bits=12, lanes="dense"
    ),
    "fediac of least width with narrow lanes up": lambda n, d: FediAC(
        n, share(d), 1, bits="bound", entries_per_vote=8, lanes="dense"
    ),
    "fediac by the preset lean": lambda n, d: FediAC.lean(n, n_votes=share(d)),
    "fediac with growing votes": lambda n, d: FediAC(
        n, share(d), n, bits=12, law="topk", entries_per_vote=8, growth=0.5
    ),
    "fediac on a budget": lambda n, d: FediAC(
        n, law="topk", entries_per_vote=8, bits=13, budget_mib=n * (d + 8000) / 2**23
    ),
    "fediac in words": lambda n, d: FediAC(n, share(d), 1, bits=8, lanes="words"),
    "fediac of tuned width in words": lambda n, d: FediAC(
        n, share(d), -(-n // 2), bits="tuned", lanes="words"
    ),
    "switchml": lambda n, _: SwitchML(n),
    "switchml with narrow lanes up": lambda n, _: SwitchML(n, bits=9, lanes="dense"),
    "switchml in words": lambda n, _: SwitchML(n, lanes="words"),
    "omnireduce": lambda n, d: OmniReduce(n, share(d)),
    "omnireduce in small blocks": lambda n, d: OmniReduce(n, share(d), block=7),
    "libra": lambda n, d: Libra(n, share(d), hot(d)),
    "libra without hot entries": lambda n, d: Libra(n, share(d)),
    "libra of narrow pairs": lambda n, d: Libra(
        n, share(d), hot(d), bits=12, narrow=True
    ),
    "libra of narrow levels": lambda n, d: Libra(n, share(d), hot(d), bits=7),
    "libra of narrow indices": lambda n, d: Libra(n, share(d), hot(d), narrow=True),
    "libra of wide levels": lambda n, d: Libra(n, share(d), hot(d), bits=31),
    "libra of narrow cold entries": lambda n, d: Libra(
        n, share(d), bits=9, narrow=True
    ),
    "fedavg": lambda n, _: FedAvg(n),
    "topk": lambda n, d: TopK(n, share(d)),
}

FEEDBACK = [
    name
    for name, build in COMPRESSORS.items()
    if isinstance(build(2, 20), ErrorFeedback)
]
"""Those that keep what they do not send."""

LEVELS = ("sum", "blocksum", "indexedsum")
"""Kinds of exchanges that carry levels."""

ARRAYS: dict[str, tuple[Make, type[Any]]] = {
    "numpy float32": (KINDS["numpy"], np.float32),
    "numpy float64": (KINDS["numpy"], np.float64),
    "torch float32": (KINDS["torch"], np.float32),
}


@pytest.fixture(params=COMPRESSORS)
def build(request: pytest.FixtureRequest) -> Build:
    return COMPRESSORS[request.param]


@pytest.fixture(params=ARRAYS)
def arrays(request: pytest.FixtureRequest) -> tuple[Make, type[Any]]:
    return ARRAYS[request.param]


def test_every_algorithm_is_in_the_table() -> None:
    tested = {type(build(2, 20)) for build in COMPRESSORS.values()}
    assert tested == set(CATALOG.values())
    kept = {type(COMPRESSORS[name](2, 20)) for name in FEEDBACK}
    assert kept == tested - {FedAvg}


LANES_OF: dict[str, Callable[[Lanes], Compressor]] = {
    "fediac": lambda lanes: FediAC(4, 900, 2, bits=9, lanes=lanes),
    "fediac of growing width": lambda lanes: FediAC(
        4, 900, 1, bits="adaptive", law="topk", entries_per_vote=8, lanes=lanes
    ),
    "fediac of tuned width": lambda lanes: FediAC(4, 900, 1, bits="tuned", lanes=lanes),
    "switchml": lambda lanes: SwitchML(4, bits=7, lanes=lanes),
}


@pytest.mark.parametrize("transport", ["packets", "arrays"])
@pytest.mark.parametrize("name", LANES_OF)
def test_narrow_lanes_up_change_nothing_but_the_bill(
    name: str, transport: str, arrays: tuple[Make, type[Any]]
) -> None:
    states: dict[Lanes, list[State]] = {"same": [State()] * 4, "dense": [State()] * 4}
    for round_number in (1, 2, 3):
        updates = make_updates(4, 9001, *arrays, seed=round_number)
        updates[round_number] = None
        same, dense = (
            run_round(
                updates,
                LANES_OF[name](lanes),
                transport=transport,
                round_number=round_number,
                states=states[lanes],
            )
            for lanes in states
        )
        for found in ("means", "residuals", "widths", "facts"):
            assert same.fingerprint()[found] == dense.fingerprint()[found]
        # Three of four clients: a level needs two bits less than the sum of four.
        saved_bits: dict[Direction, int] = {"up": 2, "down": 0}
        for direction, saved in saved_bits.items():
            wide, narrow = (
                each.ledger.select(direction=direction, phase="levels").rows
                for each in (same, dense)
            )
            n_bits = [row.n_items * (row.bits_per_item - saved) for row in wide]
            assert [row.n_items * row.bits_per_item for row in narrow] == n_bits
        check_packet_counts(dense)
        states = {"same": same.states, "dense": dense.states}


@pytest.mark.parametrize("dim", [1, 7, 8, 9, 5, 11521])
def test_three_rounds_agree_on_every_transport(
    build: Build, arrays: tuple[Make, type[Any]], dim: int
) -> None:
    make, dtype = arrays
    compressor = build(3, dim)
    states: list[State] = [State()] * 3
    for round_number in (1, 2, 3) if dim < 1000 else (1, 2):
        updates = make_updates(3, dim, make, dtype, seed=round_number)
        before = [bytes_of(update) for update in updates]
        packets, whole = (
            run_round(
                updates,
                compressor,
                transport=transport,
                round_number=round_number,
                states=states,
            )
            for transport in ("packets", "arrays")
        )
        assert packets.fingerprint() == whole.fingerprint()
        assert len({bytes_of(mean) for mean in packets.means.values()}) == 1
        assert kind_of(packets.mean) == kind_of(updates[0])
        assert packets.mean.dtype == updates[0].dtype
        check_balance(updates, states, packets)
        check_packet_counts(packets)
        assert [bytes_of(update) for update in updates] == before
        states = packets.states


def test_kinds_of_arrays_agree_bit_for_bit(build: Build) -> None:
    compressor = build(3, 300)
    prints = [
        run_round(make_updates(3, 300, make, np.float32), compressor).fingerprint()
        for make in KINDS.values()
    ]
    assert prints[0] == prints[1]


def test_same_seed_gives_the_same_bytes_and_another_round_does_not(
    build: Build,
) -> None:
    compressor = build(3, 300)
    updates = make_updates(3, 300, np.array, np.float32)
    once, again = (run_round(updates, compressor).fingerprint() for _ in range(2))
    assert once == again
    later = run_round(updates, compressor, round_number=2)
    if {row.kind for row in later.ledger.rows} & {*LEVELS}:  # rounded at random
        assert later.fingerprint()["residuals"] != once["residuals"]


def test_residuals_in_place_are_those_kept_apart(
    build: Build, arrays: tuple[Make, type[Any]]
) -> None:
    make, dtype = arrays
    compressor = build(3, 300)
    states = run_round(make_updates(3, 300, make, dtype), compressor).states
    updates = make_updates(3, 300, make, dtype, seed=1)
    apart = run_round(updates, compressor, states=states, round_number=2)
    places = [state.residual for state in states]
    here = run_round(updates, compressor, states=states, out=states, round_number=2)
    assert here.fingerprint() == apart.fingerprint()
    for state, place in zip(here.states, places, strict=True):
        assert state.residual is place


def test_aggregate_runs_the_same_rounds(
    build: Build, arrays: tuple[Make, type[Any]]
) -> None:
    make, dtype = arrays
    compressor = build(3, 300)
    states: Sequence[State] = [State()] * 3
    for number in (1, 2, 3):
        updates = make_updates(3, 300, make, dtype, seed=number)
        by_hand = run_round(updates, compressor, round_number=number, states=states)
        result = aggregate(
            updates, compressor, seed=SEED, round_number=number, states=states
        )
        check_aggregate(result, by_hand)
        states = result.states


def check_aggregate(result: RoundResult, by_hand: Result) -> None:
    """Assert that both are the same round, bit by bit."""
    assert bytes_of(result.mean) == bytes_of(by_hand.mean)
    residuals = [residual_bytes(state) for state in result.states]
    assert residuals == [residual_bytes(state) for state in by_hand.states]
    widths = [state.bits for state in result.states]
    assert widths == [state.bits for state in by_hand.states]
    rows = [row_values(row) for row in result.ledger.rows]
    assert rows == [row_values(row) for row in by_hand.ledger.rows]
    assert dict(enumerate(result.client_facts)) == by_hand.facts
    assert result.facts.aggregations == by_hand.counters.aggregations
    assert result.facts.register_bytes == by_hand.counters.register_bytes
    assert result.facts.gamma >= 0.0


@pytest.mark.parametrize("transport", ["packets", "arrays"])
def test_absent_clients_keep_their_state(build: Build, transport: str) -> None:
    compressor = build(5, 300)
    everyone = make_updates(5, 300, np.array, np.float32)
    states = run_round(everyone, compressor).states
    kept = [states[1], states[4]]
    updates: list[Any] = make_updates(5, 300, np.array, np.float32, seed=1)
    updates[1] = updates[4] = None
    result = run_round(
        updates, compressor, transport=transport, round_number=2, states=states
    )
    assert sorted(result.means) == [0, 2, 3]
    assert [result.states[1], result.states[4]] == kept
    assert {row.client for row in result.ledger.rows} == {0, 2, 3}
    check_balance(updates, states, result)
    check_packet_counts(result)


@pytest.mark.parametrize("transport", ["packets", "arrays"])
def test_one_client_is_its_own_mean(build: Build, transport: str) -> None:
    compressor = build(1, 300)
    updates = make_updates(1, 300, np.array, np.float32)
    result = run_round(updates, compressor, transport=transport)
    check_balance(updates, [State()], result)
    check_packet_counts(result)


def test_zero_update_gives_a_zero_mean(
    build: Build, arrays: tuple[Make, type[Any]]
) -> None:
    make, dtype = arrays
    updates = [make(np.zeros(300, dtype))] * 3
    packets, whole = (
        run_round(updates, build(3, 300), transport=transport)
        for transport in ("packets", "arrays")
    )
    assert packets.fingerprint() == whole.fingerprint()
    assert not np.any(to_numpy(packets.mean))
    assert not {row.kind for row in packets.ledger.rows} & {*LEVELS}
    check_balance(updates, [State()] * 3, packets)
    check_packet_counts(packets)


@pytest.mark.parametrize("name", FEEDBACK)
def test_without_residual_nothing_is_kept_and_the_mean_is_the_same(
    name: str, arrays: tuple[Make, type[Any]]
) -> None:
    make, dtype = arrays
    mindful: Any = COMPRESSORS[name](3, 300)
    forgetful = replace(mindful, residual=False)
    updates = make_updates(3, 300, make, dtype)
    given = [bytes_of(update) for update in updates]
    packets, whole = (
        run_round(updates, forgetful, transport=transport)
        for transport in ("packets", "arrays")
    )
    assert [bytes_of(update) for update in updates] == given
    assert packets.fingerprint() == whole.fingerprint()
    assert [state.residual for state in packets.states] == [None] * 3
    assert bytes_of(run_round(updates, mindful).mean) == bytes_of(packets.mean)


@pytest.mark.parametrize(
    "magnitude", [1.0, 2.0**-110], ids=["usual", "nothing to send"]
)
@pytest.mark.parametrize("name", FEEDBACK)
def test_a_residual_that_fades_is_a_share_of_what_it_would_be(
    name: str, arrays: tuple[Make, type[Any]], magnitude: float
) -> None:
    make, dtype = arrays
    compressor: Any = COMPRESSORS[name](3, 300)
    first, second = (
        [
            make(to_numpy(each) * dtype(magnitude))
            for each in make_updates(3, 300, make, dtype, seed=number)
        ]
        for number in (1, 2)
    )
    before = run_round(first, compressor).states
    whole, faded = (
        run_round(
            second,
            replace(compressor, fade=fade),
            round_number=2,
            states=before,
        )
        for fade in (0.0, 0.25)
    )
    for state, after in zip(whole.states, faded.states, strict=True):
        assert state.residual is not None
        assert residual_bytes(after) == bytes_of(state.residual * 0.75)
    others = faded.fingerprint() | {"residuals": whole.fingerprint()["residuals"]}
    assert others == whole.fingerprint()


def test_extras_that_an_algorithm_does_not_know_pass_through_it(build: Build) -> None:
    compressor = build(3, 300)
    updates = make_updates(3, 300, np.array, np.float32)
    plain = run_round(updates, compressor)
    extras = {"velocity": np.ones(2)}
    kept = run_round(updates, compressor, states=[State(extras=extras)] * 3)
    assert kept.fingerprint() == plain.fingerprint()
    velocities = [state.extras["velocity"] for state in kept.states]
    assert all(each is extras["velocity"] for each in velocities)


WEIGHTS = [7, 1, 4]


def test_equal_weights_give_the_bits_of_none(
    build: Build, arrays: tuple[Make, type[Any]]
) -> None:
    make, dtype = arrays
    alike, plain = (
        aggregate_rounds(build, make, dtype, weights=weights)
        for weights in ([5, 5, 5], None)
    )
    for weighted, usual in zip(alike, plain, strict=True):
        assert bytes_of(weighted.mean) == bytes_of(usual.mean)
        assert [residual_bytes(each) for each in weighted.states] == [
            residual_bytes(each) for each in usual.states
        ]
        assert weighted.client_facts == usual.client_facts
        agreed = weighted.ledger.select(phase="weights")
        assert [
            row_values(row) for row in weighted.ledger.rows[len(agreed.rows) :]
        ] == [row_values(replace(row, step=row.step + 1)) for row in usual.ledger.rows]


def test_weights_are_billed_as_32_bits_each_way_in_a_packet(build: Build) -> None:
    (result,) = aggregate_rounds(
        build, np.array, np.float32, weights=WEIGHTS, n_rounds=1
    )
    agreed = result.ledger.select(phase="weights")
    assert {(row.kind, row.destination) for row in agreed.rows} == {("sum", "switch")}
    for direction in ("up", "down"):
        traffic = agreed.select(direction=direction).traffic()
        assert (traffic.payload_bits, traffic.n_packets) == (3 * 32, 3)


def test_a_weighted_round_is_that_of_updates_times_their_factors(
    build: Build, arrays: tuple[Make, type[Any]]
) -> None:
    make, dtype = arrays
    compressor = build(3, 300)
    factors = [dtype(weight * 3 / sum(WEIGHTS)) for weight in WEIGHTS]
    states: Sequence[State] = [State()] * 3
    for number, result in enumerate(
        aggregate_rounds(build, make, dtype, weights=WEIGHTS), start=1
    ):
        scaled = [
            make(to_numpy(each) * factor)
            for each, factor in zip(
                make_updates(3, 300, make, dtype, seed=number), factors, strict=True
            )
        ]
        packets, whole = (
            run_round(
                scaled,
                compressor,
                transport=transport,
                round_number=number,
                states=states,
            )
            for transport in ("packets", "arrays")
        )
        assert packets.fingerprint() == whole.fingerprint()
        assert bytes_of(result.mean) == bytes_of(packets.mean)
        assert [residual_bytes(each) for each in result.states] == [
            residual_bytes(each) for each in packets.states
        ]
        check_balance(scaled, states, packets)
        states = result.states


@pytest.mark.parametrize("transport", ["packets", "arrays"])
def test_weights_are_agreed_on_by_packets_and_by_arrays_alike(
    build: Build, transport: str
) -> None:
    updates: list[Any] = make_updates(4, 300, np.array, np.float32)
    updates[2] = None
    weights = [7, 1, 5, 4]
    result = run_round(updates, build(4, 300), transport=transport, weights=weights)
    by_call = aggregate(
        updates, build(4, 300), seed=SEED, round_number=1, weights=weights
    )
    assert bytes_of(result.mean) == bytes_of(by_call.mean)
    assert len({bytes_of(mean) for mean in result.means.values()}) == 1
    check_packet_counts(result)


def aggregate_rounds(
    build: Build, make: Make, dtype: Any, *, weights: Any, n_rounds: int = 2
) -> list[RoundResult]:
    """Return rounds of three clients, one after another."""
    results: list[RoundResult] = []
    for number in range(1, n_rounds + 1):
        results.append(
            aggregate(
                make_updates(3, 300, make, dtype, seed=number),
                build(3, 300),
                seed=SEED,
                round_number=number,
                states=results[-1].states if results else None,
                weights=weights,
            )
        )
    return results
