from typing import Any

import numpy as np
import pytest

from fediac.compressors import State, SwitchML
from fediac.core.bitpack import unpack_lanes
from fediac.core.exchange import Contributors, Max, Peak, Sum, Totals
from tests.support import refuses
from tests.unit.compressors.rounds import DIM, EVERYONE, answer, some_update, start

AGREED = Peak(5.0, EVERYONE)


def totals(asked: Sum, contributors: Contributors = EVERYONE) -> Totals:
    return Totals(
        asked.lanes, asked.n_levels, asked.bits_down, asked.limit, contributors
    )


def test_peak_is_agreed_first_then_all_entries_are_sent() -> None:
    client = start(SwitchML(2, bits=12), some_update())
    assert answer(client) == Max(4.0)
    asked = answer(client, AGREED)
    assert isinstance(asked, Sum)
    assert (asked.n_levels, asked.bits_down, asked.limit) == (DIM, 12, 2047 // 2)
    levels = unpack_lanes(asked.lanes, DIM, 12) - asked.limit
    scale = (2**11 - 2) / (2 * 5.0)
    assert np.all(np.abs(levels - scale * some_update().astype(np.float64)) < 1.0)
    outcome = answer(client, totals(asked))
    left = some_update().astype(np.float64) - levels / scale
    assert np.array_equal(outcome.state.residual, left.astype(np.float32))
    assert outcome.state.bits is None
    assert outcome.facts.n_chosen == DIM


def test_client_left_out_of_a_packet_keeps_its_values() -> None:
    client = start(SwitchML(2, bits=12), some_update())
    answer(client)
    asked = answer(client, AGREED)
    partial = Contributors(0b11, {1: 0b01}, entries_per_packet=16)
    residual = answer(client, totals(asked, partial)).state.residual
    bound = 2 * np.finfo(np.float32).eps * 4.0  # rounded to float32 twice
    assert np.all(np.abs(residual - some_update())[16:32] <= bound)
    assert np.all(np.abs(residual[:16]) < 10.0 / (2**11 - 2))


def test_without_residual_nothing_is_kept() -> None:
    update = some_update()
    client = start(SwitchML(2, residual=False), update)
    answer(client)
    outcome = answer(client, totals(answer(client, AGREED)))
    assert outcome.state == State()
    assert np.array_equal(update, some_update())


def test_zero_peak_sends_nothing() -> None:
    client = start(SwitchML(2), np.zeros(DIM))
    answer(client)
    outcome = answer(client, Peak(0.0, EVERYONE))
    assert outcome.mean.parts == ()
    assert outcome.state.bits is None
    assert not np.any(outcome.state.residual)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"n_clients": 0}, "n_clients must be at least 1, got 0"),
        ({"bits": 5}, "bits must leave room for 20 clients (at least 6), got 5"),
        ({"bits": 40}, "bits must be at most 32 (a lane), got 40"),
    ],
)
def test_settings_out_of_range_are_refused(settings: Any, text: str) -> None:
    with refuses(text):
        SwitchML(**{"n_clients": 20} | settings)
