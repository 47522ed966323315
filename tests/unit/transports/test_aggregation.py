import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from fediac import (
    WIRE,
    FedAvg,
    FediAC,
    Libra,
    OmniReduce,
    Switch,
    SwitchML,
    TopK,
    aggregate,
)
from fediac.compressors import Compressor
from fediac.core.ledger import PAYLOAD
from fediac.errors import UpdateError
from fediac.transports import vectors
from fediac.wire.header import HEADER_BYTES, IP_UDP_BYTES
from tests.support import bytes_of, refuses

DIM = 2000


def some_updates(n_clients: int = 4) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(DIM).astype(np.float32) for _ in range(n_clients)]


def test_mean_is_close_to_that_of_all_updates() -> None:
    updates = some_updates()
    result = aggregate(updates, SwitchML(4, bits=24), seed=1, round_number=1)
    # Each of four levels is off by less than one: their mean by less than 1/f.
    error = np.abs(result.mean - np.mean(updates, axis=0, dtype=np.float64))
    assert np.max(error) < 1.0 / result.facts.scale


def test_facts_are_those_of_all_clients_together() -> None:
    updates = some_updates()
    compressor = FediAC(4, 200, 2, bits=10, law="topk")
    result = aggregate(updates, compressor, seed=1, round_number=1)
    facts = result.facts
    assert facts.votes == 4 * 200
    assert facts.chosen == np.count_nonzero(result.mean) > 0
    assert facts.bits == 10
    assert facts.peak == max(np.abs(update).max() for update in updates)
    assert facts.scale == (2**9 - 4) / (4 * facts.peak)
    left = sum(
        float(np.sum(np.square(state.residual, dtype=np.float64)))
        for state in result.states
        if state.residual is not None
    )
    energy = sum(float(np.sum(np.square(each, dtype=np.float64))) for each in updates)
    assert facts.gamma == pytest.approx(left / energy, rel=1e-9)
    # One packet of votes and one of levels, as both fit.
    assert facts.aggregations == 2


def test_gamma_of_zero_updates_is_zero() -> None:
    zeros = [np.zeros(9)] * 2
    for compressor in (FedAvg(2), TopK(2, 3), SwitchML(2)):
        assert aggregate(zeros, compressor, seed=1, round_number=1).facts.gamma == 0.0


def test_absent_clients_have_no_facts() -> None:
    updates = [None, *some_updates(2), None]
    result = aggregate(updates, SwitchML(4), seed=1, round_number=1)
    assert [each is None for each in result.client_facts] == [True, False, False, True]
    assert result.states[0].residual is None


def test_compressor_may_be_for_those_present_only() -> None:
    updates = [None, *some_updates(2), None]
    result = aggregate(updates, SwitchML(2), seed=1, round_number=1)
    assert result.facts.scale == (2**11 - 2) / (2 * result.facts.peak)
    text = "compressor is for 1 client but 2 updates are present"
    with refuses(text):
        aggregate(updates, SwitchML(1), seed=1, round_number=1)


def test_one_switch_serves_round_after_round() -> None:
    switch = Switch()
    results = [
        aggregate(some_updates(), SwitchML(4), seed=1, round_number=1, switch=switch)
        for _ in range(2)
    ]
    assert bytes_of(results[0].mean) == bytes_of(results[1].mean)
    assert results[0].facts == results[1].facts
    assert switch.counters.aggregations == 2 * results[0].facts.aggregations


def test_peak_of_register_use_is_that_of_the_round() -> None:
    switch = Switch()
    wide = aggregate(
        some_updates(), SwitchML(4, bits=32), seed=1, round_number=1, switch=switch
    )
    slim = aggregate(some_updates(), FedAvg(4), seed=1, round_number=2, switch=switch)
    assert slim.facts.register_bytes < wide.facts.register_bytes


def test_registers_are_given_back_after_an_error() -> None:
    switch = Switch()
    broken = some_updates()
    broken[1][3] = np.nan
    for _ in range(2):
        with refuses(
            "client 1, round 1: update has 1 entry that is NaN, infinite or beyond "
            "2**100",
            UpdateError,
        ):
            aggregate(broken, SwitchML(4), seed=1, round_number=1, switch=switch)
    free = switch.open(4)
    assert free.layout.register_bytes == switch.register_bytes


def test_block_that_fits_no_packet_is_refused() -> None:
    small = Switch(payload_bytes=64)
    text = "block must be at most 16 entries (payload_bytes=64), got 352"
    with refuses(text):
        aggregate(
            some_updates(), OmniReduce(4, 9), seed=1, round_number=1, switch=small
        )


def test_phase_names_the_rows_and_has_random_numbers_of_its_own() -> None:
    plain = aggregate(some_updates(), SwitchML(4), seed=1, round_number=1)
    named = aggregate(
        some_updates(), SwitchML(4), seed=1, round_number=1, phase="statistics"
    )
    assert plain.ledger.phases == ("peak", "levels")
    assert named.ledger.phases == ("statistics",)
    assert bytes_of(plain.mean) != bytes_of(named.mean)
    for view in (PAYLOAD, WIRE):
        assert plain.ledger.traffic(view) == named.ledger.traffic(view)


def test_the_bill_leaves_out_requests_for_ranges_of_an_indexed_sum() -> None:
    # 400 addresses with pairs of 64 bits are 50 ranges; the first comes unasked.
    switch = Switch(payload_bytes=64)
    libra = Libra(4, 90, hot=np.arange(400))
    result = aggregate(some_updates(), libra, seed=1, round_number=1, switch=switch)
    bill = result.ledger.select(destination="switch")
    n_up = bill.select(direction="up").traffic(WIRE).n_packets
    assert switch.counters.packets_in == n_up + 49
    n_peaks = 1
    assert switch.counters.packets_out == 50 + n_peaks


def test_tensors_on_an_accelerator_are_added_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    updates = [torch.from_numpy(update) for update in some_updates()]
    compressor = FediAC(4, 200, 2, bits=10)
    packets = aggregate(updates, compressor, seed=1, round_number=1)
    elsewhere = SimpleNamespace(type="cuda")
    monkeypatch.setattr(vectors, "device", lambda _: elsewhere)
    switch = Switch()
    arrays = aggregate(updates, compressor, seed=1, round_number=1, switch=switch)
    assert switch.counters.packets_in == 0
    assert bytes_of(arrays.mean) == bytes_of(packets.mean)
    assert arrays.facts == packets.facts
    assert arrays.ledger == packets.ledger


def test_wire_view_counts_whole_ip_packets() -> None:
    result = aggregate(some_updates(1), SwitchML(1), seed=1, round_number=1)
    up = result.ledger.select(direction="up", phase="levels").traffic(WIRE)
    # 938 lanes of 12 bits fill a packet, so 2,000 of them take three.
    assert up.n_packets == 3
    assert up.n_bytes == 3000 + 3 * (HEADER_BYTES + IP_UDP_BYTES)
    assert WIRE.payload_bytes + WIRE.header_bytes == 1476


@pytest.mark.parametrize("payload_bytes", [64, 8128])
@pytest.mark.parametrize(
    "compressor",
    [
        FediAC(4, 200, 2),
        SwitchML(4),
        OmniReduce(4, 90, block=16),
    ],
    ids=lambda each: type(each).__name__,
)
def test_wire_view_counts_the_packets_that_the_switch_saw(
    compressor: Compressor, payload_bytes: int
) -> None:
    switch = Switch(payload_bytes=payload_bytes)
    updates = some_updates()
    result = aggregate(updates, compressor, seed=1, round_number=1, switch=switch)
    bill = result.ledger.select(destination="switch")
    up, down = (bill.select(direction=each) for each in ("up", "down"))
    assert up.traffic(WIRE).n_packets == switch.counters.packets_in
    multicast = down.traffic(WIRE, is_multicast=True)
    assert multicast.n_packets == switch.counters.packets_out
    # The paper's view has the paper's packets.
    with_default = aggregate(updates, compressor, seed=1, round_number=1)
    assert result.ledger.traffic() == with_default.ledger.traffic()


def test_votes_too_few_for_such_updates_are_warned_of() -> None:
    updates = [np.ones(3010, np.float32)] * 3
    with pytest.warns(UserWarning, match="^clients vote for 61 of 3,010 par") as warned:
        aggregate(updates, FediAC(3, n_votes="2%"), seed=1, round_number=1)
    assert [each.filename for each in warned] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        aggregate(updates, FediAC(3), seed=1, round_number=1)


def test_a_warning_that_is_an_error_leaves_states_as_they_were() -> None:
    updates = [np.ones(3010, np.float32)] * 3
    states = aggregate(updates, FediAC(3), seed=1, round_number=1).states
    before = [bytes_of(each.residual) for each in states]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="clients vote for"):
            aggregate(
                updates,
                FediAC.lean(3, n_votes="2%"),
                seed=1,
                round_number=2,
                states=states,
                out=states,
            )
    assert [bytes_of(each.residual) for each in states] == before
