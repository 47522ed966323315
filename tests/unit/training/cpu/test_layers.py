"""Layers by the compiled kernels: which they are, and that nobody can tell.

Inputs are small whole numbers where results must be equal: sums are exact then.
"""

import copy
from collections.abc import Iterator
from typing import cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from fediac import native
from fediac.training.cpu.layers import (
    KernelConv2d,
    KernelMaxPool2d,
    KernelSequential,
    use_kernels,
)
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


@pytest.fixture
def _no_kernels() -> Iterator[None]:
    with native.disabled():
        yield


def everything_of(module: nn.Module, images: Tensor) -> list[Tensor]:
    """Return the output and the gradients of images and parameters."""
    images = images.clone().requires_grad_()
    out = module(images)
    slopes = whole(*out.shape, seed=9)
    found = torch.autograd.grad(out, [images, *module.parameters()], slopes)
    return [out.detach(), *found]


def assert_equal(module: nn.Module, images: Tensor) -> None:
    with_whole_weights(module)
    expected = everything_of(module, images)
    for each, wanted in zip(
        everything_of(fast_copy(module), images), expected, strict=True
    ):
        assert torch.equal(each, wanted)


def run_names(module: nn.Module) -> list[str]:
    """Return how many layers each step of a sequential has, 1 for PyTorch's own."""
    steps = cast("KernelSequential", fast_copy(module)).steps
    return [f"{'kernel' if run else 'own'} {len(layers)}" for run, layers in steps]


@pytest.mark.parametrize(
    "layers",
    [
        (conv(), nn.MaxPool2d(2), nn.ReLU()),
        (conv(padding=1), nn.ReLU(inplace=True), nn.MaxPool2d((2, 2), (2, 2))),
        (conv(bias=False), nn.MaxPool2d(2)),
        (conv(), nn.ReLU()),
        (nn.MaxPool2d(2), nn.ReLU(inplace=True)),
        (nn.MaxPool2d(2),),
        (conv(padding=(2, 0)), nn.MaxPool2d(2), nn.ReLU(), conv(16), nn.MaxPool2d(2)),
    ],
)
@pytest.mark.parametrize("memory", [torch.channels_last, torch.contiguous_format])
def test_layers_give_what_pytorch_gives(
    layers: tuple[nn.Module, ...], memory: torch.memory_format
) -> None:
    images = whole(3, 2, 13, 12).contiguous(memory_format=memory)
    assert_equal(nn.Sequential(*copy.deepcopy(layers)), images)


def test_images_that_lie_anyhow_are_taken() -> None:
    images = whole(12, 26, 2, 3).permute(3, 2, 1, 0)[:, :, ::2]
    assert_equal(nn.Sequential(conv(), nn.MaxPool2d(2), nn.ReLU()), images)


def test_runs_of_layers_are_done_as_one() -> None:
    pool, relu = nn.MaxPool2d(2), nn.ReLU()
    module = nn.Sequential(
        *(conv(), pool, relu, conv(16), relu, pool, nn.Identity()),
        *(conv(16, 32), nn.BatchNorm2d(32), pool, relu, relu, pool, nn.Flatten()),
    )
    assert run_names(module) == [
        *("kernel 3", "kernel 3", "own 1", "own 1", "own 1", "kernel 2"),
        *("own 1", "own 1", "own 1"),
    ]
    replica = fast_copy(module)
    assert [type(each) for each in list(replica.children())[:3]] == [
        *(KernelConv2d, KernelMaxPool2d, nn.ReLU),
    ]


def test_layers_inside_other_modules_are_found() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = conv()
            self.rest = nn.Sequential(conv(16), nn.MaxPool2d(2), nn.ReLU())

        def forward(self, images: Tensor) -> Tensor:
            out: Tensor = self.rest(functional.max_pool2d(self.first(images), 2))
            return out

    replica = cast("Own", fast_copy(Own()))
    assert type(replica.first) is KernelConv2d
    assert type(replica.rest) is KernelSequential
    assert_equal(Own(), whole(2, 2, 14, 14))


@pytest.mark.parametrize(
    "layer",
    [
        conv(n_out=8),
        conv(n_in=17),
        conv(stride=2),
        conv(dilation=2),
        conv(groups=2),
        conv(padding="same"),
        conv(padding=1, padding_mode="circular"),
        nn.MaxPool2d(3),
        nn.MaxPool2d(2, stride=1),
        nn.MaxPool2d(2, padding=1),
        nn.MaxPool2d(2, dilation=2),
        nn.MaxPool2d(2, ceil_mode=True),
        nn.MaxPool2d(2, return_indices=True),
        nn.Conv1d(2, 16, 3),
        nn.LazyConv2d(16, 3),
    ],
)
def test_other_layers_stay_as_they_are(layer: nn.Module) -> None:
    kind = type(layer)
    use_kernels(layer)
    assert type(layer) is kind


@pytest.mark.parametrize(
    "images",
    [
        torch.ones(2, 8, 8),  # one image without a batch
        torch.ones(1, 2, 8, 8, dtype=torch.float64),
    ],
)
def test_images_of_other_kinds_go_to_pytorch(images: Tensor) -> None:
    module = nn.Sequential(conv(), nn.MaxPool2d(2), nn.ReLU()).to(images.dtype)
    expected = module(images)
    assert torch.equal(fast_copy(module)(images), expected)


def test_half_precision_where_it_is_asked_for_goes_to_pytorch() -> None:
    module = nn.Sequential(conv(), nn.MaxPool2d(2), nn.ReLU())
    with torch.autocast("cpu", torch.bfloat16):
        out = fast_copy(module)(torch.ones(1, 2, 8, 8))
        assert out.dtype == torch.bfloat16
        assert torch.equal(out, module(torch.ones(1, 2, 8, 8)))


@pytest.mark.parametrize("size", [(1, 3, 8, 8), (1, 2, 2, 8), (1, 2, 3, 8)])
def test_sizes_that_do_not_fit_get_the_error_of_pytorch(size: tuple[int, ...]) -> None:
    module = nn.Sequential(conv(), nn.MaxPool2d(2), nn.ReLU())
    with pytest.raises(RuntimeError) as expected:
        module(torch.ones(size))
    with pytest.raises(RuntimeError) as error:
        fast_copy(module)(torch.ones(size))
    assert str(error.value) == str(expected.value)


def test_a_gradient_can_be_differentiated_again() -> None:
    def again(module: nn.Module) -> list[Tensor]:
        images = whole(1, 2, 8, 8, largest=1).requires_grad_()
        out = (module(images) ** 2).sum()
        (slope,) = torch.autograd.grad(out, images, create_graph=True)
        mixed = (slope * whole(*slope.shape, seed=5, largest=1)).sum()
        return list(torch.autograd.grad(mixed, list(module.parameters())))

    layers: tuple[nn.Module, ...] = (conv(padding=1), nn.MaxPool2d(2), nn.ReLU())
    for module in (
        nn.Sequential(*layers, conv(16, bias=False)),
        nn.Sequential(conv(padding=1), nn.Hardtanh(-20.0, 20.0), nn.MaxPool2d(2)),
    ):
        with_whole_weights(module, largest=1)
        expected = again(module)
        assert all(bool(each.any()) for each in expected)
        for each, wanted in zip(again(fast_copy(module)), expected, strict=True):
            assert torch.equal(each, wanted)


def test_functions_of_torch_func_go_to_pytorch() -> None:
    module = with_whole_weights(nn.Sequential(conv(), nn.MaxPool2d(2), nn.ReLU()))
    images = whole(3, 2, 8, 8)
    each_alone = torch.func.vmap(fast_copy(module))(images[:, None])
    assert torch.equal(each_alone[:, 0], module(images))


def test_a_compiled_module_is_left_alone() -> None:
    module = nn.Sequential(conv(), nn.MaxPool2d(2))
    compiled = cast("nn.Module", torch.compile(module, backend="eager"))
    use_kernels(compiled)
    assert type(module) is nn.Sequential


def test_frozen_layers_are_taken() -> None:
    module = nn.Sequential(conv(), nn.MaxPool2d(2), nn.ReLU(), conv(16))
    with_whole_weights(module)
    module[0].requires_grad_(requires_grad=False)
    images = whole(2, 2, 10, 10)

    def gradients(module: nn.Module) -> tuple[Tensor, ...]:
        trained = [each for each in module.parameters() if each.requires_grad]
        return torch.autograd.grad(module(images).sum(), trained)

    found, expected = gradients(fast_copy(module)), gradients(module)
    assert len(found) == 2
    for each, wanted in zip(found, expected, strict=True):
        assert torch.equal(each, wanted)


@pytest.mark.usefixtures("_no_kernels")
def test_without_kernels_layers_stay_as_they_are() -> None:
    module = nn.Sequential(conv(), nn.MaxPool2d(2))
    use_kernels(module)
    assert type(module) is nn.Sequential
    assert type(module[0]) is nn.Conv2d
