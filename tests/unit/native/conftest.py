from collections.abc import Iterator

import pytest

from fediac import native
from fediac.native import kernels, library, threads
from tests.planes import instruction_set, require_native


@pytest.fixture(autouse=True)
def _built() -> None:
    require_native()


@pytest.fixture(params=library.ISAS)
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run once with each instruction set."""
    with instruction_set(request.param):
        yield request.param


@pytest.fixture
def _short_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every thread a share, however little there is to do."""
    monkeypatch.setattr(threads, "MIN_SHARE", 1)
    monkeypatch.setattr(kernels, "_MIN_LEVELS", 1)


@pytest.fixture(params=[1, 2, 3, 7])
def n_threads(request: pytest.FixtureRequest, _short_shares: None) -> Iterator[int]:
    before = native.n_threads()
    native.set_threads(request.param)
    yield request.param
    native.set_threads(before)
