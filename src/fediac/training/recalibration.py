"""Batch norm's statistics, measured again on the new global model.

The running statistics that clients end their training with are those of their own
models. With sparse updates the global model is another one, and is scored below what it
can do. So after a round's mean is applied, clients run the new global model on some of
their own examples, and average what its normalizations see.

Variances are averaged like means. Pooled over clients they would count how far apart
the clients' means are, too; clients normalize without that when they train. On digits
dealt out unevenly both score the same to 0.4 points, and averages have the lower loss.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction

import numpy as np
import torch
from torch import Tensor, nn

from fediac.core.rng import Stream
from fediac.training.flat_model import FlatModel

MAX_EXAMPLES = 250
"""Examples of its own that a client shows to the new global model."""

_Norm = nn.modules.batchnorm._NormBase


def draw_examples(n_examples: int, batch_size: int, stream: Stream) -> Tensor:
    """Return the examples that a client measures on, one row of int64 per batch.

    Every batch is full, as in training; what is left over is not used. A client with
    fewer examples than a batch uses all of them.
    """
    n_most = min(MAX_EXAMPLES, n_examples)
    size = min(batch_size, n_most)
    words = stream.words(0, 4, like=np.zeros(0))
    generator = np.random.default_rng(words.astype(np.uint32))
    order = generator.permutation(n_examples)[: n_most - n_most % size]
    return torch.from_numpy(order.reshape(-1, size))


def share_of_training(n_measured: int, n_trained: int) -> Fraction:
    """Return how long measuring takes, as a share of the client's local training.

    A training step goes through the model and back, which takes twice as long again.
    """
    return Fraction(n_measured, 3 * n_trained)


def find_measured(model: FlatModel) -> Tensor:
    """Return which entries of the statistics are measured, as a mask."""
    is_measured = torch.zeros_like(model.statistics, dtype=torch.bool)
    for layer in _normalizations(model.module):
        for buffer in (layer.running_mean, layer.running_var):
            if buffer is not None:
                first = int(buffer.storage_offset())
                is_measured[first : first + buffer.numel()] = True
    return is_measured


@torch.no_grad()
def measure(model: FlatModel, batches: Iterable[Tensor]) -> Tensor:
    """Return the statistics of ``model`` with what its normalizations see in batches.

    They normalize by the batch, and average over batches what they see in them; all
    other layers do as when the model is tested.
    """
    model.module.eval()
    with _averaging(_normalizations(model.module)):
        for inputs in batches:
            model.module(inputs)
    return model.statistics.clone()


def _normalizations(module: nn.Module) -> list[_Norm]:
    """Return the layers that keep statistics of what they normalize."""
    return [
        each
        for each in module.modules()
        if isinstance(each, _Norm) and each.running_mean is not None
    ]


@contextmanager
def _averaging(layers: list[_Norm]) -> Iterator[None]:
    """Let layers normalize by the batch, and average their statistics over batches.

    PyTorch's own way to ask for that, a momentum of None, is not known to all of these
    layers, and counts batches on the device.
    """
    momenta = [each.momentum for each in layers]
    hooks = [each.register_forward_pre_hook(_Weigh()) for each in layers]
    try:
        for each in layers:
            each.training = True  # of the layer alone: there may be others inside it
        yield
    finally:
        for each, momentum, hook in zip(layers, momenta, hooks, strict=True):
            hook.remove()
            each.momentum = momentum
            each.training = False


class _Weigh:
    """A hook that lets a layer's k-th batch move its averages by 1/k."""

    def __init__(self) -> None:
        self._n_seen = 0

    def __call__(self, layer: _Norm, _: object) -> None:
        self._n_seen += 1
        layer.momentum = 1.0 / self._n_seen
