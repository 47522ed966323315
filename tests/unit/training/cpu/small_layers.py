"""Small layers whose weights and images are whole numbers: sums are exact then."""

import copy

import pytest
import torch
from torch import Tensor, nn

from fediac import native
from fediac.training.cpu.layers import use_kernels
from tests.planes import require_native


def require_kernels() -> None:
    """Skip where PyTorch's own layers are used."""
    require_native()
    if native.isa() == "baseline":
        pytest.skip("this machine has no AVX2: PyTorch's layers are used")


def whole(*size: int, seed: int = 1, largest: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randint(-largest, largest + 1, size, generator=generator)
    return numbers.to(torch.float32)


def with_whole_weights(module: nn.Module, *, largest: int = 2) -> nn.Module:
    with torch.no_grad():
        for seed, each in enumerate(module.parameters()):
            each.copy_(whole(*each.shape, seed=seed, largest=largest))
    return module


def fast_copy(module: nn.Module) -> nn.Module:
    replica = copy.deepcopy(module)
    use_kernels(replica)
    return replica


def conv(n_in: int = 2, n_out: int = 16, **settings: object) -> nn.Conv2d:
    return nn.Conv2d(n_in, n_out, 3, **settings)  # type: ignore[arg-type] # any
