"""Local training on one CUDA device: several clients at once, one stream each.

A step at batch 50 is too small to fill a large GPU, and launching its hundreds of
kernels takes longer than running them. So one SGD step is recorded (`replica`), and
replicas of the model run side by side on their own streams. Nothing leaves the device.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from fediac.core.rng import Stream
from fediac.errors import ArgumentError
from fediac.training.cuda.numbers import OwnNumbers, drawing, try_draws
from fediac.training.cuda.replica import (
    Batch,
    Data,
    Replica,
    Start,
    find_kernels,
    in_bfloat16,
    repeating,
)
from fediac.training.cuda.tracing import can_trace
from fediac.training.datasets import Dataset, Examples
from fediac.training.flat_model import FlatModel, flatten_model
from fediac.training.local import (
    Evaluation,
    LocalResult,
    Measured,
    draw_batches,
    normalize,
)
from fediac.training.local_settings import LocalSettings
from fediac.training.model_checks import check_for_cuda
from fediac.training.recalibration import draw_examples, measure

EVALUATION_BATCH = 1000


@dataclass(frozen=True, slots=True)
class _Round:
    """What all clients of a round share, and their statistics."""

    number: int
    rate: float
    starts: Mapping[int, Start]


@dataclass(frozen=True, slots=True)
class _Queued:
    """A client's training on its way through the device."""

    client: int
    changes: tuple[Tensor, Tensor, Tensor]
    event: torch.cuda.Event
    examples: Tensor


def _n_replicas(n_clients: int, n_at_once: int) -> int:
    """Return as many replicas as keep all of them busy to the end: 7 for 20 and 8."""
    n_turns = -(-n_clients // n_at_once)
    return -(-n_clients // n_turns)


class CudaEngine:
    """Trains the clients of a data set on one CUDA device.

    Args:
        build: Makes the model; called once for each replica.
        dataset: Images and labels; they are kept on the device.
        clients: Indices of each client's training examples.
        settings: How a client trains. Every client needs at least one full batch.
        seed: The run's seed.
        n_at_once: Replicas; seven fill a large GPU with ResNet-18.
    """

    def __init__(  # noqa: PLR0913 - made in one place, settings by name
        self,
        build: Callable[[], nn.Module],
        dataset: Dataset,
        clients: Sequence[npt.NDArray[np.int64]],
        settings: LocalSettings,
        *,
        seed: int,
        n_at_once: int,
        device: str = "cuda",
    ) -> None:
        smallest = min(len(each) for each in clients)
        if smallest < settings.batch_size:
            raise ArgumentError(
                "batch_size",
                f"must be at most {smallest} (the smallest client's "
                f"examples) on CUDA, got {settings.batch_size}",
            )
        self._settings = settings
        self._seed = seed
        self._clients = [torch.from_numpy(each).to(device) for each in clients]
        data = self._train_data = Data(dataset.train, dataset, device)
        self._test = Data(dataset.test, dataset, device)
        module = build()
        two = Examples(dataset.train.images[:2], dataset.train.labels[:2])
        inputs, _ = normalize(two, dataset)
        draws = check_for_cuda(module, inputs, dataset.n_classes)
        if draws:
            try_draws(module, inputs)
        has_graph = not draws and can_trace(module, inputs)
        kernels = find_kernels() if has_graph else None
        self.model = flatten_model(module, device=device)
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call] # torch has none
        n_steps = max(settings.n_steps(len(each)) for each in clients)
        self._replicas = [
            Replica(
                flatten_model(build(), device=device),
                data,
                Batch.first(settings.batch_size, n_steps, device),
                aside,
                kernels,
                draws=draws,
            )
            for _ in range(_n_replicas(len(clients), n_at_once))
        ]
        self._judge = flatten_model(build(), device=device)
        first = torch.zeros(1, dtype=torch.int64, device=device)
        self._numbers = OwnNumbers(first) if draws else None

    def close(self) -> None:
        """Free the device's memory, once nothing on the device uses it."""
        torch.cuda.synchronize()
        self._replicas.clear()

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
        queued: dict[int, _Queued] = {}
        own = dict.fromkeys(clients, self.model.statistics)
        if statistics is not None:
            own = {client: statistics[client] for client in clients}
        starts = {i: Start(self.model.parameters, each) for i, each in own.items()}
        this = _Round(round_number, rate, starts)
        work = [
            self._train_share(replica, share, queued, this)
            for replica, share in zip(
                self._replicas, self._share_out(clients), strict=True
            )
        ]
        try:
            # One step of every replica in turn, so that all streams stay busy.
            while work:
                work = [each for each in work if next(each, self) is not self]
            results = []
            for client in clients:
                results.append(self._collect(queued[client]))
                client_done()
            return results
        finally:
            # Also where a round is broken off: what is queued must not outlive the
            # tensors it reads.
            torch.cuda.synchronize()

    def _share_out(self, clients: list[int]) -> list[list[int]]:
        """Return each replica's clients: the longest trainings first, evenly spread."""
        shares: list[list[int]] = [[] for _ in self._replicas]
        loads = [0] * len(shares)
        for client in sorted(clients, key=lambda i: -len(self._clients[i])):
            lightest = loads.index(min(loads))
            shares[lightest].append(client)
            loads[lightest] += self._settings.n_steps(len(self._clients[client]))
        return shares

    def _train_share(
        self,
        replica: Replica,
        share: list[int],
        queued: dict[int, _Queued],
        this: _Round,
    ) -> Iterator[None]:
        """Queue the training of one replica's clients, one step at a time."""
        for client in share:
            mine = self._clients[client]
            stream = Stream(self._seed, this.number, client)
            batches = draw_batches(len(mine), self._settings, stream)
            examples = mine[batches.reshape(-1).to(mine.device)]
            replica.stream.wait_stream(torch.cuda.current_stream())
            start = this.starts[client]
            yield from replica.train(start, examples, len(batches), this.rate, stream)
            changes = replica.changes(start)
            event = replica.stream.record_event()
            # ``examples`` is kept until its stream has read it.
            queued[client] = _Queued(client, changes, event, examples)

    def _collect(self, queued: _Queued) -> LocalResult:
        queued.event.synchronize()
        update, statistics, loss = queued.changes
        n_trained = len(queued.examples)
        return LocalResult(
            update=update,
            statistics=statistics,
            loss=float(loss) * self._settings.batch_size / n_trained,
            n_examples=len(self._clients[queued.client]),
            n_trained=n_trained,
        )

    def recalibrate(self, clients: list[int], *, round_number: int) -> list[Measured]:
        """Return what each client's normalizations see in the current global model."""
        self._judge.parameters.copy_(self.model.parameters)
        with repeating(), in_bfloat16():
            return [self._recalibrate_one(each, round_number) for each in clients]

    def _recalibrate_one(self, client: int, round_number: int) -> Measured:
        stream = Stream(self._seed, round_number, client).purpose("recalibration")
        mine = self._clients[client]
        rows = draw_examples(len(mine), self._settings.batch_size, stream)
        batches = mine[rows.to(mine.device)]
        self._judge.statistics.copy_(self.model.statistics)
        inputs = (self._train_data.pick(each)[0] for each in batches)
        with self._drawing(stream):
            statistics = measure(self._judge, inputs)
        return Measured(statistics, n_examples=batches.numel())

    def _drawing(self, stream: Stream) -> AbstractContextManager[None]:
        if self._numbers is not None:
            self._numbers.set_key(stream)
        return drawing(self._numbers)

    @torch.no_grad()
    def evaluate(self) -> Evaluation:
        """Return how good the current global model is on the test set."""
        judge = self._judge
        judge.parameters.copy_(self.model.parameters)
        judge.statistics.copy_(self.model.statistics)
        judge.module.eval()
        stream = Stream(self._seed, 0, 0).purpose("evaluation")
        with repeating(), self._drawing(stream):
            return self._score(judge)

    def _score(self, judge: FlatModel) -> Evaluation:
        n_examples = len(self._test.labels)
        right = torch.zeros((), dtype=torch.int64, device=judge.parameters.device)
        loss = torch.zeros((), device=judge.parameters.device)
        for start in range(0, n_examples, EVALUATION_BATCH):
            stop = min(start + EVALUATION_BATCH, n_examples)
            indices = torch.arange(start, stop, device=judge.parameters.device)
            images, labels = self._test.pick(indices)
            with in_bfloat16():
                scores = judge.module(images).float()
            right += (scores.argmax(dim=1) == labels).sum()
            loss += functional.cross_entropy(scores, labels, reduction="sum")
        return Evaluation(float(right) / n_examples, float(loss) / n_examples)
