"""Settings of local training, the same in Python and in a settings file."""

import math
from dataclasses import dataclass

from fediac.errors import ArgumentError

_MAX_LR = (2.0 - 2.0**-23) * 2.0**127
"""The largest float32."""


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """How a client trains between two rounds.

    Attributes:
        epochs: Passes over a client's examples in a round.
        steps: Mini-batches of a round instead of epochs.
        batch_size: Examples of a mini-batch.
        lr: Learning rate of plain SGD; at round t it is
            ``lr / (1 + sqrt(t) / lr_decay)``.
        lr_decay: How slowly the learning rate falls, a smaller one makes it fall
            faster; 0: it stays at ``lr``.
    """

    epochs: int = 1
    steps: int | None = None
    batch_size: int = 32
    lr: float = 0.1
    lr_decay: float = 20.0

    def __post_init__(self) -> None:
        for name in ("epochs", "steps", "batch_size"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ArgumentError(name, f"must be at least 1, got {value}")
        if not 0.0 < self.lr < math.inf:
            raise ArgumentError("lr", f"must be finite and above 0, got {self.lr}")
        if self.lr > _MAX_LR:
            rule = f"must be at most {_MAX_LR:.3g} (float32), got {self.lr}"
            raise ArgumentError("lr", rule)
        if not 0.0 <= self.lr_decay < math.inf:
            rule = f"must be finite and at least 0, got {self.lr_decay}"
            raise ArgumentError("lr_decay", rule)

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
