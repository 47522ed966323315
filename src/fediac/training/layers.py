"""Layers that train faster on a CPU than PyTorch's own, and equal them up to rounding.

The small networks of federated learning have few channels and small batches, for which
PyTorch's convolutions and pooling are not made.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from fediac.native.layers import (
    ConvolutionShape,
    LayerKernels,
    PoolShape,
    layer_kernels,
)
from fediac.training.functions import convolve, max_pool

MAX_INPUTS = 16
"""Channels above which PyTorch's convolutions are as fast."""

VECTOR = 16
"""The kernels' convolutions have a multiple of this many outputs."""

RUNS = ("cpr", "crp", "cp", "pr")
"""Layers that are done as one: convolution, pooling, rectifier."""


@dataclass(frozen=True, slots=True)
class Run:
    """Layers that the kernels do as one.

    Attributes:
        kernels: The kernels.
        convolution: The first layer, if it is one.
        is_pooled: Whether 2 x 2 pixels become one.
        is_rectified: Whether what is below zero becomes zero.
    """

    kernels: LayerKernels
    convolution: nn.Conv2d | None
    is_pooled: bool
    is_rectified: bool

    def takes(self, images: Tensor) -> bool:
        """Return whether the kernels can work on these images."""
        if not _is_plain(images) or torch.is_autocast_enabled("cpu"):
            return False
        if torch._C._are_functorch_transforms_active():
            return False
        least = 2 if self.is_pooled else 1
        if self.convolution is None:
            return min(images.shape[2:]) >= least
        weight, bias = self.convolution.weight, self.convolution.bias
        is_known = _is_plain(weight) and (bias is None or bias.dtype == weight.dtype)
        return (
            is_known
            and images.shape[1] == weight.shape[1]
            and min(_convolved(self.convolution, images)) >= least
        )

    def __call__(self, images: Tensor) -> Tensor:
        """Return the output of the last layer."""
        n_images, n_channels, height, width = images.shape
        if self.convolution is None:
            pool = PoolShape(height, width, n_channels, self.is_rectified)
            return max_pool(images, pool, self.kernels)
        layer = self.convolution
        shape = ConvolutionShape(
            *(n_images, height, width, n_channels, layer.out_channels),
            *(*layer.kernel_size, *_padding(layer)),
            *(self.is_pooled, self.is_rectified),
        )
        return convolve(images, layer.weight, layer.bias, shape, self.kernels)


class KernelConv2d(nn.Conv2d):
    """A convolution that the kernels do where they can."""

    run: Run

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 # PyTorch's name
        """Return the convolution."""
        return self.run(input) if self.run.takes(input) else super().forward(input)


class KernelMaxPool2d(nn.MaxPool2d):
    """Max-pooling that the kernels do where they can."""

    run: Run

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 # PyTorch's name
        """Return the pooled images."""
        if self.run.takes(input):
            return self.run(input)
        out: Tensor = super().forward(input)
        return out


class KernelSequential(nn.Sequential):
    """Layers one after another, some of them as one where the kernels can."""

    steps: list[tuple[Run | None, Sequence[nn.Module]]]

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 # PyTorch's name
        """Return the output of the last layer."""
        for run, layers in self.steps:
            if run is not None and run.takes(input):
                input = run(input)  # noqa: A001 # PyTorch's name
                continue
            for layer in layers:
                input = layer(input)  # noqa: A001 # PyTorch's name
        return input


def use_kernels(module: nn.Module) -> None:
    """Let the layers of ``module`` that the kernels can do use them from now on.

    They are `nn.Conv2d` and `nn.MaxPool2d` with the usual settings, and runs of them
    with `nn.ReLU` inside an `nn.Sequential`. Parameters, hooks and the layers' places
    stay as they are; input that the kernels cannot take goes to PyTorch's own code.
    """
    kernels = layer_kernels()
    everything = list(module.modules())
    if kernels is None or any(_is_compiled(each) for each in everything):
        return
    kinds = {each: _kind(each) for each in everything}
    for each, kind in kinds.items():
        if type(each) is nn.Sequential:
            sequential = cast("KernelSequential", each)
            sequential.__class__ = KernelSequential
            sequential.steps = _steps(list(each), kinds, kernels)
        elif kind == "c":
            convolution = cast("KernelConv2d", each)
            convolution.__class__ = KernelConv2d
            convolution.run = _run([each], kind, kernels)
        elif kind == "p":
            pooling = cast("KernelMaxPool2d", each)
            pooling.__class__ = KernelMaxPool2d
            pooling.run = _run([each], kind, kernels)


def _steps(
    layers: list[nn.Module], kinds: dict[nn.Module, str], kernels: LayerKernels
) -> list[tuple[Run | None, Sequence[nn.Module]]]:
    """Return the layers in order, those together that are done as one.

    A layer with hooks stays alone: they must see its input and output.
    """
    word = "".join("x" if _has_hooks(each) else kinds[each] for each in layers)
    steps: list[tuple[Run | None, Sequence[nn.Module]]] = []
    place = 0
    while place < len(layers):
        kind = next((each for each in RUNS if word.startswith(each, place)), None)
        part = layers[place : place + (1 if kind is None else len(kind))]
        steps.append((None if kind is None else _run(part, kind, kernels), part))
        place += len(part)
    return steps


def _run(layers: Sequence[nn.Module], kind: str, kernels: LayerKernels) -> Run:
    first = layers[0] if isinstance(layers[0], nn.Conv2d) else None
    return Run(kernels, first, is_pooled="p" in kind, is_rectified="r" in kind)


def _kind(layer: nn.Module) -> str:
    """Return "c", "p" or "r" for a layer that the kernels can do, "x" for others.

    Subclasses may do anything, so the type must be exact.
    """
    if type(layer) is nn.ReLU:
        return "r"
    if type(layer) is nn.MaxPool2d:
        return "p" if _is_two_by_two(layer) else "x"
    return "c" if type(layer) is nn.Conv2d and _is_usual(layer) else "x"


def _is_two_by_two(layer: nn.MaxPool2d) -> bool:
    return (
        _pair(layer.kernel_size) == _pair(layer.stride) == (2, 2)
        and _pair(layer.padding) == (0, 0)
        and _pair(layer.dilation) == (1, 1)
        and not layer.return_indices
        and not layer.ceil_mode
    )


def _is_usual(layer: nn.Conv2d) -> bool:
    return (
        layer.in_channels <= MAX_INPUTS
        and layer.out_channels % VECTOR == 0
        and layer.stride == layer.dilation == (1, 1)
        and layer.groups == 1
        and layer.padding_mode == "zeros"
        and not isinstance(layer.padding, str)
    )


def _pair(value: int | tuple[int, ...]) -> tuple[int, ...]:
    return (value, value) if isinstance(value, int) else tuple(value)


def _padding(layer: nn.Conv2d) -> tuple[int, ...]:
    return _pair(cast("tuple[int, ...]", layer.padding))


def _convolved(layer: nn.Conv2d, images: Tensor) -> tuple[int, int]:
    """Return height and width of the convolution."""
    (high, wide), (top, left) = layer.kernel_size, _padding(layer)
    return images.shape[2] + 2 * top - high + 1, images.shape[3] + 2 * left - wide + 1


def _is_plain(tensor: Tensor) -> bool:
    return (
        type(tensor) in (Tensor, nn.Parameter)
        and tensor.dim() == 4
        and tensor.dtype == torch.float32
        and tensor.device.type == "cpu"
        and tensor.layout == torch.strided
    )


def _has_hooks(layer: nn.Module) -> bool:
    hooks = (
        *(layer._forward_hooks, layer._forward_pre_hooks),
        *(layer._backward_hooks, layer._backward_pre_hooks),
    )
    return any(hooks)


def _is_compiled(module: nn.Module) -> bool:
    """Return whether `torch.compile` has its own code for the module."""
    return hasattr(module, "_orig_mod") or module._compiled_call_impl is not None
