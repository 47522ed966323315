"""Local training on an NVIDIA GPU: recorded steps, with kernels of our own."""

from fediac.training.cuda.engine import CudaEngine

__all__ = ["CudaEngine"]
