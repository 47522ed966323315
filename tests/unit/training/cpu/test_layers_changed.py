"""Modules that use the kernels and are then copied, changed or looked into."""

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

from fediac import native
from fediac.training.cpu.layers import KernelSequential, use_kernels
from tests.unit.training.cpu.small_layers import (
    conv,
    fast_copy,
    require_kernels,
    whole,
    with_whole_weights,
)


@pytest.fixture(autouse=True)
def _built() -> None:
    require_kernels()


@pytest.mark.parametrize("is_late", [False, True])
def test_hooks_see_every_layer(*, is_late: bool) -> None:
    seen: list[tuple[int, ...]] = []
    module = nn.Sequential(conv(), nn.MaxPool2d(2), nn.ReLU())
    if is_late:
        use_kernels(module)
    module[1].register_forward_hook(lambda _layer, _in, out: seen.append(out.shape))
    use_kernels(module)
    module(torch.ones(1, 2, 8, 8))
    assert seen == [(1, 16, 3, 3)]


def test_hooks_of_all_modules_see_every_layer() -> None:
    module = fast_copy(nn.Sequential(conv(), nn.MaxPool2d(2), nn.ReLU()))
    seen: list[nn.Module] = []
    handle = register_module_forward_hook(lambda layer, _in, _out: seen.append(layer))
    try:
        module(torch.ones(1, 2, 8, 8))
    finally:
        handle.remove()
    assert seen == [*module.children(), module]


def with_kernels() -> tuple[nn.Module, nn.Module]:
    """Return a model as PyTorch has it, and as the kernels do it."""
    module = nn.Sequential(
        *(conv(), nn.MaxPool2d(2), nn.ReLU(), conv(16), nn.Flatten())
    )
    with_whole_weights(module)
    return module, fast_copy(module)


def one_by_one(module: nn.Module, images: Tensor) -> Tensor:
    """Return the output of a sequential whose layers are called one by one."""
    for layer in module.children():
        images = layer(images)
    return images


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))]
)
def test_a_copy_uses_the_kernels_with_its_own_weights(
    copied: Callable[[nn.Module], nn.Module],
) -> None:
    module, fast = with_kernels()
    replica = cast("KernelSequential", copied(fast))
    with torch.no_grad():
        cast("nn.Conv2d", replica[0]).weight.zero_()
        cast("nn.Conv2d", replica[3]).bias.zero_()  # type: ignore[union-attr] # has one
    images = whole(2, 2, 8, 8)
    assert torch.equal(fast(images), module(images))
    assert not torch.equal(replica(images), module(images))
    runs = [run for run, _ in replica.steps if run is not None]
    assert [run.convolution for run in runs] == [replica[0]]
    assert all(run.kernels is not None for run in runs)


def test_a_copy_made_without_kernels_goes_to_pytorch() -> None:
    module, fast = with_kernels()
    fast(whole(1, 2, 8, 8))
    with native.disabled():
        replica = copy.deepcopy(fast)
    images = whole(2, 2, 8, 8)
    assert torch.equal(replica(images), module(images))


def test_state_and_names_stay_as_they_are() -> None:
    module, fast = with_kernels()
    fast(whole(1, 2, 8, 8))
    assert [name for name, _ in fast.named_modules()] == [
        name for name, _ in module.named_modules()
    ]
    assert list(fast.state_dict()) == list(module.state_dict())


def test_a_part_of_a_sequential_can_be_called() -> None:
    module, fast = with_kernels()
    images = whole(2, 2, 8, 8)
    part = cast("KernelSequential", cast("nn.Sequential", fast)[:3])
    assert torch.equal(part(images), cast("nn.Sequential", module)[:3](images))
    assert [len(layers) for _, layers in part.steps] == [3]


def test_layers_that_are_exchanged_or_added_later_are_used() -> None:
    _, fast = with_kernels()
    sequential = cast("nn.Sequential", fast)
    images = whole(2, 2, 8, 8)
    sequential(images)
    sequential[0] = with_whole_weights(conv(bias=False), largest=1)
    sequential.append(nn.Threshold(3.0, -1.0))
    assert torch.equal(sequential(images), one_by_one(sequential, images))
    assert sequential(images).min() == -1.0


def test_a_layer_with_its_own_forward_keeps_it() -> None:
    module = nn.Sequential(conv(), nn.MaxPool2d(2), nn.ReLU())
    ones = torch.ones(2, 16, 6, 6)
    module[0].forward = lambda _images: ones
    use_kernels(module)
    assert torch.equal(module(torch.zeros(2, 2, 8, 8)), torch.ones(2, 16, 3, 3))


@pytest.mark.parametrize(
    "normalize", [parametrizations.weight_norm, parametrizations.spectral_norm]
)
@pytest.mark.parametrize("is_late", [False, True])
def test_weights_that_are_computed_are_used(
    normalize: Callable[[nn.Module], nn.Module], *, is_late: bool
) -> None:
    module, fast = with_kernels()
    if not is_late:
        fast = copy.deepcopy(module)
    layer = cast("nn.Sequential", fast)[0]
    normalize(layer)
    use_kernels(fast)
    fast.eval()  # spectral norm changes with every call in training
    images = whole(2, 2, 8, 8)
    assert torch.equal(fast(images), one_by_one(fast, images))
    fast(images).sum().backward()
    assert all(each.grad is not None for each in layer.parameters())


def test_weights_that_were_replaced_are_used() -> None:
    module = nn.Sequential(conv(2, 32), nn.MaxPool2d(2))
    with_whole_weights(module)
    layer = cast("nn.Conv2d", module[0])
    layer.weight = nn.Parameter(layer.weight.detach()[:16])
    layer.bias = nn.Parameter(whole(32)[::2])
    images = whole(2, 2, 8, 8)
    assert torch.equal(fast_copy(module)(images), module(images))
    layer.weight = nn.Parameter(layer.weight.detach()[:8])
    layer.bias = None
    assert torch.equal(fast_copy(module)(images), module(images))


def test_a_bias_that_lies_anyhow_is_taken() -> None:
    module = nn.Sequential(conv(), nn.MaxPool2d(2))
    with_whole_weights(module)
    fast = fast_copy(module)
    bias = cast("nn.Conv2d", fast[0]).bias  # type: ignore[index] # sequential
    assert bias is not None
    bias.data = torch.stack([bias.data, torch.full_like(bias.data, 50.0)], dim=1)[:, 0]
    assert bias.stride() == (2,)
    images = whole(2, 2, 8, 8)
    assert torch.equal(fast(images), module(images))


@pytest.fixture
def _doubles() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def _no_memory() -> Iterator[None]:
    with torch.device("meta"):
        yield


@pytest.mark.parametrize("defaults", ["_doubles", "_no_memory"])
def test_what_pytorch_makes_by_default_does_not_matter(
    defaults: str, request: pytest.FixtureRequest
) -> None:
    module, fast = with_kernels()
    images, slopes = whole(2, 2, 8, 8).requires_grad_(), whole(2, 16)
    inputs = [images, *module.parameters()], [images, *fast.parameters()]
    expected = torch.autograd.grad(module(images), inputs[0], slopes)
    request.getfixturevalue(defaults)
    found = torch.autograd.grad(fast(images), inputs[1], slopes)
    for each, wanted in zip(found, expected, strict=True):
        assert torch.equal(each, wanted)


def test_what_is_computed_again_for_the_gradient_is_taken() -> None:
    module, fast = with_kernels()
    images, slopes = whole(2, 2, 8, 8).requires_grad_(), whole(2, 16)
    (expected,) = torch.autograd.grad(module(images), images, slopes)
    out = checkpoint(fast, images, use_reentrant=False)
    (found,) = torch.autograd.grad(out, images, slopes)
    assert torch.equal(found, expected)
