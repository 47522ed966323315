"""Batch norm and what follows it as one function on a GPU, differentiated by hand.

PyTorch writes the normalized images, reads them to add and rectify, and goes the same
way back. Here a channel's statistics are found in one pass over the images, and all
else is done in a second one; backward likewise.
"""

from types import ModuleType
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional

from fediac.native import StepKernels
from fediac.training.cuda.convolutions import (
    LAST,
    Measuring,
    convolve,
    fits,
    output_size,
)

_N_PROGRAMS = 132
"""Programs that add up rows: one for each multiprocessor of a large GPU."""

_ROWS, _WIDTH, _N_WARPS = 64, 64, 8
"""A tile's sizes: rows, channels, and groups of 32 threads that work on it."""

_PART = 4 * _ROWS
"""A program adds up a multiple of this many rows."""


class NormSettings(NamedTuple):
    """What is done with images besides normalizing them.

    Attributes:
        rectifies: What is below zero becomes zero.
        has_two: The output is used in two places, whose gradients come apart.
        momentum: How fast running statistics follow.
        epsilon: Is added to variances.
    """

    rectifies: bool
    has_two: bool
    momentum: float
    epsilon: float


class JoinedNorm(nn.Module):
    """Batch norm, then perhaps an addition and a rectifier; one kernel where possible.

    Args:
        norm: The layer; its parameters and statistics are used.
        convolution: The layer before it, if kernels may do that, too.
        rectifies: A rectifier follows.
        has_two: The output is wanted twice, for two users.
        kernels: The Triton kernels; None: PyTorch's own operations.
    """

    def __init__(
        self,
        norm: nn.BatchNorm2d,
        *,
        convolution: nn.Conv2d | None = None,
        rectifies: bool,
        has_two: bool,
        kernels: StepKernels | None,
    ) -> None:
        super().__init__()
        self.norm, self.convolution = norm, convolution
        self.settings = NormSettings(rectifies, has_two, norm.momentum or 0.0, norm.eps)
        self._kernels = kernels
        # Each kernel that counts leaves them at zero.
        self.counters = norm.weight.new_zeros(norm.num_features, dtype=torch.int32)

    def forward(
        self, images: Tensor, others: Tensor | None = None
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Return the rectified sum of normalized images and ``others``."""
        facts = None
        if self.convolution is not None:
            images, facts = self._convolve(images, others, self.convolution)
        if self._kernels is not None and self._fits(images, others):
            norm = self.norm
            out, again = _NormFunction.apply(  # type: ignore[no-untyped-call] # torch has none
                *(images, others, norm.weight, norm.bias, facts),
                *(norm.running_mean, norm.running_var, self.counters),
                *(self.settings, self._kernels.steps),
            )
        else:
            out = again = self._by_pytorch(images, others)
        return (out, again) if self.settings.has_two else out

    def _convolve(
        self, images: Tensor, others: Tensor | None, layer: nn.Conv2d
    ) -> tuple[Tensor, Tensor | None]:
        """Return the convolution, and facts of its channels if they were measured."""
        kernels = None if self._kernels is None else self._kernels.convolutions
        mean, var = self.norm.running_mean, self.norm.running_var
        if (
            kernels is None
            or mean is None
            or var is None
            or not self.training
            or not fits(images, layer.weight)
        ):
            return layer(images), None
        stride = layer.stride[0]
        size = output_size(images, layer.weight, stride)
        # What was measured must be used.
        if others is not None and not _is_like(others, size, images.dtype):
            return layer(images), None
        measuring = Measuring(
            *(mean, var, self.counters), self.settings.momentum, self.settings.epsilon
        )
        return convolve(images, layer.weight, stride, measuring, kernels)

    def _fits(self, images: Tensor, others: Tensor | None) -> bool:
        return (
            self.training
            and _is_plain(images)
            and (others is None or _is_like(others, images.shape, images.dtype))
        )

    def _by_pytorch(self, images: Tensor, others: Tensor | None) -> Tensor:
        out: Tensor = self.norm(images)
        if others is not None:
            out = out + others
        return functional.relu(out) if self.settings.rectifies else out


def _is_plain(images: Tensor) -> bool:
    return (
        images.dim() == 4
        and images.dtype in (torch.bfloat16, torch.float32)
        and images.is_contiguous(memory_format=LAST)
        and images.shape[1] % 8 == 0
        and images.numel() // images.shape[1] > 1
        and images.numel() < 2**31
    )


def _is_like(others: Tensor, size: tuple[int, ...], dtype: torch.dtype) -> bool:
    return (
        others.shape == size
        and others.dtype == dtype
        and others.is_contiguous(memory_format=LAST)
    )


class _Tiles(NamedTuple):
    """How images are split: rows of channels, in parts of some rows."""

    n_rows: int
    n_channels: int
    width: int
    n_parts: int
    n_each: int

    @property
    def grid(self) -> tuple[int, int]:
        """Programs that go over a tile each."""
        return -(-self.n_rows // _ROWS), self.n_channels // self.width

    @property
    def parts(self) -> tuple[int, int]:
        """Programs that add up rows."""
        return self.n_parts, self.n_channels // self.width


def _cut(images: Tensor) -> _Tiles:
    n_channels = images.shape[1]
    n_rows = images.numel() // n_channels
    width = min(_WIDTH, n_channels & -n_channels)
    n_wanted = max(1, _N_PROGRAMS * width // n_channels)
    n_each = -(-n_rows // (n_wanted * _PART)) * _PART
    return _Tiles(n_rows, n_channels, width, -(-n_rows // n_each), n_each)


class _Context(Protocol):
    """What a call keeps until its gradient is computed."""

    saved_tensors: tuple[Tensor, ...]
    settings: NormSettings
    adds: bool
    kernels: ModuleType

    def save_for_backward(self, *tensors: Tensor) -> None:
        """Keep tensors, which are then `saved_tensors`."""
        ...

    def set_materialize_grads(self, value: bool) -> None:  # noqa: FBT001 # PyTorch's
        """Choose between zeros and None for gradients that are missing."""
        ...


class _NormFunction(Function):
    @staticmethod
    def forward(  # noqa: PLR0913 # a function of all these
        ctx: _Context,
        images: Tensor,
        others: Tensor | None,
        weight: Tensor,
        bias: Tensor,
        facts: Tensor | None,
        running_mean: Tensor,
        running_var: Tensor,
        counters: Tensor,
        settings: NormSettings,
        kernels: ModuleType,
    ) -> tuple[Tensor, Tensor]:
        """Return the output, twice."""
        tiles = _cut(images)
        if facts is None:
            facts = weight.new_empty(2 * tiles.n_channels)
            kernels.sum_images[tiles.parts](
                images,
                *(_scratch(weight, tiles), counters),
                *(
                    running_mean,
                    running_var,
                    facts,
                    settings.momentum,
                    settings.epsilon,
                ),
                *(tiles.n_rows, tiles.n_each, tiles.n_channels),
                **_tile(tiles),
            )
        out = torch.empty_like(images, memory_format=LAST)
        kernels.normalize_images[tiles.grid](
            *(images, images if others is None else others, out),
            *(facts, weight, bias, tiles.n_rows, tiles.n_channels),
            ADDS=others is not None,
            RECTIFIES=settings.rectifies,
            **_tile(tiles),
        )
        # Without an addition the images tell where the output is zero; who changes it
        # in place then may.
        seen = out if others is not None else images
        ctx.save_for_backward(images, seen, facts, weight, bias, counters)
        ctx.settings, ctx.adds, ctx.kernels = settings, others is not None, kernels
        ctx.set_materialize_grads(False)
        return out, out.detach()

    @staticmethod
    def backward(
        ctx: _Context, first: Tensor | None, second: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        """Return the gradients of images, others, weight and bias."""
        images, out, facts, weight, bias, counters = ctx.saved_tensors
        given = [
            each.contiguous(memory_format=LAST)
            for each in (first, second)
            if each is not None
        ]
        gradient, last = given[0], given[-1]
        tiles, kernels = _cut(images), ctx.kernels
        passed = (
            torch.empty_like(gradient, memory_format=LAST) if ctx.adds else gradient
        )
        d_weight, d_bias = torch.empty_like(weight), torch.empty_like(bias)
        factors = torch.empty_like(facts)
        kernels.sum_slopes[tiles.parts](
            *(gradient, last, images, out, passed),
            *(_scratch(weight, tiles), counters),
            *(facts, weight, bias, d_weight, d_bias, factors),
            *(tiles.n_rows, tiles.n_each, tiles.n_channels),
            HAS_SECOND=len(given) > 1,
            ADDS=ctx.adds,
            RECTIFIES=ctx.settings.rectifies,
            **_tile(tiles),
        )
        d_images = torch.empty_like(images, memory_format=LAST)
        is_passed = ctx.adds
        kernels.slope_images[tiles.grid](
            *(passed, last, images, d_images, facts, weight, bias, factors),
            *(tiles.n_rows, tiles.n_channels),
            HAS_SECOND=len(given) > 1 and not is_passed,
            RECTIFIES=ctx.settings.rectifies and not is_passed,
            **_tile(tiles),
        )
        d_others = passed if ctx.adds else None
        return d_images, d_others, d_weight, d_bias, *[None] * 6


def _scratch(weight: Tensor, tiles: _Tiles) -> Tensor:
    """Return memory for the parts' sums."""
    return weight.new_empty(2 * tiles.n_parts * tiles.n_channels)


def _tile(tiles: _Tiles) -> dict[str, int]:
    return {"ROWS": _ROWS, "WIDTH": tiles.width, "num_warps": _N_WARPS}
