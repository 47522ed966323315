"""Every kernel on an update of ResNet-18's size, next to a copy of it.

Run with ``pytest benchmarks/bench_kernels.py``. Data stays as warm as a cache of the
machine keeps it; ``fediac bench`` measures cold caches instead.
"""

from collections.abc import Iterator

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fediac import native
from fediac.defaults import RESNET18_DIM
from fediac.plan.bench import BenchRound, step_names


@pytest.fixture(scope="module")
def bench_round() -> BenchRound:
    return BenchRound(RESNET18_DIM)


@pytest.fixture(params=[1, 2])
def n_threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = native.n_threads()
    native.set_threads(request.param)
    yield request.param
    native.set_threads(before)


def test_memcpy(benchmark: BenchmarkFixture, bench_round: BenchRound) -> None:
    copy = np.empty_like(bench_round.update)
    benchmark(np.copyto, copy, bench_round.update)


@pytest.mark.usefixtures("n_threads")
@pytest.mark.parametrize("name", step_names())
def test_kernel(
    benchmark: BenchmarkFixture, bench_round: BenchRound, name: str
) -> None:
    benchmark(bench_round.steps()[name])
