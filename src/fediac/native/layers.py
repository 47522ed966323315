"""Compiled convolution and max-pooling, for training on a CPU with few channels."""

import ctypes
from ctypes import c_size_t, c_void_p
from typing import Protocol

import numpy as np

from fediac.native import library
from fediac.native.dispatch import kernels_for
from fediac.native.library import Signatures, declare, isa_of

_SIGNATURES: Signatures = {
    "fediac_convolution_scratch": (c_size_t, [c_void_p]),
    "fediac_convolve": (None, [c_void_p] * 6),
    "fediac_convolve_back": (None, [c_void_p] * 5),
    "fediac_correlate": (None, [c_void_p] * 6),
    "fediac_max_pool": (None, [c_void_p] * 4),
    "fediac_max_pool_back": (None, [c_void_p] * 4),
}

_PROBE = np.zeros(1, np.uint8)


class Memory(Protocol):
    """What the kernels need of a tensor: float32 or int32, on the CPU, dense."""

    def data_ptr(self) -> int:
        """Return where its first entry is."""
        ...


class ConvolutionShape(ctypes.Structure):
    """Sizes of a convolution with stride 1; padding is less than the kernel."""

    _fields_ = tuple(
        (name, c_size_t)
        for name in (
            *("n_images", "height", "width", "n_in", "n_out"),
            *("kernel_height", "kernel_width", "pad_height", "pad_width"),
        )
    )


class PoolShape(ctypes.Structure):
    """Sizes of what is pooled, 2 x 2 pixels at a time."""

    _fields_ = tuple(
        (name, c_size_t) for name in ("n_images", "height", "width", "n_channels")
    )


class LayerKernels:
    """The functions of the C library on images whose channels lie last.

    Weights lie as (outputs, kernel height, kernel width, inputs). The caller has
    checked all sizes.
    """

    def __init__(self, loaded: ctypes.CDLL) -> None:
        declare(loaded, _SIGNATURES)
        self._c = loaded

    def scratch(self, shape: ConvolutionShape) -> int:
        """Return how many floats of scratch a convolution needs."""
        n_floats: int = self._c.fediac_convolution_scratch(ctypes.byref(shape))
        return n_floats

    def convolve(
        self,
        shape: ConvolutionShape,
        images: Memory,
        weights: Memory,
        bias: Memory | None,
        *,
        scratch: Memory,
        out: Memory,
    ) -> None:
        """Write the convolution of ``images`` to ``out``."""
        self._c.fediac_convolve(
            ctypes.byref(shape),
            *(images.data_ptr(), weights.data_ptr()),
            None if bias is None else bias.data_ptr(),
            *(scratch.data_ptr(), out.data_ptr()),
        )

    def convolve_back(
        self,
        shape: ConvolutionShape,
        gradient: Memory,
        weights: Memory,
        *,
        scratch: Memory,
        out: Memory,
    ) -> None:
        """Write the gradient of the images to ``out``, given that of the output."""
        self._c.fediac_convolve_back(
            ctypes.byref(shape),
            *(gradient.data_ptr(), weights.data_ptr()),
            *(scratch.data_ptr(), out.data_ptr()),
        )

    def correlate(
        self,
        shape: ConvolutionShape,
        images: Memory,
        gradient: Memory,
        *,
        scratch: Memory,
        out: tuple[Memory, Memory],
    ) -> None:
        """Write the gradients of weights and bias to ``out``."""
        self._c.fediac_correlate(
            ctypes.byref(shape),
            *(images.data_ptr(), gradient.data_ptr(), scratch.data_ptr()),
            *(out[0].data_ptr(), out[1].data_ptr()),
        )

    def max_pool(
        self, shape: PoolShape, images: Memory, *, out: tuple[Memory, Memory]
    ) -> None:
        """Write the largest of each four pixels, and which it was, to ``out``."""
        self._c.fediac_max_pool(
            ctypes.byref(shape),
            *(images.data_ptr(), out[0].data_ptr(), out[1].data_ptr()),
        )

    def max_pool_back(
        self, shape: PoolShape, gradient: Memory, winners: Memory, *, out: Memory
    ) -> None:
        """Write the gradient of the images to ``out``, given that of the output."""
        self._c.fediac_max_pool_back(
            ctypes.byref(shape),
            *(gradient.data_ptr(), winners.data_ptr(), out.data_ptr()),
        )


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
