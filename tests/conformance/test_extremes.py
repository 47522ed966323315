"""Rounds at the edge: nobody agrees, registers as full as they get, many clients."""

from typing import Any

import numpy as np
import pytest

from fediac import FediAC, State, SwitchML
from fediac.compressors import Compressor
from fediac.core.bitpack import unpack_lanes
from fediac.core.exchange import Answer, Exchange, Sum, Totals
from fediac.core.rng import Stream
from fediac.core.widths import LANES, Lanes
from fediac.switch import Switch
from fediac.transports.lockstep import run_lockstep
from fediac.transports.memory import MemoryTransport
from tests.conformance.rounds import (
    check_balance,
    check_packet_counts,
    make_updates,
    run_round,
)
from tests.support import to_numpy

TRANSPORTS = ["packets", "arrays"]
DIM = 60


def disjoint_updates(n_clients: int) -> list[Any]:
    """Every client's mass lies on entries of its own, so no two votes meet."""
    updates = []
    for client in range(n_clients):
        update = np.zeros(DIM, dtype=np.float32)
        update[client::n_clients] = client + 1.0
        updates.append(update)
    return updates


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("law", ["bernoulli", "draws"])
def test_round_in_which_nobody_agrees_is_legal(transport: str, law: Any) -> None:
    updates = disjoint_updates(4)
    compressor = FediAC(4, 15, threshold=4, bits=10, law=law)
    result = run_round(updates, compressor, transport=transport)
    assert result.ledger.phases == ("votes",)
    assert not np.any(to_numpy(result.mean))
    for state, update in zip(result.states, updates, strict=True):
        assert np.array_equal(to_numpy(state.residual), update)
        assert state.bits == 10
    assert all(facts.n_chosen == 0 for facts in result.facts.values())
    check_packet_counts(result)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_threshold_beyond_those_present_agrees_on_nothing(transport: str) -> None:
    updates: list[Any] = [np.ones(DIM, dtype=np.float32)] * 2 + [None] * 2
    compressor = FediAC(4, DIM, threshold=3, bits=10, law="topk")
    result = run_round(updates, compressor, transport=transport)
    assert result.ledger.phases == ("votes",)
    assert np.array_equal(to_numpy(result.states[0].residual), updates[0])


def test_what_was_not_agreed_on_is_sent_once_it_is() -> None:
    compressor = FediAC(4, 15, threshold=4, bits=20)
    states = run_round(disjoint_updates(4), compressor).states
    common = [np.full(DIM, 1000.0, dtype=np.float32)] * 4
    everything = FediAC(4, DIM, threshold=4, bits=20, law="topk")
    result = run_round(common, everything, states=states, round_number=2)
    check_balance(common, states, result)
    expected = 1000.0 + np.mean(disjoint_updates(4), axis=0)
    step = 1.0 / result.facts[0].scale
    assert np.all(np.abs(to_numpy(result.mean) - expected) <= step)


class Observer(MemoryTransport):
    """Packets through a switch; asserts that no sum left its lane."""

    def carry(self, requests: Any) -> Answer:
        answer = super().carry(requests)
        first: Exchange = next(iter(requests.values()))
        if isinstance(first, Sum) and isinstance(answer, Totals):
            expected = sum(
                unpack_lanes(each.lanes, first.n_levels, first.bits_up)
                for each in requests.values()
            )
            assert np.all(expected < 1 << first.bits_down)
            lanes = unpack_lanes(answer.lanes, first.n_levels, first.bits_down)
            assert np.array_equal(lanes, expected)
        return answer


@pytest.mark.parametrize("n_clients", [20, 1024])
@pytest.mark.parametrize("spare", [0, 1, 7])
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("algorithm", ["switchml", "fediac"])
def test_registers_hold_the_largest_sums_there_are(
    n_clients: int, spare: int, algorithm: str, lanes: Lanes
) -> None:
    bits = n_clients.bit_length() + 1 + spare
    compressor: Compressor = SwitchML(n_clients, bits=bits, lanes=lanes)
    if algorithm == "fediac":
        compressor = FediAC(n_clients, DIM, 1, bits=bits, lanes=lanes)
    # All clients at the peak with one sign: sums as far from zero as they go.
    signs = np.where(np.arange(DIM) % 2, 1.0, -1.0)
    updates = [(signs / 3.0).astype(np.float32)] * n_clients
    switch = Switch()
    clients = {
        i: compressor.run_round(update, State(), Stream(1, 1, i))
        for i, update in enumerate(updates)
    }
    transport = Observer(switch, switch.open(n_clients))
    outcomes, _ = run_lockstep(clients, transport, round_number=1)
    mean = outcomes[0].mean.dense(updates[0]).astype(np.float64)
    total = np.zeros(DIM)
    for update, outcome in zip(updates, outcomes.values(), strict=True):
        total += update.astype(np.float64) - to_numpy(outcome.state.residual)
    scale = outcomes[0].facts.scale
    # Each client's residual is rounded to float32, |residual| at most 1/f + 1/3, and
    # the mean is rounded once.
    bound = 2 * n_clients * np.finfo(np.float32).eps * (1.0 / scale + 1.0)
    assert np.max(np.abs(n_clients * mean - total)) <= bound


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("size", [1e-38, 2.0**-99, 1e-20, 1e20, 1e29])
def test_updates_of_any_size_balance(transport: str, size: float) -> None:
    updates = [
        (update * size).astype(np.float32)
        for update in make_updates(3, DIM, np.array, np.float64)
    ]
    for compressor in (
        SwitchML(3),
        FediAC(3, 10, 1, bits=10),
        SwitchML(3, bits=7, lanes="words"),
    ):
        result = run_round(updates, compressor, transport=transport)
        # Below 2**-100 nothing is sent; near it, float32 residuals lose bits.
        if size < 2.0**-100:
            assert not np.any(to_numpy(result.mean))
        check_balance(updates, [State()] * 3, result)
