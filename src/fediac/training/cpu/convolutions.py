"""Convolution and max-pooling with the compiled kernels, differentiable in PyTorch.

PyTorch writes everything between two layers to memory. Here a convolution, its pooling
and its rectifier are one function, and what lies between them stays in the cache.
"""

from typing import Protocol, TypeAlias

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional

from fediac.native.layers import ConvolutionShape, LayerKernels, PoolShape

LAST = torch.channels_last

Saved: TypeAlias = tuple[Tensor, ...]
"""Images, weight, bias and winners; None where a convolution has none."""


class _Context(Protocol):
    """What a call keeps until its gradient is computed."""

    saved_tensors: Saved
    needs_input_grad: tuple[bool, ...]
    kernels: LayerKernels

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors, which are then `saved_tensors`."""
        ...


class _ConvolutionContext(_Context, Protocol):
    shape: ConvolutionShape


class _PoolContext(_Context, Protocol):
    shape: PoolShape


def convolve(
    images: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    shape: ConvolutionShape,
    kernels: LayerKernels,
) -> Tensor:
    """Return a convolution with stride 1; pooled and rectified if its shape says so."""
    out: Tensor = _Convolution.apply(  # type: ignore[no-untyped-call] # torch has none
        images, weight, bias, shape, kernels
    )
    return out


def max_pool(images: Tensor, shape: PoolShape, kernels: LayerKernels) -> Tensor:
    """Return the largest of each 2 x 2 pixels; rectified if the shape says so."""
    out: Tensor = _MaxPool.apply(  # type: ignore[no-untyped-call] # torch has none
        images, shape, kernels
    )
    return out


class _Convolution(Function):
    @staticmethod
    def forward(
        ctx: _ConvolutionContext,
        images: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        shape: ConvolutionShape,
        kernels: LayerKernels,
    ) -> Tensor:
        """Return the output."""
        size = _output_size(shape)
        out = _empty_images(size)
        winners = _empty_images(size, torch.int32) if shape.is_pooled else None
        inputs = (
            *(_last(images), _last(weight)),
            None if bias is None else bias.contiguous(),
        )
        scratch = _empty(kernels.n_scratch(shape))
        kernels.convolve(shape, inputs, scratch, out=(out, winners))
        ctx.save_for_backward(images, weight, bias, winners)
        ctx.shape, ctx.kernels = shape, kernels
        return out

    @staticmethod
    def backward(
        ctx: _ConvolutionContext, gradient: Tensor
    ) -> tuple[Tensor | None, ...]:
        """Return the gradients of images, weight and bias."""
        saved = ctx.saved_tensors  # once: a model may keep none and compute them again
        if torch.is_grad_enabled():  # this gradient is to be differentiated again
            return *_through_pytorch(ctx, saved, gradient), None, None
        is_scattered = ctx.shape.is_pooled and ctx.needs_input_grad[0]
        find = _scatter if is_scattered else _correlate
        d_images, d_weight, d_bias = find(ctx, saved, _last(gradient))
        return d_images, d_weight, None if saved[2] is None else d_bias, None, None


def _scatter(
    ctx: _ConvolutionContext, saved: Saved, gradient: Tensor
) -> tuple[Tensor | None, Tensor, Tensor]:
    """Return the gradients of images, weight and bias, given that of pooled images."""
    images, weight, _, winners = saved
    scratch = _empty(ctx.kernels.n_scratch(ctx.shape))
    d_images = torch.empty_like(images, memory_format=LAST)
    d_weight = torch.empty_like(weight, memory_format=LAST)
    d_bias = _empty(len(weight))
    inputs, out = (_last(images), _last(weight)), (d_weight, d_bias, d_images)
    ctx.kernels.scatter(ctx.shape, inputs, (gradient, winners), scratch, out=out)
    return d_images, d_weight, d_bias


def _correlate(
    ctx: _ConvolutionContext, saved: Saved, gradient: Tensor
) -> tuple[Tensor | None, Tensor, Tensor]:
    """Return the gradients of images, if they need one, of weight and of bias."""
    images, weight, _, winners = saved
    scratch, d_images = _empty(ctx.kernels.n_scratch(ctx.shape)), None
    d_weight = torch.empty_like(weight, memory_format=LAST)
    d_bias = _empty(len(weight))
    slopes, out = (gradient, winners), (d_weight, d_bias)
    ctx.kernels.correlate(ctx.shape, _last(images), slopes, scratch, out=out)
    if ctx.needs_input_grad[0]:
        padding = (ctx.shape.pad_height, ctx.shape.pad_width)
        d_images = torch.conv_transpose2d(gradient, weight, padding=padding)
    return d_images, d_weight, d_bias


def _through_pytorch(
    ctx: _ConvolutionContext, saved: Saved, gradient: Tensor
) -> list[Tensor | None]:
    """Return the gradients of images, weight and bias, as functions of all these."""
    images, weight, bias, _ = saved
    padding = (ctx.shape.pad_height, ctx.shape.pad_width)
    out = torch.conv2d(images, weight, bias, padding=padding)
    if ctx.shape.is_pooled:
        out = functional.max_pool2d(out, 2)
    if ctx.shape.is_rectified:
        out = torch.relu(out)
    inputs = [images, weight, bias]
    needed = [i for i, needs in enumerate(ctx.needs_input_grad[:3]) if needs]
    found = torch.autograd.grad(
        out, [inputs[i] for i in needed], gradient, create_graph=True
    )
    gradients: list[Tensor | None] = [None, None, None]
    for i, each in zip(needed, found, strict=True):
        gradients[i] = each
    return gradients


class _MaxPool(Function):
    @staticmethod
    def forward(
        ctx: _PoolContext, images: Tensor, shape: PoolShape, kernels: LayerKernels
    ) -> Tensor:
        """Return the pooled images."""
        size = (*images.shape[:2], shape.height // 2, shape.width // 2)
        out, winners = _empty_images(size), _empty_images(size, torch.int32)
        kernels.max_pool(shape, len(images), _last(images), out=(out, winners))
        ctx.save_for_backward(winners)
        ctx.shape, ctx.kernels = shape, kernels
        return out

    @staticmethod
    def backward(ctx: _PoolContext, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradient of the images."""
        (winners,) = ctx.saved_tensors
        size = (*gradient.shape[:2], ctx.shape.height, ctx.shape.width)
        if torch.is_grad_enabled():  # this gradient is to be differentiated again
            return _spread(gradient, winners, gradient.new_zeros(size)), None, None
        out = _empty_images(size)
        slopes = (_last(gradient), winners)
        ctx.kernels.max_pool_back(ctx.shape, len(out), slopes, out=out)
        return out, None, None


def _spread(gradient: Tensor, winners: Tensor, out: Tensor) -> Tensor:
    """Return ``out``, all zeros so far, with each winner's gradient in its place."""
    height, width = (2 * each for each in gradient.shape[2:])
    for place in range(4):
        row, column = divmod(place, 2)
        slopes = torch.where(winners == place, gradient, 0.0)
        out[:, :, row:height:2, column:width:2] = slopes
    return out


def _output_size(shape: ConvolutionShape) -> tuple[int, int, int, int]:
    height = shape.height + 2 * shape.pad_height - shape.kernel_height + 1
    width = shape.width + 2 * shape.pad_width - shape.kernel_width + 1
    step = 2 if shape.is_pooled else 1
    return shape.n_images, shape.n_out, height // step, width // step


def _empty(n_floats: int) -> Tensor:
    """Return memory for the kernels, whatever PyTorch's default dtype is."""
    return torch.empty(n_floats, dtype=torch.float32, device="cpu")


def _empty_images(size: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.empty(size, dtype=dtype, device="cpu", memory_format=LAST)


def _last(tensor: Tensor) -> Tensor:
    return tensor.contiguous(memory_format=LAST)
