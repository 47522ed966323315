"""K-of-n: an answer that closed without some client in some of its packets."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from fediac import FediAC, State, SwitchML
from fediac.compressors import Compressor, Outcome
from fediac.core.bitpack import indices_of, pack_lanes, unpack_lanes
from fediac.core.exchange import Answer, Consensus, Contributors, Exchange, Sum, Totals
from fediac.core.rng import Stream
from fediac.switch import Switch
from fediac.transports.arrays import ArrayTransport
from fediac.transports.lockstep import run_lockstep
from fediac.wire.header import lanes_per_packet
from tests.conformance.rounds import make_updates
from tests.support import KINDS, Make, to_numpy

N_CLIENTS, DIM, PAYLOAD_BYTES = 3, 400, 60
LEFT_OUT = {1: [2], 3: [0, 2]}
"""Packet of the sum -> the clients that came too late for it."""

COMPRESSORS: dict[str, Compressor] = {
    "switchml": SwitchML(N_CLIENTS),
    "switchml in words": SwitchML(N_CLIENTS, bits=8, lanes="words"),
    "fediac": FediAC(N_CLIENTS, 200, 1, bits=9, law="topk"),
    "fediac dense": FediAC(N_CLIENTS, 200, 1, bits=9, law="topk", lanes="dense"),
}


class Lossy:
    """Carries exchanges in arrays, but closes some packets of sums early."""

    payload_bytes = PAYLOAD_BYTES

    def __init__(self) -> None:
        switch = Switch(payload_bytes=PAYLOAD_BYTES)
        self.arrays = ArrayTransport(switch.open(N_CLIENTS))
        self.entries = np.arange(DIM)
        self.counts = np.zeros(0)
        self.per_packet = 0

    def carry(self, requests: Mapping[int, Exchange]) -> Answer:
        answer = self.arrays.carry(requests)
        if isinstance(answer, Consensus):
            self.entries = to_numpy(indices_of(answer.gia, DIM))
        if not isinstance(answer, Totals):
            return answer
        return self.close_early(answer, requests)

    def close_early(self, answer: Totals, requests: Mapping[int, Any]) -> Totals:
        n_levels, bits = answer.n_levels, answer.bits
        bits_up = requests[0].bits_up
        self.per_packet = lanes_per_packet(bits_up, bits, PAYLOAD_BYTES)
        per_packet = self.per_packet
        total, self.counts = np.zeros(n_levels, dtype=np.int64), np.zeros(n_levels)
        for client, request in requests.items():
            assert isinstance(request, Sum)
            lanes = to_numpy(unpack_lanes(request.lanes, n_levels, bits_up))
            is_counted = np.ones(n_levels, dtype=bool)
            for packet, clients in LEFT_OUT.items():
                if client in clients:
                    is_counted[packet * per_packet : (packet + 1) * per_packet] = False
            total += np.where(is_counted, lanes, 0)
            self.counts += is_counted
        everyone = (1 << N_CLIENTS) - 1
        partial = {
            packet: everyone & ~sum(1 << client for client in clients)
            for packet, clients in LEFT_OUT.items()
        }
        kind = type(answer.lanes)
        packed = pack_lanes(total, bits)
        return Totals(
            packed if kind is np.ndarray else KINDS["torch"](packed),
            n_levels,
            bits,
            answer.limit,
            Contributors(everyone, partial, per_packet),
        )


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", COMPRESSORS)
def test_mean_divides_by_those_counted_and_the_others_keep_their_values(
    name: str, dtype: type[Any], kind: str
) -> None:
    make: Make = KINDS[kind]
    states = [State()] * N_CLIENTS
    for round_number in (1, 2, 3):
        updates = make_updates(N_CLIENTS, DIM, make, dtype, seed=round_number)
        transport = Lossy()
        clients = {
            i: COMPRESSORS[name].run_round(
                update, states[i], Stream(1, round_number, i)
            )
            for i, update in enumerate(updates)
        }
        outcomes, _ = run_lockstep(clients, transport, round_number=round_number)
        check_counted(transport, updates, states, outcomes)
        states = [outcome.state for outcome in outcomes.values()]


def check_counted(
    transport: Lossy,
    updates: list[Any],
    states: list[State],
    outcomes: Mapping[int, Outcome],
) -> None:
    dtype = to_numpy(updates[0]).dtype
    entries, counts = transport.entries, transport.counts
    assert set(counts.tolist()) == {1.0, 2.0, 3.0}
    mean = to_numpy(outcomes[0].mean.dense(updates[0])).astype(np.float64)[entries]
    sent, size = np.zeros(len(entries)), counts * np.abs(mean)
    per_packet = transport.per_packet
    for client, outcome in outcomes.items():
        old = 0.0 if states[client].residual is None else states[client].residual
        corrected = to_numpy(updates[client] + old)[entries].astype(np.float64)
        left = to_numpy(outcome.state.residual)[entries].astype(np.float64)
        sent += corrected - left
        # A value that came back was rounded when it was taken out, when at most a
        # level was left of it, and again when it was put back.
        rounding = np.finfo(dtype).eps * (np.abs(corrected) + np.abs(left))
        rounding += np.finfo(dtype).eps / outcome.facts.scale
        size += np.abs(corrected) + np.abs(left) + 1.0 / outcome.facts.scale
        for packet, missing in LEFT_OUT.items():
            here = slice(packet * per_packet, (packet + 1) * per_packet)
            if client in missing:
                assert np.all(np.abs(left - corrected)[here] <= rounding[here])
            else:
                assert np.all(np.abs(left[here]) <= 1.001 / outcome.facts.scale)
    assert np.all(np.abs(sent - counts * mean) <= np.finfo(dtype).eps * size)
