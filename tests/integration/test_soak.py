"""The short form of `make soak-network`, and that it can fail."""

import sys

import pytest

from tests import soak_network
from tests.soak_network import Soak, growth, say_growth, soak

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="/proc tells what processes have in memory"
)
MIB = 1 << 20


def test_memory_stays_flat() -> None:
    assert soak(Soak(9.0, look_s=0.25, n_clients=2), lambda _: None) == []


def test_a_switch_that_leaks_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDIAC_MISTAKE", "leak")
    leaking = Soak(
        4.0,
        look_s=0.2,
        n_clients=2,
        kill_s=60.0,
        child="tests.integration.wrong_children",
    )
    wrong = soak(leaking, lambda _: None)
    assert any(each.startswith("the switch has grown by ") for each in wrong), wrong


def test_growth_is_that_of_the_last_third() -> None:
    warming = [0, 40 * MIB, 50 * MIB] + [60 * MIB] * 6
    assert growth(warming) == 0
    assert growth([0] * 3 + [MIB] * 3 + [8 * MIB] * 3) == 7 * MIB
    assert say_growth({"switch": warming}) == []
    assert soak_network.ALLOWED_BYTES < 7 * MIB
