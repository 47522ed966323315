"""Local training on CPU cores, with compiled layers where they are faster."""

from fediac.training.cpu.engine import CpuEngine

__all__ = ["CpuEngine"]
