"""Whose threshold decides how long a slot of bounded memory is."""

from pathlib import Path
from typing import Any

import pytest

from fediac.compressors import FediAC
from fediac.plan.networks import make_network
from tests.tiny import read_lines
from tests.unit.runs.test_loop import run


@pytest.fixture
def thresholds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Those that networks were made with."""
    found = []

    def spy(*arguments: Any, threshold: int, **others: Any) -> Any:
        found.append(threshold)
        return make_network(*arguments, threshold=threshold, **others)

    monkeypatch.setattr("fediac.runs.loop.make_network", spy)
    return found


def test_that_of_the_server_once_it_has_chosen(
    tmp_path: Path, thresholds: list[int]
) -> None:
    given: dict[str, Any] = {"fediac": {"threshold": 3}, "tuning": "server"}
    run(tmp_path / "run", stop={"rounds": 1}, **given)
    tuned = read_lines(tmp_path / "run")[0]["tuned"]["threshold"]
    assert tuned != 3
    # Averaging has none: once when settings are checked, once to begin with.
    assert thresholds == [1, 1, tuned]
    run(tmp_path / "run", resumes=True, stop={"rounds": 2}, **given)
    assert thresholds[3:] == [1, tuned]


def votes_of_two(n_clients: int, dim: int) -> FediAC:
    return FediAC(n_clients, n_votes=dim // 4, threshold=2)


def test_that_of_an_own_algorithm(tmp_path: Path, thresholds: list[int]) -> None:
    given: dict[str, Any] = {"fediac": {"threshold": 3}}
    own = f"{__name__}:votes_of_two"
    run(tmp_path / "run", algorithm=own, stop={"rounds": 1}, **given)
    assert thresholds == [2, 2]
