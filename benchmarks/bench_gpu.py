"""Local training and compression on a CUDA device, at the paper's size.

    python -m benchmarks.bench_gpu [ROUNDS]

ResNet-18, 20 clients of 2,500 images (random ones: only their number matters), five
epochs at batch 50, with the kernels and with PyTorch's own; then a FediAC round of
their 11,173,962 entries and batch norm's statistics, with the kernels and in core's own
operations. Medians of the rounds after the first, which compiles.
"""

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from fediac import FediAC, aggregate, native
from fediac.compressors import State, SwitchML
from fediac.training.cuda import CudaEngine
from fediac.training.datasets.types import Dataset, Examples
from fediac.training.local import LocalResult
from fediac.training.local_settings import LocalSettings
from fediac.training.models import build_model
from fediac.transports.statistics import STATISTICS_BITS

N_CLIENTS, N_EACH, N_EPOCHS, SHAPE = 20, 2500, 5, (3, 32, 32)


def random_examples(n: int) -> Examples:
    rng = np.random.default_rng(n)
    images = rng.integers(0, 256, (n, *SHAPE), dtype=np.uint8)
    return Examples(images, rng.integers(0, 10, n))


def make_engine() -> CudaEngine:
    half = (0.5, 0.5, 0.5)
    train = random_examples(N_CLIENTS * N_EACH)
    return CudaEngine(
        lambda: build_model("resnet18", SHAPE, 10, seed=1),
        Dataset("random", train, random_examples(1000), 10, half, half),
        np.split(np.arange(N_CLIENTS * N_EACH), N_CLIENTS),
        LocalSettings(epochs=N_EPOCHS, batch_size=50),
        seed=1,
        n_at_once=8,
    )


class Rounds:
    """FediAC rounds of the same updates, and of the statistics beside them."""

    def __init__(self, trained: list[LocalResult]) -> None:
        self.updates: list[Tensor | None] = [each.update for each in trained]
        self.statistics: list[Tensor | None] = [each.statistics for each in trained]
        dim = trained[0].update.shape[0]
        self.compressor = FediAC(N_CLIENTS, -(-dim // 20), threshold=3, bits=12)
        self.states: tuple[State, ...] | None = None
        self.number = 0

    def run(self) -> None:
        self.number += 1
        done = aggregate(
            self.updates,
            self.compressor,
            seed=1,
            round_number=self.number,
            states=self.states,
        )
        self.states = done.states
        aggregate(
            self.statistics,
            SwitchML(N_CLIENTS, STATISTICS_BITS, residual=False),
            seed=1,
            round_number=self.number,
            phase="statistics",
        )


def median_s(work: Callable[[], object], n_rounds: int) -> float:
    """Return the median seconds of ``work``, the first call left out."""
    times = []
    for _ in range(n_rounds + 1):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def time_training(n_rounds: int) -> tuple[list[LocalResult], float]:
    """Return what a round trains, and its seconds."""
    trained: list[LocalResult] = []
    everyone = list(range(N_CLIENTS))
    engine = make_engine()

    def train() -> None:
        before = list(trained)
        trained[:] = engine.train(everyone, round_number=1, rate=0.1)
        for one, two in zip(before, trained, strict=False):
            if not torch.equal(one.update, two.update):
                sys.exit("error: a round of training did not repeat itself")

    seconds = median_s(train, n_rounds)
    engine.close()
    return trained, seconds


def main() -> None:
    if not torch.cuda.is_available():
        sys.exit("error: this benchmark needs a CUDA device, and there is none")
    n_rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    with native.disabled():
        _, plain_s = time_training(n_rounds)
    trained, train_s = time_training(n_rounds)
    n_images = N_CLIENTS * N_EACH * N_EPOCHS
    print(
        f"training     {train_s:.2f} s a round with the kernels, {plain_s:.2f} s "
        f"without: {plain_s / train_s:.2f} x; {n_images / train_s:,.0f} images/s "
        f"and {n_images / plain_s:,.0f}"
    )
    rounds = Rounds(trained)
    kernels_s = median_s(rounds.run, n_rounds)
    with native.disabled():
        core_s = median_s(rounds.run, n_rounds)
    print(
        f"compression  {kernels_s:.3f} s a round with the kernels, {core_s:.3f} s "
        f"without: {core_s / kernels_s:.1f} x; {kernels_s / train_s:.1%} of training"
    )


if __name__ == "__main__":
    main()
