"""What a GPU measures of a model, beside what the CPU does.

Skipped by name on machines without CUDA; CI has none.
"""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fediac.training.engines import make_engine
from fediac.training.local_settings import LocalSettings
from tests.tiny import normed_model, seeded, tiny_dataset

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no CUDA device on this machine"
)

DATA = tiny_dataset()
CLIENTS = np.array_split(np.arange(len(DATA.train)), 4)
SETTINGS = LocalSettings(steps=2, batch_size=8)


@pytest.fixture
def engines() -> Iterator[dict[str, Any]]:
    made = {
        device: make_engine(
            lambda: seeded(normed_model),
            DATA,
            CLIENTS,
            SETTINGS,
            seed=5,
            on_cuda=device == "cuda",
            n_at_once=2,
        )
        for device in ("cpu", "cuda")
    }
    with closing(made["cpu"]), closing(made["cuda"]):
        yield made


def measured(engine: Any, clients: list[int]) -> list[Tensor]:
    results = engine.recalibrate(clients, round_number=3)
    assert [each.n_examples for each in results] == [24] * len(clients)
    return [each.statistics.cpu() for each in results]


def test_a_gpu_sees_what_the_cpu_sees(engines: dict[str, Any]) -> None:
    everyone = list(range(4))
    on_cpu, on_cuda = (measured(engines[each], everyone) for each in ("cpu", "cuda"))
    for one, two in zip(on_cpu, on_cuda, strict=True):
        # Convolutions take their inputs and weights, and give their output, in
        # bfloat16: each rounds by up to 2^-9, in sums of ten that may cancel.
        torch.testing.assert_close(two, one, rtol=0.02, atol=0.02)
    # Two clients differ by more than twice what is let pass.
    assert float((on_cpu[0] - on_cpu[1]).abs().max()) > 0.045


def test_a_gpu_sees_the_same_again_whatever_it_did_between(
    engines: dict[str, Any],
) -> None:
    engine = engines["cuda"]
    first = measured(engine, [2])
    engine.train([0, 1], round_number=1, rate=0.1)
    engine.evaluate()
    assert torch.equal(measured(engine, [1, 2])[1], first[0])
    start = engine.evaluate()
    measured(engine, [0])
    assert engine.evaluate() == start
