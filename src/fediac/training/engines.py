"""Which engine trains, and how many clients at once."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from torch import nn

from fediac import native
from fediac.errors import ArgumentError
from fediac.training.cpu import CpuEngine
from fediac.training.cuda import CudaEngine
from fediac.training.datasets import Dataset
from fediac.training.local_settings import LocalSettings
from fediac.training.task import PLAIN, Task

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
    task: Task = PLAIN,
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
        task: What is done with the model's outputs; on the GPU a plain one.

    Raises:
        ArgumentError: The GPU is asked for what it cannot do yet: its steps are
            recorded once and repeated, which own code cannot rely on.
    """
    if not on_cuda:
        n_at_once = n_at_once or native.n_threads()
        return CpuEngine(
            build, dataset, clients, settings, seed=seed, n_at_once=n_at_once, task=task
        )
    if not task.is_plain:
        raise ArgumentError(
            "device", "must be cpu with a loss, optimizer or metric of your own"
        )
    n_at_once = n_at_once or _CUDA_AT_ONCE
    return CudaEngine(build, dataset, clients, settings, seed=seed, n_at_once=n_at_once)
