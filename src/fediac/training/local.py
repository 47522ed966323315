"""Local training, whatever it runs on: how long, how fast, on which examples."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from fediac.core.rng import Stream
from fediac.training.datasets import Dataset, Examples

_MAX_LR = float(np.finfo(np.float32).max)


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """How a client trains between two rounds.

    Attributes:
        epochs: Passes over the client's examples; ignored when ``steps`` is given.
        steps: Mini-batches instead.
        batch_size: Examples of a step.
        lr: Learning rate of plain SGD at round 0.
        lr_decay: The rate at round t is ``lr / (1 + sqrt(t) / lr_decay)``; 0: constant.
    """

    epochs: int = 5
    steps: int | None = None
    batch_size: int = 50
    lr: float = 0.1
    lr_decay: float = 40.0

    def __post_init__(self) -> None:
        for name, value in (("epochs", self.epochs), ("batch_size", self.batch_size)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if self.steps is not None and self.steps < 1:
            raise ValueError(f"steps must be at least 1, got {self.steps}")
        if not 0.0 < self.lr < math.inf:
            raise ValueError(f"lr must be finite and above 0, got {self.lr}")
        if self.lr > _MAX_LR:
            raise ValueError(
                f"lr must be at most {_MAX_LR:.3g} (float32), got {self.lr}"
            )
        if not 0.0 <= self.lr_decay < math.inf:
            raise ValueError(
                f"lr_decay must be finite and at least 0, got {self.lr_decay}"
            )

    def rate(self, round_number: int) -> float:
        """Return the learning rate of a round, counted from 1 (paper, Sec. V-A).

        Without a decay, 0, it is the same in all rounds.
        """
        if not self.lr_decay:
            return self.lr
        return self.lr / (1.0 + math.sqrt(round_number) / self.lr_decay)

    def n_steps(self, n_examples: int) -> int:
        """Return how many mini-batches a client with ``n_examples`` takes."""
        if self.steps is not None:
            return self.steps
        return -(-self.epochs * n_examples // min(self.batch_size, n_examples))


def normalize(examples: Examples, dataset: Dataset) -> tuple[Tensor, Tensor]:
    """Return inputs, images as float32 with channels last, and labels.

    Bytes are pixels and get normalized; other numbers are used as they are.
    """
    labels = torch.from_numpy(examples.labels)
    pixels = torch.from_numpy(examples.images)
    if pixels.dtype != torch.uint8:
        return pixels, labels
    pixels = pixels.to(torch.float32)
    mean = torch.tensor(dataset.mean).view(1, -1, 1, 1)
    std = torch.tensor(dataset.std).view(1, -1, 1, 1)
    pixels = (pixels / 255.0 - mean) / std
    images = pixels.contiguous(memory_format=torch.channels_last)
    return images, labels


def draw_batches(n_examples: int, settings: LocalSettings, stream: Stream) -> Tensor:
    """Return the examples of every step, one row of int64 a step.

    Shuffled epochs follow each other without a gap: every batch is full, and over the
    epochs each example comes up equally often. Only the last batch may reach into one
    more epoch. A client with fewer examples than a batch uses all of them.
    """
    n_steps = settings.n_steps(n_examples)
    size = min(settings.batch_size, n_examples)
    words = stream.purpose("batches").words(0, 4, like=np.zeros(0))
    generator = np.random.default_rng(words.astype(np.uint32))
    n_epochs = -(-n_steps * size // n_examples)
    order = np.concatenate([generator.permutation(n_examples) for _ in range(n_epochs)])
    return torch.from_numpy(order[: n_steps * size].reshape(n_steps, size))


@dataclass(frozen=True, slots=True)
class LocalResult:
    """What one client's training gives the round.

    Attributes:
        update: Parameters before minus after.
        statistics: Running statistics before minus after; empty without any.
        loss: Mean training loss over its steps.
        n_examples: Examples the client has.
        n_trained: Examples it trained on, repeats counted.
    """

    update: Tensor
    statistics: Tensor
    loss: float
    n_examples: int
    n_trained: int


@dataclass(frozen=True, slots=True)
class Measured:
    """What one client's normalizations saw in the global model.

    Attributes:
        statistics: Running statistics, those that are not measured as they were.
        n_examples: Examples it showed to the model.
    """

    statistics: Tensor
    n_examples: int


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How good a model is on the test set."""

    accuracy: float
    loss: float


class Engine(Protocol):
    """Trains clients and evaluates models on some device."""

    def train(
        self,
        clients: list[int],
        *,
        round_number: int,
        rate: float,
        statistics: Mapping[int, Tensor] | None = ...,
        client_done: Callable[[], None] = ...,
    ) -> list[LocalResult]:
        """Return each client's result, all starting from the current global model.

        Args:
            clients: Who trains.
            round_number: Tells the batches of rounds apart.
            rate: Learning rate.
            statistics: Each client's, where it has its own instead of the global ones.
            client_done: Called when a client has finished; from any thread.
        """
        ...

    def recalibrate(self, clients: list[int], *, round_number: int) -> list[Measured]:
        """Return what each client's normalizations see in the current global model.

        Args:
            clients: Who measures, each on some of its own examples.
            round_number: Tells the examples of rounds apart.
        """
        ...

    def evaluate(self) -> Evaluation:
        """Return how good the current global model is."""
        ...
