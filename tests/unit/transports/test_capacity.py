"""A switch that is too small is refused before a residual is overwritten."""

from typing import Any

import numpy as np
import pytest

from fediac import FediAC, Libra, OmniReduce, Switch, SwitchML, aggregate
from fediac.compressors import Compressor
from tests.support import refuses

DIM = 20_000
UPDATES = list(np.random.default_rng(1).standard_normal((4, DIM)).astype(np.float32))


@pytest.mark.parametrize(
    ("compressor", "small", "text"),
    [
        (
            FediAC(4, 50, 2),
            {"register_bytes": 5823},
            "register_bytes must be at least 5824 for two packets of a tally from 4 "
            "clients, got 5823",
        ),
        *(
            (
                compressor,
                {"payload_bytes": 1},
                "payload_bytes must hold 2 items of 12 bits, got 1",
            )
            for compressor in (FediAC(4, 50, 2, bits=12), SwitchML(4))
        ),
        (
            SwitchML(4, lanes="words"),
            {"payload_bytes": 31},
            "payload_bytes must hold 8 lanes of 32 bits, got 31",
        ),
        (
            SwitchML(4, bits=14, lanes="words"),
            {"register_bytes": 5823},
            "register_bytes must be at least 5824 for two packets of a sum from 4 "
            "clients, got 5823",
        ),
        (
            FediAC(4, 50, 1, lanes="dense"),
            {"register_bytes": 5823},
            "register_bytes must be at least 5824 for two packets of a sum from 4 "
            "clients, got 5823",
        ),
        (
            OmniReduce(4, 20),
            {"payload_bytes": 64},
            "block must be at most 16 entries (payload_bytes=64), got 352",
        ),
        (
            OmniReduce(4, 20),
            {"register_bytes": 3050},
            "register_bytes must be at least 3056 for two packets of a block_sum from "
            "4 clients, got 3050",
        ),
        (
            Libra(4, 20, np.arange(100)),
            {"payload_bytes": 7},
            "payload_bytes must hold 1 item of 64 bits, got 7",
        ),
        (
            Libra(4, 20, np.arange(DIM)),
            {"register_bytes": 5000},
            "an indexed sum must have at most 1163 addresses (register_bytes=5000), "
            "got 20000",
        ),
    ],
)
def test_a_switch_without_room_changes_nothing(
    compressor: Compressor, small: dict[str, Any], text: str
) -> None:
    states = aggregate(UPDATES, compressor, seed=1, round_number=1).states
    before = [np.asarray(each.residual).tobytes() for each in states]
    with refuses(text):
        aggregate(
            UPDATES,
            compressor,
            switch=Switch(**small),
            seed=1,
            round_number=2,
            states=states,
            out=states,
        )
    assert [np.asarray(each.residual).tobytes() for each in states] == before
