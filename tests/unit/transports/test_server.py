from typing import Any

import numpy as np
import pytest

from fediac.core.exchange import ServerSum
from fediac.transports.server import serve
from tests.support import KINDS, Make, bytes_of, to_numpy


@pytest.fixture(params=sorted(KINDS))
def make(request: pytest.FixtureRequest) -> Make:
    return KINDS[request.param]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_are_added_in_the_order_of_clients(make: Make, dtype: type[Any]) -> None:
    # In float64, 1 is lost beside 1e17: only the order 0, 1, 2 keeps the last 1.
    values = np.array([[1e17, 5.0], [-1e17, 5.0], [1.0, 5.0]]).astype(dtype)
    requests = {i: ServerSum(make(values[i])) for i in (2, 0, 1)}
    answer = serve(requests)
    assert to_numpy(answer.values).dtype == dtype
    assert to_numpy(answer.values).tolist() == [dtype(1.0 / 3.0), 5.0]
    assert answer.indices is None


def test_sparse_floats_become_the_mean_over_all_clients(make: Make) -> None:
    sent = {
        0: ([1, 4], [3.0, 6.0]),
        1: ([4, 9], [12.0, -3.0]),
        2: ([], []),
    }
    requests = {
        client: ServerSum(
            make(np.array(values, dtype=np.float32)),
            make(np.array(indices, dtype=np.int64)),
        )
        for client, (indices, values) in sent.items()
    }
    answer = serve(requests)
    assert to_numpy(answer.indices).tolist() == [1, 4, 9]
    assert to_numpy(answer.values).tolist() == [1.0, 6.0, -1.0]


def test_nobody_sending_anything_gives_nothing(make: Make) -> None:
    empty = ServerSum(
        make(np.zeros(0, dtype=np.float32)), make(np.zeros(0, dtype=np.int64))
    )
    answer = serve({0: empty, 1: empty})
    assert to_numpy(answer.values).tolist() == []
    assert to_numpy(answer.indices).tolist() == []


@pytest.mark.parametrize("is_sparse", ["sparse", "dense"])
def test_mean_does_not_depend_on_chunks(
    make: Make, is_sparse: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    requests = {}
    for client in range(3):
        entries = np.flatnonzero(rng.random(9000) < 0.2)
        values = rng.standard_normal(len(entries)).astype(np.float32)
        indices = make(entries) if is_sparse == "sparse" else None
        length = None if is_sparse == "sparse" else 1500
        requests[client] = ServerSum(make(values[:length]), indices)
    answers = []
    for length in (4096, 1 << 17):
        monkeypatch.setattr("fediac.core.chunks.HOST_CHUNK", length // 8)
        answers.append(serve(requests))
    assert bytes_of(answers[0].values) == bytes_of(answers[1].values)
    if is_sparse == "sparse":
        assert bytes_of(answers[0].indices) == bytes_of(answers[1].indices)
