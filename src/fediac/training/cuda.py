"""Local training on one CUDA device: several clients at once, a stream each.

A step at batch 50 is too small to fill a large GPU, and launching its hundreds of
kernels takes longer than running them. So one SGD step, from picking the batch to
changing the weights, is captured once as a CUDA graph for each of a few replicas; a
client's training is that graph replayed, and replicas run side by side on their own
streams. Nothing leaves the device.
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
from fediac.training.datasets import Dataset, Examples
from fediac.training.flat import FlatModel, flatten_model
from fediac.training.local import (
    Evaluation,
    LocalResult,
    LocalSettings,
    Measured,
    draw_batches,
    normalize,
)
from fediac.training.recalibration import draw_examples, measure
from fediac.training.trial import check_for_cuda

EVALUATION_BATCH = 1000
_N_WARMUP_STEPS = 3


def _narrow() -> torch.autocast:
    """Let layers work in bfloat16 where they may.

    Casts of weights are not kept: a recorded step must repeat them, whoever calls.
    """
    return torch.autocast("cuda", torch.bfloat16, cache_enabled=False)


def _repeating() -> AbstractContextManager[None]:
    """Let cuDNN take only kernels that repeat, and not the fastest in a trial."""
    return torch.backends.cudnn.flags(enabled=True, deterministic=True, benchmark=False)


class _Data:
    """Images and labels on the device, as bytes until they are used."""

    def __init__(self, examples: Examples, dataset: Dataset, device: str) -> None:
        images = torch.from_numpy(examples.images).to(device)
        if images.dim() == 4:
            images = images.contiguous(memory_format=torch.channels_last)
        self._images = images
        self.labels = torch.from_numpy(examples.labels).to(device)
        mean = torch.tensor(dataset.mean, device=device).view(1, -1, 1, 1)
        std = torch.tensor(dataset.std, device=device).view(1, -1, 1, 1)
        self._scale, self._shift = 1.0 / (255.0 * std), -mean / std

    def pick(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Return inputs and labels of some examples; bytes are normalized pixels."""
        images = self._images.index_select(0, indices)
        labels = self.labels.index_select(0, indices)
        if images.dtype != torch.uint8:
            return images, labels
        return images.to(torch.float32) * self._scale + self._shift, labels


class _Replica:
    """A copy of the model with one captured training step.

    What changes from step to step lives on the device, so that a replay needs nothing
    from the host: the order of examples, the number of the step, the rate, the loss.
    """

    def __init__(
        self,
        model: FlatModel,
        data: _Data,
        batch_size: int,
        max_examples: int,
        aside: torch.cuda.Stream,
    ) -> None:
        self.model = model
        _forget_batch_counts(model.module)
        buffers = list(model.module.buffers())
        self._counters = [
            (each, each.clone()) for each in buffers if not each.is_floating_point()
        ]
        self.stream = torch.cuda.Stream()  # type: ignore[no-untyped-call] # torch has none
        device = model.parameters.device
        self._data = data
        self._order = torch.zeros(max_examples, dtype=torch.int64, device=device)
        self._step = torch.zeros(1, dtype=torch.int64, device=device)
        self._places = torch.arange(batch_size, device=device)
        self._rate = torch.zeros((), device=device)
        self._loss = torch.zeros((), device=device)
        self._optimizer = torch.optim.SGD(
            model.module.parameters(), lr=self._rate, fused=True
        )
        self._graph = self._capture(aside)

    def _run_step(self) -> None:
        first = self._step * len(self._places)
        indices = self._order.index_select(0, first + self._places)
        images, labels = self._data.pick(indices)
        with _narrow():
            loss = functional.cross_entropy(self.model.module(images), labels)
        # Without a gradient to add to, backward hands over its own: no copies.
        self._optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        self._optimizer.step()
        self._step.add_(1)
        self._loss.add_(loss.detach())

    def _capture(self, aside: torch.cuda.Stream) -> torch.cuda.CUDAGraph:
        """Record one step. Its kernels are chosen here, and only ones that repeat."""
        with _repeating():
            return self._record(aside)

    def _record(self, aside: torch.cuda.Stream) -> torch.cuda.CUDAGraph:
        self.model.module.train()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(_N_WARMUP_STEPS):
                self._run_step()
                self._step.zero_()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        # PyTorch has one cuBLAS workspace a stream. Graphs recorded on one stream share
        # it, and replayed side by side, as replicas are, they would write over each
        # other's sums. So each has a stream of its own, on which nothing ran before:
        # its workspace then is the graph's own memory.
        with torch.cuda.graph(graph, stream=self.stream):
            self._run_step()
        return graph

    def train(
        self, start: "_Start", examples: Tensor, n_steps: int, rate: float
    ) -> Iterator[None]:
        """Queue a client's training on this replica's stream, a step at a time."""
        with torch.cuda.stream(self.stream):
            self.model.parameters.copy_(start.parameters)
            self.model.statistics.copy_(start.statistics)
            for counter, first in self._counters:
                counter.copy_(first)
            self._order[: len(examples)].copy_(examples)
            self._step.zero_()
            self._loss.zero_()
            self._rate.fill_(rate)
        for _ in range(n_steps):
            with torch.cuda.stream(self.stream):
                self._graph.replay()
            yield

    def changes(self, start: "_Start") -> tuple[Tensor, Tensor, Tensor]:
        """Return update, statistics and summed loss of the training just queued."""
        with torch.cuda.stream(self.stream):
            update = start.parameters - self.model.parameters
            statistics = start.statistics - self.model.statistics
            return update, statistics, self._loss.clone()


def _forget_batch_counts(module: nn.Module) -> None:
    """Let batch norm count no batches where it does not read the count.

    It is one launch a layer and step, for a number that nobody looks at in a replica.
    """
    for each in module.modules():
        is_norm = isinstance(each, nn.modules.batchnorm._NormBase)
        if is_norm and each.momentum is not None:
            each.register_buffer("num_batches_tracked", None)


@dataclass(frozen=True, slots=True)
class _Start:
    """What a client's training starts from."""

    parameters: Tensor
    statistics: Tensor


@dataclass(frozen=True, slots=True)
class _Round:
    """What all clients of a round have in common, and their statistics."""

    number: int
    rate: float
    starts: Mapping[int, _Start]


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
        seed: Of the whole run.
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
            raise ValueError(
                f"batch_size must be at most {smallest} (the smallest client's "
                f"examples) on CUDA, got {settings.batch_size}"
            )
        self._settings = settings
        self._seed = seed
        self._clients = [torch.from_numpy(each).to(device) for each in clients]
        data = self._train_data = _Data(dataset.train, dataset, device)
        self._test = _Data(dataset.test, dataset, device)
        module = build()
        two = Examples(dataset.train.images[:2], dataset.train.labels[:2])
        check_for_cuda(module, normalize(two, dataset)[0], dataset.n_classes)
        self.model = flatten_model(module, device=device)
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call] # torch has none
        largest = max(settings.n_steps(len(each)) for each in clients)
        self._replicas = [
            _Replica(
                flatten_model(build(), device=device),
                data,
                settings.batch_size,
                largest * settings.batch_size,
                aside,
            )
            for _ in range(_n_replicas(len(clients), n_at_once))
        ]
        self._judge = flatten_model(build(), device=device)

    def close(self) -> None:
        """Let the device's memory go, once nothing on the device uses it."""
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
        starts = {i: _Start(self.model.parameters, each) for i, each in own.items()}
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
        replica: _Replica,
        share: list[int],
        queued: dict[int, _Queued],
        this: _Round,
    ) -> Iterator[None]:
        """Queue the training of one replica's clients, a step at a time."""
        for client in share:
            mine = self._clients[client]
            stream = Stream(self._seed, this.number, client)
            batches = draw_batches(len(mine), self._settings, stream)
            examples = mine[batches.reshape(-1).to(mine.device)]
            replica.stream.wait_stream(torch.cuda.current_stream())
            start = this.starts[client]
            yield from replica.train(start, examples, len(batches), this.rate)
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
        with _repeating(), _narrow():
            return [self._recalibrate_one(each, round_number) for each in clients]

    def _recalibrate_one(self, client: int, round_number: int) -> Measured:
        stream = Stream(self._seed, round_number, client).purpose("recalibration")
        mine = self._clients[client]
        rows = draw_examples(len(mine), self._settings.batch_size, stream)
        batches = mine[rows.to(mine.device)]
        self._judge.statistics.copy_(self.model.statistics)
        inputs = (self._train_data.pick(each)[0] for each in batches)
        return Measured(measure(self._judge, inputs), n_examples=batches.numel())

    @torch.no_grad()
    def evaluate(self) -> Evaluation:
        """Return how good the current global model is on the test set."""
        judge = self._judge
        judge.parameters.copy_(self.model.parameters)
        judge.statistics.copy_(self.model.statistics)
        judge.module.eval()
        with _repeating():
            return self._score(judge)

    def _score(self, judge: FlatModel) -> Evaluation:
        n_examples = len(self._test.labels)
        right = torch.zeros((), dtype=torch.int64, device=judge.parameters.device)
        loss = torch.zeros((), device=judge.parameters.device)
        for start in range(0, n_examples, EVALUATION_BATCH):
            stop = min(start + EVALUATION_BATCH, n_examples)
            indices = torch.arange(start, stop, device=judge.parameters.device)
            images, labels = self._test.pick(indices)
            with _narrow():
                scores = judge.module(images).float()
            right += (scores.argmax(dim=1) == labels).sum()
            loss += functional.cross_entropy(scores, labels, reduction="sum")
        return Evaluation(float(right) / n_examples, float(loss) / n_examples)
