from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fediac.runs.build import PreparedRun, prepare_run
from tests.tiny import make_settings


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Any]:
    built: list[PreparedRun] = []

    def make(**changes: Any) -> PreparedRun:
        built.append(prepare_run(make_settings(tmp_path, **changes)))
        return built[-1]

    yield make
    for prepared in built:
        prepared.engine.close()
