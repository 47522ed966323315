"""Error feedback: a client keeps what it did not send for its next update.

This part of a round is the same for every algorithm that has it, so it stands here
once: a round begins with update + residual, the algorithm compresses that, and what it
leaves is the next residual. The sum is written where the next residual goes, and the
algorithm turns it into what was not sent in place: memory is passed over once.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from numbers import Real

from fediac.compressors.protocol import Round, State
from fediac.compressors.settings import check_flag, check_numbers
from fediac.compressors.shared_steps import begin
from fediac.core.corrected import Corrected
from fediac.core.rng import Stream
from fediac.core.types import Update
from fediac.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class ErrorFeedback(ABC):
    """Base class whose clients keep what they do not send; subclasses ``compress``.

    Attributes:
        n_clients: Clients of the round.
        residual: Keep what is not sent, for the next round.
        fade: Share of the residual that is forgotten in every round that a client takes
            part in, at least 0 and below 1. Entries on which clients never agree are
            then not kept forever.
    """

    n_clients: int
    residual: bool = field(default=True, kw_only=True)
    fade: float = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        check_numbers(self)
        check_flag("residual", self.residual)
        if isinstance(self.fade, bool) or not isinstance(self.fade, Real):
            raise TypeError(f"fade must be a number, got {self.fade!r}")
        if not 0.0 <= float(self.fade) < 1.0:  # nor is NaN
            rule = f"must be at least 0 and below 1, got {self.fade}"
            raise ArgumentError("fade", rule)
        if self.fade and not self.residual:
            rule = f"must be 0 without a residual, got {self.fade}"
            raise ArgumentError("fade", rule)

    def check_dim(self, dim: int) -> None:  # noqa: B027 - most have no rule
        """Raise unless updates may have this many entries; nothing is written yet."""

    @abstractmethod
    def compress(
        self, corrected: Corrected, state: State, stream: Stream, kept: Update | None
    ) -> Round:
        """Yield exchanges; return the mean update, the next state and the facts.

        Args:
            corrected: Update + residual, and what is known of it.
            state: What the client keeps beside its residual; what the algorithm does
                not change it returns as it is.
            stream: Randomness of this client and round.
            kept: The corrected update's values, to be turned into what was not sent;
                None: it is not kept, and the values must be left alone.
        """

    def run_round(
        self, update: Update, state: State, stream: Stream, *, out: Update | None = None
    ) -> Round:
        """Compress the corrected update; what is left is the next residual."""
        self.check_dim(update.shape[0])
        corrected = begin(update, state, stream, keeps_residual=self.residual, out=out)
        kept = corrected.values if self.residual else None
        others = replace(state, residual=None)
        outcome = yield from self.compress(corrected, others, stream, kept)
        if kept is not None and self.fade:
            kept *= 1.0 - self.fade
        return replace(outcome, state=replace(outcome.state, residual=kept))
