"""Compiled convolution and max-pooling, for training on a CPU with few channels."""

import ctypes
from collections.abc import Callable
from ctypes import c_size_t, c_void_p
from typing import Protocol

import numpy as np

from fediac.native import library
from fediac.native.dispatch import kernels_for
from fediac.native.library import Signatures, declare, isa_of

_SIGNATURES: Signatures = {
    "fediac_convolution_scratch": (c_size_t, [c_void_p]),
    "fediac_convolve": (None, [c_void_p] * 7),
    "fediac_correlate": (None, [c_void_p] * 7),
    "fediac_scatter": (None, [c_void_p] * 9),
    "fediac_max_pool": (None, [c_void_p, c_size_t, *[c_void_p] * 3]),
    "fediac_max_pool_back": (None, [c_void_p, c_size_t, *[c_void_p] * 3]),
}

_PROBE = np.zeros(1, np.uint8)


class Memory(Protocol):
    """What the kernels need of a tensor: float32 or int32, on the CPU, dense."""

    def data_ptr(self) -> int:
        """Return where its first entry is."""
        ...


class ConvolutionShape(ctypes.Structure):
    """Sizes of a convolution with stride 1 and of the pooling after it.

    Outputs come in multiples of 16 channels.
    """

    _fields_ = tuple(
        (name, c_size_t)
        for name in (
            *("n_images", "height", "width", "n_in", "n_out"),
            *("kernel_height", "kernel_width", "pad_height", "pad_width"),
            *("is_pooled", "is_rectified"),
        )
    )


class PoolShape(ctypes.Structure):
    """Sizes of an image that is pooled, 2 x 2 pixels at a time."""

    _fields_ = tuple(
        (name, c_size_t) for name in ("height", "width", "n_channels", "is_rectified")
    )


class LayerKernels:
    """The functions of the C library on images whose channels lie last.

    Weights lie as (outputs, kernel height, kernel width, inputs). A rectifier sets what
    is below zero to zero. Winners are int32, one for each output of pooling. The caller
    has checked all sizes.
    """

    def __init__(self, loaded: ctypes.CDLL) -> None:
        declare(loaded, _SIGNATURES)
        self._c = loaded

    def __reduce__(self) -> tuple[Callable[[], "LayerKernels | None"], tuple[()]]:
        """Let a copy find the library anew, perhaps on another machine."""
        return layer_kernels, ()

    def n_scratch(self, shape: ConvolutionShape) -> int:
        """Return how many floats of scratch a convolution needs, in both directions."""
        n_floats: int = self._c.fediac_convolution_scratch(ctypes.byref(shape))
        return n_floats

    def convolve(
        self,
        shape: ConvolutionShape,
        inputs: tuple[Memory, Memory, Memory | None],
        scratch: Memory,
        *,
        out: tuple[Memory, Memory | None],
    ) -> None:
        """Write the output, and the winners if it is pooled, to ``out``.

        Args:
            shape: All sizes.
            inputs: Images, weights and, if there is one, bias.
            scratch: At least `n_scratch` floats.
            out: Where to write.
        """
        addresses = [_address(each) for each in (*inputs, scratch, *out)]
        self._c.fediac_convolve(ctypes.byref(shape), *addresses)

    def correlate(
        self,
        shape: ConvolutionShape,
        images: Memory,
        gradient: tuple[Memory, Memory | None],
        scratch: Memory,
        *,
        out: tuple[Memory, Memory],
    ) -> None:
        """Write the gradients of weights and bias to ``out``.

        Args:
            shape: All sizes.
            images: What was convolved.
            gradient: That of the output, and the winners if it was pooled.
            scratch: At least `n_scratch` floats.
            out: Where to write.
        """
        addresses = [_address(each) for each in (images, *gradient, scratch, *out)]
        self._c.fediac_correlate(ctypes.byref(shape), *addresses)

    def scatter(
        self,
        shape: ConvolutionShape,
        inputs: tuple[Memory, Memory],
        gradient: tuple[Memory, Memory],
        scratch: Memory,
        *,
        out: tuple[Memory, Memory, Memory],
    ) -> None:
        """Write the gradients of weights, bias and images to ``out``.

        Args:
            shape: All sizes; the output is pooled.
            inputs: Images and weights.
            gradient: That of the output, and the winners.
            scratch: At least `n_scratch` floats.
            out: Where to write.
        """
        addresses = [_address(each) for each in (*inputs, *gradient, scratch, *out)]
        self._c.fediac_scatter(ctypes.byref(shape), *addresses)

    def max_pool(
        self,
        shape: PoolShape,
        n_images: int,
        images: Memory,
        *,
        out: tuple[Memory, Memory],
    ) -> None:
        """Write the largest of each four pixels, and which it was, to ``out``."""
        addresses = [_address(each) for each in (images, *out)]
        self._c.fediac_max_pool(ctypes.byref(shape), n_images, *addresses)

    def max_pool_back(
        self,
        shape: PoolShape,
        n_images: int,
        gradient: tuple[Memory, Memory],
        *,
        out: Memory,
    ) -> None:
        """Write the gradient of the images to ``out``.

        Args:
            shape: All sizes.
            n_images: Images of the batch.
            gradient: That of the output, and the winners.
            out: Where to write.
        """
        addresses = [_address(each) for each in (*gradient, out)]
        self._c.fediac_max_pool_back(ctypes.byref(shape), n_images, *addresses)


def _address(memory: Memory | None) -> int | None:
    return None if memory is None else memory.data_ptr()


def layer_kernels() -> LayerKernels | None:
    """Return the compiled layers, None where PyTorch's own are faster or none wanted.

    They are made for the long vectors of AVX2 and AVX-512.
    """
    loaded = library.load() if kernels_for(_PROBE) is not None else None
    if loaded is None or isa_of(loaded) == library.ISAS[0]:
        return None
    try:
        return LayerKernels(loaded)
    except AttributeError:
        library.reject("its C kernels were built from older sources")
        return None
