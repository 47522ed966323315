"""Which engine trains, and how many clients at once."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from torch import nn

from fediac import native
from fediac.training.cpu import CpuEngine
from fediac.training.cuda import CudaEngine
from fediac.training.datasets import Dataset
from fediac.training.local_settings import LocalSettings

_CUDA_AT_ONCE = 8


def make_engine(  # noqa: PLR0913 - made once, settings by name
    build: Callable[[], nn.Module],
    dataset: Dataset,
    clients: Sequence[npt.NDArray[np.int64]],
    settings: LocalSettings,
    *,
    seed: int,
    on_cuda: bool,
    n_at_once: int = 0,
) -> CpuEngine | CudaEngine:
    """Return the engine of a device.

    Args:
        build: Makes the model.
        dataset: What it learns.
        clients: Numbers of each client's training examples.
        settings: How a client trains.
        seed: The run's seed.
        on_cuda: Train on the GPU.
        n_at_once: Clients that train at the same time; 0: as many as pay.
    """
    make: Callable[..., CpuEngine | CudaEngine] = CudaEngine if on_cuda else CpuEngine
    n_default = _CUDA_AT_ONCE if on_cuda else native.n_threads()
    return make(
        build, dataset, clients, settings, seed=seed, n_at_once=n_at_once or n_default
    )
