"""Ledgers of real rounds are timed without knowing who made them."""

import numpy as np
import pytest

from fediac import aggregate
from fediac.compressors import CATALOG
from fediac.sim import Bounded, Network, paper_switch, paper_uplinks, simulate_round
from tests.support import KINDS

DIM, N_CLIENTS = 50_000, 4
HOT = np.arange(0, DIM, 7)


@pytest.mark.parametrize("memory", [None, Bounded(20)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CATALOG)
def test_a_real_round_is_timed(name: str, kind: str, memory: Bounded | None) -> None:
    rng = np.random.default_rng(1)
    updates = [
        KINDS[kind](rng.standard_normal(DIM).astype(np.float32))
        for _ in range(N_CLIENTS)
    ]
    supplied = {"hot": HOT} if name == "libra" else {}
    compressor = CATALOG[name](N_CLIENTS, **supplied)
    ledger = aggregate(updates, compressor, seed=1, round_number=3).ledger
    uplinks = paper_uplinks(N_CLIENTS, seed=1)
    network = Network(uplinks, paper_switch("slow"), memory=memory)
    timing = simulate_round(ledger, network, seed=1, round_number=3)
    n_sent = ledger.select(direction="up").traffic().n_packets
    assert timing.switch.n_packets == n_sent
    far = ledger.select(direction="up", destination="server").traffic().n_packets
    assert far == (0 if timing.server is None else timing.server.n_packets)
    assert tuple(phase.name for phase in timing.phases) == ledger.phases
    if memory is not None:
        assert timing.max_open_slots <= 20
