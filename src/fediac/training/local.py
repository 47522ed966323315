"""Local training on any device: which examples, and which results."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from fediac.core.rng import Stream
from fediac.training.datasets import Dataset, Examples
from fediac.training.local_settings import LocalSettings


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
    """Return the examples of every step, one row of int64 per step.

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
    """The result of one client's training.

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
    """Statistics that one client's normalizations measured in the global model.

    Attributes:
        statistics: Running statistics, those that are not measured as they were.
        n_examples: Examples it showed to the model.
    """

    statistics: Tensor
    n_examples: int


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The quality of a model on the test set."""

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
        """Return the quality of the current global model."""
        ...
