"""Layers that train faster on a CPU than PyTorch's own, and equal up to rounding.

The small networks of federated learning have few channels and small batches, for which
PyTorch's convolutions and pooling are not made.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

from fediac.native.layers import (
    ConvolutionShape,
    LayerKernels,
    PoolShape,
    layer_kernels,
)
from fediac.training.cpu.convolutions import convolve, max_pool

MAX_INPUTS = 16
"""Channels above which PyTorch's convolutions are as fast."""

VECTOR = 16
"""The kernels' convolutions have a multiple of this many outputs."""

RUNS = ("cpr", "crp", "cp", "pr")
"""Layers that are computed as one: convolution, pooling, rectifier."""


@dataclass(frozen=True, slots=True)
class FusedLayers:
    """Layers that the kernels compute as one.

    Attributes:
        kernels: The kernels; None in a copy that was made where there are none.
        convolution: The first layer, if it is one.
        is_pooled: Whether 2 x 2 pixels become one.
        is_rectified: Whether what is below zero becomes zero.
    """

    kernels: LayerKernels | None
    convolution: nn.Conv2d | None
    is_pooled: bool
    is_rectified: bool

    def __call__(self, images: Tensor) -> Tensor | None:
        """Return the output of the last layer, None where the kernels cannot."""
        if self.kernels is None or not _is_plain(images, 4) or _is_transformed():
            return None
        if self.convolution is not None:
            return self._convolve(images, self.convolution, self.kernels)
        _, n_channels, height, width = images.shape
        if min(height, width) < 2:
            return None
        pool = PoolShape(height, width, n_channels, self.is_rectified)
        return max_pool(images, pool, self.kernels)

    def _convolve(
        self, images: Tensor, layer: nn.Conv2d, kernels: LayerKernels
    ) -> Tensor | None:
        """Return the convolution; its weights may have been replaced."""
        weight, bias = layer.weight, layer.bias
        if not _is_plain(weight, 4) or not (bias is None or _is_plain(bias, 1)):
            return None
        n_images, n_channels, height, width = images.shape
        n_out, n_in, high, wide = weight.shape
        top, left = _padding(layer)
        least = 2 if self.is_pooled else 1
        if (
            n_channels != n_in
            or n_out % VECTOR
            or (bias is not None and len(bias) != n_out)
            or min(height + 2 * top - high, width + 2 * left - wide) + 1 < least
        ):
            return None
        shape = ConvolutionShape(
            *(n_images, height, width, n_in, n_out, high, wide, top, left),
            *(self.is_pooled, self.is_rectified),
        )
        return convolve(images, weight, bias, shape, kernels)


Step: TypeAlias = tuple[FusedLayers | None, Sequence[nn.Module]]
"""Layers of a sequential, and how to compute them as one where possible."""


class KernelConv2d(nn.Conv2d):
    """A convolution that uses the kernels where they apply."""

    run: FusedLayers

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 # PyTorch's name
        """Return the convolution."""
        out = self.run(input)
        return super().forward(input) if out is None else out


class KernelMaxPool2d(nn.MaxPool2d):
    """Max-pooling that uses the kernels where they apply."""

    run: FusedLayers

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 # PyTorch's name
        """Return the pooled images."""
        out = self.run(input)
        if out is None:
            out = cast("Tensor", super().forward(input))
        return out


class KernelSequential(nn.Sequential):
    """A sequential in which the kernels compute some layers as one."""

    _planned: tuple[nn.Module, ...] = ()
    _steps: Sequence[Step] = ()

    @property
    def steps(self) -> Sequence[Step]:
        """The layers in order, grouped where they are computed as one.

        Planned anew when layers have changed; a slice of a model has no plan yet.
        """
        layers = tuple(self)
        if layers != self._planned:
            self._planned, self._steps = layers, _plan(layers, layer_kernels())
        return self._steps

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 # PyTorch's name
        """Return the output of the last layer."""
        for run, layers in self.steps:
            # Hooks must see the input and output of their layer.
            is_one = run is not None and not any(map(_has_hooks, layers))
            out = run(input) if run is not None and is_one else None
            if out is None:
                out = input
                for layer in layers:
                    out = layer(out)
            input = out  # noqa: A001 # PyTorch's name
        return input


def use_kernels(module: nn.Module) -> None:
    """Let those layers of ``module`` that the kernels can compute use the kernels.

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
            each.__class__ = KernelSequential
        elif kind == "c":
            convolution = cast("KernelConv2d", each)
            convolution.__class__ = KernelConv2d
            convolution.run = _run([each], kind, kernels)
        elif kind == "p":
            pooling = cast("KernelMaxPool2d", each)
            pooling.__class__ = KernelMaxPool2d
            pooling.run = _run([each], kind, kernels)


def _plan(layers: Sequence[nn.Module], kernels: LayerKernels | None) -> Sequence[Step]:
    """Return the layers in order, grouped where they are computed as one."""
    word = "".join(map(_kind, layers))
    steps: list[Step] = []
    place = 0
    while place < len(layers):
        kind = next((each for each in RUNS if word.startswith(each, place)), None)
        part = layers[place : place + (1 if kind is None else len(kind))]
        steps.append((None if kind is None else _run(part, kind, kernels), part))
        place += len(part)
    return steps


def _run(
    layers: Sequence[nn.Module], kind: str, kernels: LayerKernels | None
) -> FusedLayers:
    first = layers[0] if isinstance(layers[0], nn.Conv2d) else None
    return FusedLayers(kernels, first, is_pooled="p" in kind, is_rectified="r" in kind)


def _kind(layer: nn.Module) -> str:
    """Return "c", "p" or "r" for a layer that the kernels can compute, else "x".

    Subclasses may do anything, so the type must be exact; and so may a layer that was
    given a ``forward`` of its own.
    """
    kind = type(layer)
    if "forward" in vars(layer):
        return "x"
    if kind is nn.ReLU:
        return "r"
    if kind in (nn.MaxPool2d, KernelMaxPool2d):
        return "p" if _is_two_by_two(cast("nn.MaxPool2d", layer)) else "x"
    is_convolution = kind in (nn.Conv2d, KernelConv2d)
    return "c" if is_convolution and _is_usual(cast("nn.Conv2d", layer)) else "x"


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


def _is_plain(tensor: Tensor, n_axes: int) -> bool:
    return (
        type(tensor) in (Tensor, nn.Parameter)
        and tensor.dim() == n_axes
        and tensor.dtype == torch.float32
        and tensor.device.type == "cpu"
        and tensor.layout == torch.strided
    )


def _is_transformed() -> bool:
    """Return whether PyTorch does more with functions than differentiate them."""
    return (
        torch.is_autocast_enabled("cpu") or torch._C._are_functorch_transforms_active()
    )


def _has_hooks(layer: nn.Module) -> bool:
    hooks = (
        *(layer._forward_hooks, layer._forward_pre_hooks),
        *(layer._backward_hooks, layer._backward_pre_hooks),
    )
    return any(hooks) or bool(
        _has_any_global_hook()  # type: ignore[no-untyped-call] # torch has none
    )


def _is_compiled(module: nn.Module) -> bool:
    """Return whether `torch.compile` has its own code for the module."""
    return hasattr(module, "_orig_mod") or module._compiled_call_impl is not None
