"""Convolutions on a GPU that also measure their output, for a batch norm after them.

cuDNN's convolutions of a step this small move each pixel through the cache once for
every tap and tile. The kernels' tiles were chosen for many replicas side by side, on a
Hopper GPU; what they were not faster for stays with cuDNN.
"""

from types import ModuleType
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.autograd import Function

LAST = torch.channels_last

_ROWS, _DEPTH = 128, 64
"""A tile's sizes: pixels, and input channels multiplied at once."""

_N_PARTS = 32
"""Parts of the sum over pixels, for few channels."""

_PART_BLOCK = 128
"""Entries that one program adds up over all parts."""

_MIN_TILES = 100
"""With at least this many tiles of weights, parts are not needed."""


class Measuring(NamedTuple):
    """Statistics that a convolution measures of its output, for batch norm.

    Attributes:
        running_mean: Follows the mean, and is what sums are taken from.
        running_var: Follows the variance.
        counters: All zero, one for each output channel.
        momentum: How fast they follow.
        epsilon: Is added to variances.
    """

    running_mean: Tensor
    running_var: Tensor
    counters: Tensor
    momentum: float
    epsilon: float


def can_convolve(layer: nn.Conv2d) -> bool:
    """Return whether the kernels support a layer: square, many channels, no bias."""
    return (
        layer.bias is None
        and layer.groups == 1
        and layer.padding_mode == "zeros"
        and layer.dilation == (1, 1)
        and layer.kernel_size in ((1, 1), (3, 3))
        and layer.stride in ((1, 1), (2, 2))
        and layer.padding == tuple(each // 2 for each in layer.kernel_size)
        and layer.in_channels % _DEPTH == 0
        and layer.out_channels % 64 == 0
    )


def fits(images: Tensor, weight: Tensor) -> bool:
    """Return whether images and weights have the kernels' memory layout."""
    return (
        images.dtype == weight.dtype == torch.bfloat16
        and images.is_contiguous(memory_format=LAST)
        and weight.is_contiguous(memory_format=LAST)
        and max(images.numel(), weight.numel()) < 2**30
        and images.numel() > images.shape[1]
    )


def output_size(images: Tensor, weight: Tensor, stride: int) -> tuple[int, ...]:
    """Return the size of a convolution's output."""
    n_images, _, height, width = images.shape
    return n_images, len(weight), -(-height // stride), -(-width // stride)


def convolve(
    images: Tensor,
    weight: Tensor,
    stride: int,
    measuring: Measuring,
    kernels: ModuleType,
) -> tuple[Tensor, Tensor]:
    """Return a convolution, and its channels' means and 1 / deviations."""
    out, facts = _Convolution.apply(  # type: ignore[no-untyped-call] # torch has none
        images, weight, stride, measuring, kernels
    )
    return out, facts


class _Context(Protocol):
    """What a call keeps until its gradient is computed."""

    saved_tensors: tuple[Tensor, Tensor]
    needs_input_grad: tuple[bool, ...]
    stride: int
    kernels: ModuleType

    def save_for_backward(self, *tensors: Tensor) -> None:
        """Keep tensors, which are then `saved_tensors`."""
        ...

    def set_materialize_grads(self, value: bool) -> None:  # noqa: FBT001 # PyTorch's
        """Choose between zeros and None for gradients that are missing."""
        ...

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Mark outputs as not differentiable."""
        ...


class _Convolution(Function):
    @staticmethod
    def forward(
        ctx: _Context,
        images: Tensor,
        weight: Tensor,
        stride: int,
        measuring: Measuring,
        kernels: ModuleType,
    ) -> tuple[Tensor, Tensor]:
        """Return the output and the facts of its channels."""
        out = _empty_images(images, output_size(images, weight, stride))
        facts = _measure(images, weight, out, stride, measuring, kernels)
        ctx.save_for_backward(images, weight)
        ctx.stride, ctx.kernels = stride, kernels
        ctx.mark_non_differentiable(facts)
        ctx.set_materialize_grads(False)
        return out, facts

    @staticmethod
    def backward(
        ctx: _Context, gradient: Tensor, _: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        """Return the gradients of images and weight."""
        images, weight = ctx.saved_tensors
        gradient = gradient.contiguous(memory_format=LAST)
        d_images = d_weight = cut = None
        if ctx.stride == 1 and weight.shape[2] == 3:
            cut = _cut(weight)
            if ctx.needs_input_grad[0]:
                d_images = _empty_images(images, tuple(images.shape))
                _turn(gradient, weight, d_images, ctx.kernels)
        if cut is not None:
            d_weight = _correlate(images, gradient, weight, cut, ctx.kernels)
        missing = [ctx.needs_input_grad[0] and d_images is None, d_weight is None]
        if any(missing):
            found = _by_pytorch(images, weight, gradient, ctx.stride, missing)
            d_images = found[0] if d_images is None else d_images
            d_weight = found[1] if d_weight is None else d_weight
        return d_images, d_weight, None, None, None


def _by_pytorch(
    images: Tensor, weight: Tensor, gradient: Tensor, stride: int, wanted: list[bool]
) -> tuple[Tensor, ...]:
    size = weight.shape[2]
    geometry = [[stride] * 2, [size // 2] * 2, [1, 1], False, [0, 0], 1]
    found: tuple[Tensor, ...] = torch.ops.aten.convolution_backward(
        gradient, images, weight, None, *geometry, [*wanted, False]
    )
    return found


def _measure(
    images: Tensor,
    weight: Tensor,
    out: Tensor,
    stride: int,
    measuring: Measuring,
    kernels: ModuleType,
) -> Tensor:
    """Write the convolution to ``out`` and return the facts of its channels."""
    n_out = out.shape[1]
    n_parts = -(-(out.numel() // n_out) // _ROWS)
    facts = measuring.running_mean.new_empty(2 * n_out)
    sums = facts.new_empty(2 * n_parts * n_out)
    to = (
        *(sums, measuring.counters, measuring.running_mean, measuring.running_var),
        *(facts, measuring.momentum, measuring.epsilon),
    )
    _launch(images, weight, out, to, kernels, STRIDE=stride, MEASURES=True)
    return facts


def _turn(gradient: Tensor, weight: Tensor, out: Tensor, kernels: ModuleType) -> None:
    """Write the gradient of a convolution's images to ``out``."""
    unused: tuple[Tensor | float, ...] = (*[out] * 5, 0.0, 0.0)
    _launch(gradient, weight, out, unused, kernels, IS_TURNED=True)


def _launch(
    images: Tensor,
    weight: Tensor,
    out: Tensor,
    to: tuple[Tensor | float, ...],
    kernels: ModuleType,
    **options: int,
) -> None:
    n_out, out_height, out_width = out.shape[1:]
    n_rows = out.numel() // n_out
    n_columns, n_stages, n_warps = (64, 4, 4) if n_out % 128 else (128, 3, 8)
    kernels.convolve[(n_out // n_columns, -(-n_rows // _ROWS))](
        *(images, weight, out, *to, n_rows),
        HEIGHT=images.shape[2],
        WIDTH=images.shape[3],
        OUT_HEIGHT=out_height,
        OUT_WIDTH=out_width,
        N_IN=images.shape[1],
        N_OUT=n_out,
        SIZE=weight.shape[2],
        ROWS=_ROWS,
        COLUMNS=n_columns,
        DEPTH=_DEPTH,
        N_STAGES=n_stages,
        num_warps=n_warps,
        **{"STRIDE": 1, "IS_TURNED": False, "MEASURES": False, **options},
    )


class _Cut(NamedTuple):
    """How weights are split into tiles, and sums over pixels into parts."""

    rows: int
    columns: int
    n_taps: int
    n_warps: int
    n_parts: int


def _cut(weight: Tensor) -> _Cut | None:
    """Return how to split, None where cuDNN is as fast."""
    n_out, n_in = weight.shape[:2]
    if min(n_out, n_in) == 64:
        return _Cut(64, 64, n_taps=3, n_warps=4, n_parts=_N_PARTS)
    is_even = n_out % 128 == n_in % 128 == 0
    if is_even and 9 * (n_out // 128) * (n_in // 128) >= _MIN_TILES:
        return _Cut(128, 128, n_taps=1, n_warps=8, n_parts=1)
    return None


def _correlate(
    images: Tensor, gradient: Tensor, weight: Tensor, cut: _Cut, kernels: ModuleType
) -> Tensor:
    """Return the gradient of the weights of a 3 x 3 convolution with stride 1."""
    n_out, n_in = weight.shape[:2]
    n_rows = images.numel() // n_in
    n_each = -(-n_rows // (cut.n_parts * _DEPTH)) * _DEPTH
    n_parts = -(-n_rows // n_each)
    d_weight = torch.empty_like(weight, memory_format=LAST)
    parts = d_weight
    if n_parts > 1:
        size = n_parts * weight.numel()
        parts = torch.empty(size, dtype=torch.float32, device=weight.device)
    n_tiles = (n_out // cut.rows) * (n_in // cut.columns)
    kernels.correlate[(n_tiles, 9 // cut.n_taps, n_parts)](
        *(images, gradient, parts, n_rows, n_each),
        HEIGHT=images.shape[2],
        WIDTH=images.shape[3],
        N_IN=n_in,
        N_OUT=n_out,
        N_TAPS=cut.n_taps,
        ROWS=cut.rows,
        COLUMNS=cut.columns,
        DEPTH=_DEPTH,
        N_STAGES=3,
        num_warps=cut.n_warps,
    )
    if n_parts > 1:
        n_entries = weight.numel()
        kernels.add_parts[(-(-n_entries // _PART_BLOCK),)](
            *(parts, d_weight, n_parts, n_entries), PARTS=_N_PARTS, BLOCK=_PART_BLOCK
        )
    return d_weight


def _empty_images(like: Tensor, size: tuple[int, ...]) -> Tensor:
    return torch.empty(size, dtype=like.dtype, device=like.device, memory_format=LAST)
