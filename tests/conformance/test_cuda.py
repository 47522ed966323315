"""Rounds on a GPU stay there and have the bits of packets through a switch.

Skipped by name on machines without CUDA; CI has none.
"""

from typing import Any

import numpy as np
import pytest
import torch

from fediac import aggregate
from tests.conformance.rounds import residual_bytes, row_values
from tests.conformance.test_compressors import COMPRESSORS

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no CUDA device on this machine"
)

DIM, N_CLIENTS = 50_021, 5


def updates_of(dtype: Any, round_number: int) -> list[Any]:
    rng = np.random.default_rng(round_number)
    sizes = rng.permutation(np.arange(1, DIM + 1)) ** -0.5
    return [(sizes * rng.standard_normal(DIM)).astype(dtype) for _ in range(N_CLIENTS)]


@pytest.mark.parametrize("name", COMPRESSORS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cuda_round_has_the_bits_of_packets(name: str, dtype: Any) -> None:
    compressor = COMPRESSORS[name](N_CLIENTS, DIM)
    states = states_on_gpu = None
    for round_number in (1, 2):
        updates = updates_of(dtype, round_number)
        on_host = aggregate(
            updates, compressor, seed=3, round_number=round_number, states=states
        )
        on_gpu = aggregate(
            [torch.from_numpy(each).cuda() for each in updates],
            compressor,
            seed=3,
            round_number=round_number,
            states=states_on_gpu,
        )
        states, states_on_gpu = on_host.states, on_gpu.states
        assert on_gpu.mean.is_cuda
        assert on_gpu.mean.cpu().numpy().tobytes() == on_host.mean.tobytes()
        assert on_gpu.facts == on_host.facts
        rows = [row_values(row) for row in on_host.ledger.rows]
        for row in on_gpu.ledger.rows:
            assert row.blocks is None or row.blocks.is_cuda
        assert [row_values(row) for row in on_gpu.ledger.rows] == rows
        for here, there in zip(states, states_on_gpu, strict=True):
            assert here.bits == there.bits
            assert residual_bytes(here) == residual_bytes(there)
            assert there.residual is None or there.residual.is_cuda
