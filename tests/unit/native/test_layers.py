"""Compiled convolution and pooling against PyTorch's.

Inputs are small whole numbers, so that every sum is exact in any order, with or without
fused multiply-add: results must be equal, not close.
"""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from fediac import native
from fediac.native import library
from fediac.native.layers import (
    ConvolutionShape,
    LayerKernels,
    PoolShape,
    layer_kernels,
)

LAST = torch.channels_last


@dataclass(frozen=True)
class Case:
    n_images: int
    n_in: int
    n_out: int
    size: tuple[int, int]
    kernel: tuple[int, int]
    padding: tuple[int, int]


CASES = [
    Case(3, 1, 16, (28, 28), (3, 3), (1, 1)),
    Case(2, 16, 32, (14, 14), (3, 3), (1, 1)),
    Case(2, 3, 48, (9, 31), (5, 3), (2, 0)),  # three vectors, odd sizes, not square
    Case(1, 5, 16, (2, 2), (1, 1), (0, 0)),
    Case(2, 7, 80, (6, 13), (2, 4), (3, 5)),  # padding beyond the kernel
    Case(0, 1, 16, (4, 4), (3, 3), (1, 1)),
]


@pytest.fixture
def kernels(isa: str) -> LayerKernels:
    del isa
    loaded = library.load()
    assert loaded is not None
    return LayerKernels(loaded)


def whole(*size: int, seed: int, largest: int = 4) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randint(-largest, largest + 1, size, generator=generator)
    return numbers.to(torch.float32)


def last(tensor: Tensor) -> Tensor:
    return tensor.contiguous(memory_format=LAST)


def inputs_of(case: Case) -> tuple[Tensor, Tensor, Tensor]:
    images = last(whole(case.n_images, case.n_in, *case.size, seed=1))
    weight = last(whole(case.n_out, case.n_in, *case.kernel, seed=2))
    return images, weight, whole(case.n_out, seed=3)


def shape_of(
    case: Case, *, is_pooled: bool = False, is_rectified: bool = False
) -> ConvolutionShape:
    return ConvolutionShape(
        *(case.n_images, *case.size, case.n_in, case.n_out),
        *(*case.kernel, *case.padding, is_pooled, is_rectified),
    )


def expected(
    case: Case, inputs: tuple[Tensor, ...], *, is_pooled: bool, is_rectified: bool
) -> Tensor:
    images, weight, bias = inputs
    out = functional.conv2d(images, weight, bias, padding=case.padding)
    out = functional.max_pool2d(out, 2) if is_pooled else out
    return torch.relu(out) if is_rectified else out


def gradients(out: Tensor, inputs: tuple[Tensor, ...], slopes: Tensor) -> list[Tensor]:
    return [each.float() for each in torch.autograd.grad(out, inputs, slopes.double())]


def doubles(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(each.double().requires_grad_() for each in tensors)


def scratch_for(kernels: LayerKernels, shape: ConvolutionShape) -> Tensor:
    """Return scratch that is full of what must not be read."""
    return torch.full((kernels.n_scratch(shape),), torch.nan)


def new(size: torch.Size, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.empty(size, dtype=dtype, memory_format=LAST).fill_(-99)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("has_bias", [True, False])
def test_a_convolution_is_that_of_pytorch(
    kernels: LayerKernels, case: Case, *, has_bias: bool
) -> None:
    images, weight, bias = inputs_of(case)
    given = bias if has_bias else None
    reference = functional.conv2d(images, weight, given, padding=case.padding)
    out, shape = new(reference.shape), shape_of(case)
    kernels.convolve(
        shape, (images, weight, given), scratch_for(kernels, shape), out=(out, None)
    )
    assert torch.equal(out, reference)


@pytest.mark.parametrize("case", CASES)
def test_gradients_of_a_convolution_are_those_of_pytorch(
    kernels: LayerKernels, case: Case
) -> None:
    inputs = inputs_of(case)
    exact = doubles(inputs)
    reference = expected(case, exact, is_pooled=False, is_rectified=False)
    slopes = last(whole(*reference.shape, seed=4))
    d_weight, d_bias = new(inputs[1].shape), torch.full_like(inputs[2], -99)
    shape = shape_of(case)
    kernels.correlate(
        *(shape, inputs[0], (slopes, None), scratch_for(kernels, shape)),
        out=(d_weight, d_bias),
    )
    _, of_weight, of_bias = gradients(reference, exact, slopes)
    assert torch.equal(d_weight, of_weight)
    assert torch.equal(d_bias, of_bias)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("is_rectified", [True, False])
def test_a_pooled_convolution_and_its_gradients_are_those_of_pytorch(
    kernels: LayerKernels, case: Case, *, is_rectified: bool
) -> None:
    inputs = inputs_of(case)
    exact = doubles(inputs)
    reference = expected(case, exact, is_pooled=True, is_rectified=is_rectified)
    shape = shape_of(case, is_pooled=True, is_rectified=is_rectified)
    scratch = scratch_for(kernels, shape)
    out, winners = new(reference.shape), new(reference.shape, torch.int32)
    kernels.convolve(shape, inputs, scratch, out=(out, winners))
    assert torch.equal(out, reference.float())

    slopes = last(whole(*reference.shape, seed=4))
    d_images, d_weight = new(inputs[0].shape), new(inputs[1].shape)
    d_bias = torch.full_like(inputs[2], -99)
    kernels.scatter(
        *(shape, inputs[:2], (slopes, winners), scratch_for(kernels, shape)),
        out=(d_weight, d_bias, d_images),
    )
    of_images, of_weight, of_bias = gradients(reference, exact, slopes)
    assert torch.equal(d_images, of_images)
    assert torch.equal(d_weight, of_weight)
    assert torch.equal(d_bias, of_bias)
    kernels.correlate(
        *(shape, inputs[0], (slopes, winners), scratch_for(kernels, shape)),
        out=(d_weight.fill_(-99), d_bias.fill_(-99)),
    )
    assert torch.equal(d_weight, of_weight)
    assert torch.equal(d_bias, of_bias)


@pytest.mark.parametrize("size", [(2, 2), (4, 6), (7, 5), (3, 2), (28, 28)])
@pytest.mark.parametrize("n_channels", [1, 3, 16, 33])
@pytest.mark.parametrize("is_rectified", [True, False])
def test_pooling_and_its_gradient_are_those_of_pytorch(
    kernels: LayerKernels, size: tuple[int, int], n_channels: int, *, is_rectified: bool
) -> None:
    # Few different numbers: the first of equals must win.
    images = last(whole(2, n_channels, *size, seed=1, largest=1)).requires_grad_()
    reference = functional.max_pool2d(images, 2)
    reference = torch.relu(reference) if is_rectified else reference
    shape = PoolShape(*size, n_channels, is_rectified)
    out, winners = new(reference.shape), new(reference.shape, torch.int32)
    kernels.max_pool(shape, 2, images, out=(out, winners))
    assert torch.equal(out, reference)
    slopes = last(whole(*reference.shape, seed=2))
    d_images = new(images.shape)
    kernels.max_pool_back(shape, 2, (slopes, winners), out=d_images)
    assert torch.equal(d_images, torch.autograd.grad(reference, images, slopes)[0])


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("is_rectified", [True, False])
def test_what_is_not_a_number_wins_and_gets_the_gradient(
    kernels: LayerKernels, place: int, *, is_rectified: bool
) -> None:
    images = torch.tensor([-torch.inf, 2.0, torch.inf, -1.0]).reshape(1, 1, 2, 2)
    images.view(-1)[place] = torch.nan
    out, winners = torch.zeros(1), torch.zeros(1, dtype=torch.int32)
    shape = PoolShape(2, 2, 1, is_rectified)
    kernels.max_pool(shape, 1, images, out=(out, winners))
    assert bool(out.isnan())
    assert winners.item() == place


def test_all_negative_infinity_is_pooled_as_it_is(kernels: LayerKernels) -> None:
    images = torch.full((1, 1, 2, 2), -torch.inf)
    out, winners = torch.zeros(1), torch.ones(1, dtype=torch.int32)
    shape = PoolShape(2, 2, 1, is_rectified=False)
    kernels.max_pool(shape, 1, images, out=(out, winners))
    assert out.item() == -torch.inf
    assert winners.item() == 0


def test_kernels_are_not_used_where_they_are_disabled_or_vectors_are_short() -> None:
    if native.isa() != library.ISAS[0]:
        assert layer_kernels() is not None
    with native.disabled():
        assert layer_kernels() is None
    with library.isa_capped_at(library.ISAS[0]):
        assert layer_kernels() is None
