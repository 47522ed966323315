"""Local training on CPU cores: several clients at once, one thread each.

One thread a client makes a client's result independent of how many run beside it, and
it is faster than splitting small layers over threads.
"""

import copy
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from fediac.core.rng import Stream
from fediac.training.cpu.layers import use_kernels
from fediac.training.datasets import Dataset
from fediac.training.flat_model import FlatModel, flatten_model
from fediac.training.local import (
    Evaluation,
    LocalResult,
    Measured,
    draw_batches,
    normalize,
)
from fediac.training.local_settings import LocalSettings
from fediac.training.model_checks import try_model, try_task
from fediac.training.recalibration import draw_examples, measure
from fediac.training.task import PLAIN, Task

EVALUATION_BATCH = 250


@contextmanager
def one_thread() -> Iterator[None]:
    """Let PyTorch use one thread per operation; our own threads fill the cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class CpuEngine:
    """Trains the clients of a data set on CPU threads.

    Args:
        build: Makes the model; threads train copies of it.
        dataset: Images and labels.
        clients: Indices of each client's training examples.
        settings: How a client trains.
        seed: The run's seed.
        n_at_once: Clients trained side by side.
        task: What is done with the model's outputs.
    """

    def __init__(  # noqa: PLR0913 - made once, settings by name
        self,
        build: Callable[[], nn.Module],
        dataset: Dataset,
        clients: Sequence[npt.NDArray[np.int64]],
        settings: LocalSettings,
        *,
        seed: int,
        n_at_once: int,
        task: Task = PLAIN,
    ) -> None:
        self._settings = settings
        self._task = task
        self._seed = seed
        self._images, self._labels = normalize(dataset.train, dataset)
        self._test_images, self._test_labels = normalize(dataset.test, dataset)
        self._clients = [torch.from_numpy(each) for each in clients]
        module = build()
        with one_thread():
            n_scores = dataset.n_classes if task.metric is None else None
            self._draws = try_model(module, self._images, n_scores)
            if not task.is_plain:
                self._draws |= try_task(module, self._images, self._labels, task)
        self._turn = threading.Lock()
        self.model = flatten_model(module)
        self._local = threading.local()
        self._pool = ThreadPoolExecutor(n_at_once, thread_name_prefix="train")
        self._is_closed = False

    def close(self) -> None:
        """End the threads; clients that are still training stop at their next step."""
        self._is_closed = True
        self._pool.shutdown(cancel_futures=True)

    def _replica(self) -> FlatModel:
        """Return this thread's own copy of the model.

        A copy draws no random numbers: building in a thread would disturb PyTorch's
        global generator, which all threads share.
        """
        replica: FlatModel | None = getattr(self._local, "replica", None)
        if replica is None:
            replica = flatten_model(copy.deepcopy(self.model.module))
            use_kernels(replica.module)
            self._local.replica = replica
        return replica

    def train(
        self,
        clients: list[int],
        *,
        round_number: int,
        rate: float,
        statistics: Mapping[int, Tensor] | None = None,
        client_done: Callable[[], None] = lambda: None,
    ) -> list[LocalResult]:
        """Return each client's result, all starting from the current global model."""

        def work(client: int) -> LocalResult:
            own = self.model.statistics if statistics is None else statistics[client]
            stream = Stream(self._seed, round_number, client)
            with self._own_numbers(stream):
                result = self._train_one(client, stream, rate, own)
            client_done()
            return result

        with one_thread():
            return list(self._pool.map(work, clients))

    @contextmanager
    def _own_numbers(self, stream: Stream) -> Iterator[None]:
        """Let layers draw this client's random numbers, whatever other clients train.

        They draw from the one generator that PyTorch has, so clients take turns.
        """
        if not self._draws:
            yield
            return
        words = stream.purpose("layers").words(0, 1, like=np.zeros(0))
        with self._turn, torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(int(words[0]))
            yield

    def _train_one(
        self, client: int, stream: Stream, rate: float, statistics: Tensor
    ) -> LocalResult:
        replica = self._replica()
        replica.parameters.copy_(self.model.parameters)
        replica.statistics.copy_(statistics)
        replica.reset_counters(self.model)
        mine = self._clients[client]
        batches = draw_batches(len(mine), self._settings, stream)
        replica.module.train()
        optimizer = self._task.make_optimizer(replica.module, rate)
        losses = torch.zeros(len(batches))
        for step, batch in enumerate(batches):
            if self._is_closed:
                raise CancelledError
            chosen = mine[batch]
            scores = replica.module(self._images[chosen])
            loss = self._task.mean_loss(scores, self._labels[chosen])
            replica.gradients.zero_()
            torch.autograd.backward(loss)
            if optimizer is None:
                replica.parameters.add_(replica.gradients, alpha=-rate)
            else:
                optimizer.step()
            losses[step] = loss.detach()
        return LocalResult(
            update=self.model.parameters - replica.parameters,
            statistics=statistics - replica.statistics,
            loss=float(losses.mean()),
            n_examples=len(mine),
            n_trained=batches.numel(),
        )

    def recalibrate(self, clients: list[int], *, round_number: int) -> list[Measured]:
        """Return what each client's normalizations see in the current global model."""

        def work(client: int) -> Measured:
            stream = Stream(self._seed, round_number, client).purpose("recalibration")
            with self._own_numbers(stream):
                return self._recalibrate_one(client, stream)

        with one_thread():
            return list(self._pool.map(work, clients))

    def _recalibrate_one(self, client: int, stream: Stream) -> Measured:
        replica = self._replica()
        replica.parameters.copy_(self.model.parameters)
        replica.statistics.copy_(self.model.statistics)
        mine = self._clients[client]
        batches = mine[draw_examples(len(mine), self._settings.batch_size, stream)]
        statistics = measure(replica, (self._images[each] for each in batches))
        return Measured(statistics, n_examples=batches.numel())

    def evaluate(self) -> Evaluation:
        """Return how good the current global model is on the test set."""
        n_examples = len(self._test_labels)
        parts = [
            slice(start, start + EVALUATION_BATCH)
            for start in range(0, n_examples, EVALUATION_BATCH)
        ]
        with one_thread(), torch.no_grad():
            outputs = list(self._pool.map(self._outputs, parts))
            return self._task.score(
                outputs, [self._test_labels[each] for each in parts]
            )

    @torch.no_grad()
    def _outputs(self, part: slice) -> Tensor:
        """Return the global model's outputs for a part of the test set."""
        replica = self._replica()
        replica.parameters.copy_(self.model.parameters)
        replica.statistics.copy_(self.model.statistics)
        replica.module.eval()
        outputs: Tensor = replica.module(self._test_images[part])
        return outputs
