"""What clients minimize, how they step, and how models are scored.

By default that is cross entropy, plain SGD and the share of examples that are right.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Optimizer

from fediac.errors import ArgumentError
from fediac.training.local import Evaluation

Loss = Callable[[Tensor, Tensor], Tensor]
"""(outputs, targets) -> their mean loss."""

Metric = Callable[[Tensor, Tensor], Any]
"""(outputs, targets) -> how good they are, higher is better, 1 is perfect."""

MakeOptimizer = Callable[..., Optimizer]
"""(parameters, lr=...) -> what takes a client's steps in a round."""


@dataclass(frozen=True, slots=True)
class Task:
    """What is done with a model's outputs.

    Attributes:
        loss: What clients minimize, a mean over examples; None: cross entropy.
        optimizer: Makes what takes a client's steps, anew for each client and round: it
            is called with the parameters and ``lr``, like ``torch.optim.Adam``; None:
            plain SGD.
        metric: How good outputs on the whole test set are, at most 1; what is below 0
            counts as 0. None: the share of examples whose largest score is right.
    """

    loss: Loss | None = None
    optimizer: MakeOptimizer | None = None
    metric: Metric | None = None

    @property
    def is_plain(self) -> bool:
        """Whether all is as every engine has it."""
        return self == PLAIN

    def mean_loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of a batch."""
        return (self.loss or functional.cross_entropy)(outputs, targets)

    def make_optimizer(self, module: nn.Module, rate: float) -> Optimizer | None:
        """Return what takes a client's steps; None for plain SGD."""
        if self.optimizer is None:
            return None
        trained = [each for each in module.parameters() if each.requires_grad]
        optimizer = self.optimizer(trained, lr=rate)
        if not isinstance(optimizer, Optimizer):
            raise ArgumentError(
                "optimizer",
                "must make a torch.optim.Optimizer when called with parameters and lr, "
                f"got {type(optimizer).__name__}",
            )
        return optimizer

    def score(self, outputs: Sequence[Tensor], targets: Sequence[Tensor]) -> Evaluation:
        """Return how good a model is on its test set.

        Args:
            outputs: The model's, batch by batch.
            targets: What they should be.
        """
        n_examples = sum(map(len, targets))
        pairs = list(zip(outputs, targets, strict=True))
        loss = sum(self._total_loss(*pair) for pair in pairs) / n_examples
        if self.metric is None:
            n_right = sum(int((out.argmax(1) == to).sum()) for out, to in pairs)
            return Evaluation(accuracy=n_right / n_examples, loss=loss)
        value = self.metric(torch.cat(list(outputs)), torch.cat(list(targets)))
        share = _as_share(value)
        if share < 0.0 and self.metric is not r_squared:
            warnings.warn(
                "metric returned less than 0, which counts as 0; turn an error around, "
                "for instance into 1 / (1 + error)",
                stacklevel=2,
            )
        return Evaluation(accuracy=max(share, 0.0), loss=loss)

    def _total_loss(self, outputs: Tensor, targets: Tensor) -> float:
        if self.loss is None:
            return float(functional.cross_entropy(outputs, targets, reduction="sum"))
        return float(self.loss(outputs, targets)) * len(targets)


PLAIN = Task()
"""Cross entropy, plain SGD, accuracy."""


def r_squared(outputs: Tensor, targets: Tensor) -> float:
    """Return the share of the targets' variance that outputs explain (R²).

    1 is perfect, 0 is as good as the targets' mean; below that it is negative.
    """
    outputs, targets = outputs.double(), targets.double()
    left = float(((targets - outputs) ** 2).sum())
    spread = float(((targets - targets.mean(dim=0)) ** 2).sum())
    if not spread:
        return 1.0 if not left else 0.0
    return 1.0 - left / spread


def _as_share(value: Any) -> float:  # noqa: ANN401 - what a user's metric returns
    """Return what a metric says as a share of what could be reached, or less than 0.

    A model that diverged, whose metric may be NaN, is no better than none.
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ArgumentError(
            "metric", f"must return a number, got {type(value).__name__}"
        ) from None
    if number > 1.0:
        raise ArgumentError(
            "metric",
            f"must return at most 1 (perfect), got {number:g}; turn an error around, "
            "for instance into 1 / (1 + error)",
        )
    return 0.0 if math.isnan(number) else number
