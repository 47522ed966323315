"""A copy of a model on a CUDA device, with one recorded training step.

The step, from picking the batch to changing the weights, is captured once as a CUDA
graph; a client's training is that graph replayed.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from fediac import native
from fediac.core.rng import Stream
from fediac.errors import ArgumentError
from fediac.native import StepKernels
from fediac.training.cuda.descent import Descent, NarrowDescent, PlainDescent
from fediac.training.cuda.numbers import OwnNumbers, drawing
from fediac.training.cuda.tracing import join_norms, narrow_layers, takes_narrow, trace
from fediac.training.datasets import Dataset, Examples
from fediac.training.flat_model import FlatModel

_N_WARMUP_STEPS = 3

_PICK_BLOCK = 1024
"""Values of an example that one program copies."""


def in_bfloat16() -> torch.autocast:
    """Let layers work in bfloat16 where they may.

    Casts of weights are not kept, as a recorded step must always repeat them.
    """
    return torch.autocast("cuda", torch.bfloat16, cache_enabled=False)


def repeating() -> AbstractContextManager[None]:
    """Let cuDNN use only deterministic kernels, not the fastest in a trial."""
    return torch.backends.cudnn.flags(enabled=True, deterministic=True, benchmark=False)


def find_kernels() -> StepKernels | None:
    """Return the kernels of a training step, None where the device has none."""
    capability, kernels = torch.cuda.get_device_capability(), native.kernels_for_steps()
    if kernels is None or capability < (8, 0):  # the first with bfloat16
        return None
    # Their tiles were chosen for Hopper; elsewhere they may not even fit.
    return kernels if capability == (9, 0) else kernels._replace(convolutions=None)


@dataclass(frozen=True, slots=True)
class Start:
    """The start of a client's training."""

    parameters: Tensor
    statistics: Tensor


@dataclass(frozen=True, slots=True)
class Batch:
    """Which examples come next, on the device.

    Attributes:
        order: The order of all examples of a client's training.
        step: How many batches there were before.
        places: Where a batch's examples stand in it.
    """

    order: Tensor
    step: Tensor
    places: Tensor

    @classmethod
    def first(cls, size: int, n_steps: int, device: str) -> "Batch":
        """Return the first of ``n_steps`` batches; examples are yet to be chosen."""
        return cls(
            torch.zeros(n_steps * size, dtype=torch.int64, device=device),
            torch.zeros(1, dtype=torch.int64, device=device),
            torch.arange(size, device=device),
        )

    @property
    def size(self) -> int:
        """Examples of a batch."""
        return len(self.places)

    def indices(self) -> Tensor:
        """Return the examples' numbers."""
        return self.order.index_select(0, self.step * self.size + self.places)


class Data:
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

    @property
    def has_pixels(self) -> bool:
        """Whether images are bytes, which get normalized."""
        return self._images.dtype == torch.uint8 and self._images.dim() == 4

    def pick_batch(
        self, batch: Batch, dtype: torch.dtype, kernels: StepKernels
    ) -> tuple[Tensor, Tensor]:
        """Return normalized pixels and labels of a step's examples, in one launch."""
        images = self._images
        inputs = torch.empty(
            (batch.size, *images.shape[1:]),
            dtype=dtype,
            device=images.device,
            memory_format=torch.channels_last,
        )
        labels = self.labels.new_empty(batch.size)
        n_values = images[0].numel()
        kernels.steps.pick_examples[(batch.size, -(-n_values // _PICK_BLOCK))](
            *(images, self.labels, batch.order, batch.step),
            *(self._scale, self._shift, inputs, labels, n_values),
            BATCH=batch.size,
            CHANNELS=images.shape[1],
            BLOCK=_PICK_BLOCK,
        )
        return inputs, labels


@dataclass(frozen=True, slots=True)
class _Plan:
    """How a step is done.

    Attributes:
        network: Computes scores.
        descent: Changes the parameters.
        dtype: The type of normalized pixels.
        kernels: Pick the batch; None: PyTorch does.
    """

    network: nn.Module
    descent: Descent
    dtype: torch.dtype = torch.float32
    kernels: StepKernels | None = None


def _make_plan(model: FlatModel, rate: Tensor, kernels: StepKernels | None) -> _Plan:
    """Return a plan with the kernels if there are, and if the model can be traced."""
    with in_bfloat16():
        traced = None if kernels is None else trace(model.module)
    if traced is None or kernels is None:
        return _Plan(model.module, PlainDescent(model, rate))
    layers = narrow_layers(traced)
    dtype = torch.bfloat16 if takes_narrow(traced, layers) else torch.float32
    descent = NarrowDescent(model, layers, rate, kernels.steps)
    join_norms(traced, kernels)
    return _Plan(traced, descent, dtype, kernels)


class Replica:
    """A copy of the model with one captured training step.

    What changes from step to step lives on the device, so that a replay needs nothing
    from the host: the order of examples, the number of the step, the rate, the loss.
    """

    def __init__(
        self,
        model: FlatModel,
        data: Data,
        batch: Batch,
        aside: torch.cuda.Stream,
        kernels: StepKernels | None,
        *,
        draws: bool = False,
    ) -> None:
        self.model = model
        model.module.train()
        _forget_batch_counts(model.module)
        buffers = list(model.module.buffers())
        self._counters = [
            (each, each.clone()) for each in buffers if not each.is_floating_point()
        ]
        self.stream = torch.cuda.Stream()  # type: ignore[no-untyped-call] # torch has none
        device = model.parameters.device
        self._data = data
        self._batch = batch
        self._rate = torch.zeros((), device=device)
        self._loss = torch.zeros((), device=device)
        self._numbers = OwnNumbers(batch.step) if draws else None
        self._plan = _make_plan(model, self._rate, kernels)
        self._graph = self._capture(aside)

    def _pick(self) -> tuple[Tensor, Tensor]:
        plan = self._plan
        if plan.kernels is not None and self._data.has_pixels:
            return self._data.pick_batch(self._batch, plan.dtype, plan.kernels)
        return self._data.pick(self._batch.indices())

    def _run_step(self) -> None:
        images, labels = self._pick()
        with in_bfloat16(), drawing(self._numbers):
            loss = functional.cross_entropy(self._plan.network(images), labels)
        # Without a gradient to add to, backward hands over its own: no copies.
        self._plan.descent.forget()
        torch.autograd.backward(loss)
        self._plan.descent.step()
        self._batch.step.add_(1)
        self._loss.add_(loss.detach())

    def _capture(self, aside: torch.cuda.Stream) -> torch.cuda.CUDAGraph:
        """Record one step. Its kernels are chosen here, and only ones that repeat."""
        with repeating():
            return self._record(aside)

    def _record(self, aside: torch.cuda.Stream) -> torch.cuda.CUDAGraph:
        aside.wait_stream(torch.cuda.current_stream())
        before = torch.cuda.get_rng_state()
        with torch.cuda.stream(aside):
            for _ in range(_N_WARMUP_STEPS):
                self._run_step()
                self._batch.step.zero_()
        torch.cuda.synchronize()
        if not torch.equal(before, torch.cuda.get_rng_state()):
            raise ArgumentError(
                "model",
                "must draw its random numbers by PyTorch's operations on CUDA, got "
                "some that a kernel draws; train it on the CPU",
            )
        graph = torch.cuda.CUDAGraph()
        # PyTorch has one cuBLAS workspace a stream. Graphs recorded on one stream share
        # it, and replayed side by side, as replicas are, they would write over each
        # other's sums. So each has a stream of its own, on which nothing ran before:
        # its workspace then is the graph's own memory.
        with torch.cuda.graph(graph, stream=self.stream):
            self._run_step()
        self._plan.descent.end_recording()
        return graph

    def train(
        self,
        start: Start,
        examples: Tensor,
        n_steps: int,
        rate: float,
        stream: Stream,
    ) -> Iterator[None]:
        """Queue a client's training on this replica's stream, a step at a time.

        Args:
            start: What it begins with.
            examples: Of all its steps.
            n_steps: How many steps.
            rate: The learning rate.
            stream: What its layers draw.
        """
        with torch.cuda.stream(self.stream):
            self.model.parameters.copy_(start.parameters)
            self.model.statistics.copy_(start.statistics)
            self._plan.descent.begin()
            for counter, first in self._counters:
                counter.copy_(first)
            self._batch.order[: len(examples)].copy_(examples)
            self._batch.step.zero_()
            self._loss.zero_()
            self._rate.fill_(rate)
            if self._numbers is not None:
                self._numbers.set_key(stream)
        for _ in range(n_steps):
            with torch.cuda.stream(self.stream):
                self._graph.replay()
            yield

    def changes(self, start: Start) -> tuple[Tensor, Tensor, Tensor]:
        """Return update, statistics and summed loss of the training just queued."""
        with torch.cuda.stream(self.stream):
            update = start.parameters - self.model.parameters
            statistics = start.statistics - self.model.statistics
            return update, statistics, self._loss.clone()


def _forget_batch_counts(module: nn.Module) -> None:
    """Let batch norm count no batches where it does not read the count.

    It is one launch per layer and step, for a number that a replica does not use.
    """
    for each in module.modules():
        is_norm = isinstance(each, nn.modules.batchnorm._NormBase)
        if is_norm and each.momentum is not None:
            each.register_buffer("num_batches_tracked", None)
