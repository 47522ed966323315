from typing import Any

import numpy as np
import pytest

from fediac import native
from fediac.core import chunks
from tests.support import KINDS, Make


@pytest.fixture(params=sorted(KINDS))
def make(request: pytest.FixtureRequest) -> Make:
    return KINDS[request.param]


@pytest.fixture(params=[np.float32, np.float64])
def dtype(request: pytest.FixtureRequest) -> type[Any]:
    kind: type[Any] = request.param
    return kind


@pytest.fixture(params=["as installed", "without kernels"])
def both_paths(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "without kernels":
        _leave_all_to_core(monkeypatch)


@pytest.fixture
def short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Core cuts after 4,096 entries, and never leaves the work to the kernels."""
    _leave_all_to_core(monkeypatch)
    monkeypatch.setattr(chunks, "HOST_CHUNK", 4096)


def _leave_all_to_core(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("kernels_for", "host_kernels_for"):
        monkeypatch.setattr(native, name, lambda *_: None)
