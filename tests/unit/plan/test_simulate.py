from typing import Any

import pytest

from fediac import SwitchML
from fediac.plan.expected_traffic import ExpectedRound
from fediac.plan.networks import NetworkDescription
from fediac.plan.simulate import simulate
from fediac.sim import simulate_round

SETTING = ExpectedRound("switchml", SwitchML(3), dim=5000)


def test_a_round_begins_when_the_last_one_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    starts = []

    def spy(*arguments: Any, start_s: float, **others: Any) -> Any:
        starts.append(start_s)
        return simulate_round(*arguments, start_s=start_s, **others)

    monkeypatch.setattr("fediac.plan.simulate.simulate_round", spy)
    done = simulate(SETTING, NetworkDescription(compute_s=1.0), n_rounds=3, seed=1)
    first, second, _ = (each.round_s for each in done.rounds)
    assert starts == [0.0, first, first + second]
