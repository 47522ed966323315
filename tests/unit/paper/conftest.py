from pathlib import Path

import pytest

from fediac.paper.scenarios import Scenario
from tests.unit.paper.tiny_scenario import make_scenario


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    return make_scenario(tmp_path / "data")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"
