"""The hot functions of core and switch again, in plain C.

Core asks `kernels_for` before every long loop and runs in NumPy or PyTorch when it gets
None. The kernels give the same bits as core, so nobody can tell but by the time.

Environment: FEDIAC_NATIVE=0 turns the kernels off, FEDIAC_ISA (baseline, avx2, avx512)
caps the instruction set, FEDIAC_THREADS sets the number of threads.
"""

from fediac.native.dispatch import disabled, isa, kernels_for, kernels_for_lanes
from fediac.native.kernels import Kernels
from fediac.native.threads import n_threads, set_threads, single_thread

__all__ = [
    "Kernels",
    "disabled",
    "isa",
    "kernels_for",
    "kernels_for_lanes",
    "n_threads",
    "set_threads",
    "single_thread",
]
