"""A round's generator, run from answers: while they come in, and again from a disk.

A compressor's round is deterministic: the same update, state and answers lead to the
same packets and the same outcome, which is why answers are all that must be kept.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from fediac.compressors.protocol import Compressor, Outcome, Round, State
from fediac.core.exchange import Exchange
from fediac.core.rng import Stream
from fediac.core.types import Update
from fediac.errors import LocalProtocolError
from fediac.sessions.messages import Step
from fediac.transports.exchange_checks import require_exchanges, require_outcome

OBSERVER = 0xFFFF
"""In place of a client's number, for the coordinator's own run of a round."""


class Recipe(Protocol):
    """How one member runs a round."""

    @property
    def keeps_residual(self) -> bool:
        """Whether what was not sent is added to the next update."""
        ...

    def begin(
        self, update: Update, state: State, *, round_number: int, client: int, n: int
    ) -> Round:
        """Return the round's generator, not started.

        Args:
            update: The client's; zeros for the observer.
            state: What the client keeps between rounds.
            round_number: Which round it is.
            client: The client's number, the same in all rounds.
            n: Clients of the session.
        """
        ...


@dataclass(frozen=True, slots=True)
class Compressing:
    """The usual recipe: one compressor, for as many clients as take part.

    Attributes:
        make: Number of clients -> the compressor.
        seed: The run's.
        keeps_residual: Whether the compressor adds what was not sent to the next
            update, as all of this package's do unless they are told not to.
    """

    make: Callable[[int], Compressor]
    seed: int
    keeps_residual: bool = True

    def begin(
        self, update: Update, state: State, *, round_number: int, client: int, n: int
    ) -> Round:
        """Return the compressor's round."""
        stream = Stream(self.seed, round_number, client)
        return self.make(n).run_round(update, state, stream)


class Replay:
    """A round that is fed the answers of one step after the other.

    Attributes:
        asked: The exchanges of this step; empty when the round is over.
        outcome: What the round returned, once it has.
    """

    def __init__(self, generator: Round) -> None:
        self._generator = generator
        self.asked: tuple[Exchange, ...] = ()
        self.outcome: Outcome | None = None
        self._run(None)

    def feed(self, step: Step) -> None:
        """Go on with the answers of this step."""
        self._run(step)

    def _run(self, step: Step | None) -> None:
        try:
            asked = (
                next(self._generator) if step is None else self._generator.send(step)
            )
        except StopIteration as stop:
            self.asked, self.outcome = (), require_outcome(stop.value)
            return
        self.asked = require_exchanges(asked)


def replay(generator: Round, steps: Sequence[Step]) -> Outcome:
    """Return the outcome of a round whose answers are all known."""
    run = Replay(generator)
    for step in steps:
        run.feed(step)
    if run.outcome is None:
        names = ", ".join(type(each).__name__ for each in run.asked)
        raise LocalProtocolError(
            f"the round needs more than the {len(steps)} steps that are known: {names}"
        )
    return run.outcome
