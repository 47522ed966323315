from collections.abc import Iterator

import pytest

from fediac.switch.job import Job
from fediac.switch.pipeline import Switch
from tests.planes import PLANES, data_plane


@pytest.fixture(params=PLANES, autouse=True)
def plane(request: pytest.FixtureRequest) -> Iterator[str]:
    """Every test of the switch runs on both of its data planes."""
    with data_plane(request.param):
        yield request.param


@pytest.fixture
def switch() -> Switch:
    """A switch whose packets hold 16 bytes."""
    return Switch(4096, payload_bytes=16)


@pytest.fixture
def job(switch: Switch) -> Job:
    """Three clients that have the whole switch."""
    return switch.open(3)
