"""Hot functions of core, switch, sim and training again, in plain C and in Triton.

Core asks `kernels_for` before every long loop and runs in NumPy or PyTorch when it gets
None. The kernels give the same bits as core, so nobody can tell but by the time. Only
those of training, `layers` in C, `step_kernels` and `convolution_kernels` in Triton,
equal PyTorch up to rounding.

Environment: FEDIAC_NATIVE=0 turns the kernels off, FEDIAC_ISA (baseline, avx2, avx512)
caps the instruction set, FEDIAC_THREADS sets the number of threads.
"""

from fediac.native.device import DeviceKernels
from fediac.native.dispatch import (
    StepKernels,
    disabled,
    host_kernels,
    host_kernels_for,
    isa,
    kernels_for,
    kernels_for_lanes,
    kernels_for_steps,
    name_kernels,
)
from fediac.native.kernels import Kernels
from fediac.native.threads import n_threads, set_threads, single_thread

__all__ = [
    "DeviceKernels",
    "Kernels",
    "StepKernels",
    "disabled",
    "host_kernels",
    "host_kernels_for",
    "isa",
    "kernels_for",
    "kernels_for_lanes",
    "kernels_for_steps",
    "n_threads",
    "name_kernels",
    "set_threads",
    "single_thread",
]
