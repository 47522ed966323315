import numpy as np

from fediac.compressors import SwitchML
from fediac.core.bitpack import unpack_lanes
from fediac.core.exchange import Max, Peak, Sum
from tests.unit.compressors.rounds import (
    DIM,
    answer,
    some_update,
    start,
    totals,
)

AGREED = Peak(5.0)


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
