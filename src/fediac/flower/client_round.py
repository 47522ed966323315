"""A client's round: what is learned, and batch norm's statistics beside it.

Both are rounds of a compressor of their own. They run side by side, so that statistics
take no message round more: step by step, the exchanges of both travel together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fediac.compressors import FedAvg, SwitchML
from fediac.compressors.protocol import Compressor, Outcome, State
from fediac.compressors.weighted import Weighted, agreed_factor
from fediac.core.exchange import Exchange, ServerSum, Totals
from fediac.core.rng import Stream
from fediac.errors import RemoteProtocolError
from fediac.sessions.messages import Step
from fediac.sessions.replay import Replay
from fediac.transports.forms import Form
from fediac.transports.statistics import STATISTICS_BITS, STATISTICS_PHASE


@dataclass(frozen=True, slots=True)
class Trained:
    """What training has changed.

    Attributes:
        learned: What the compressor gets.
        statistics: The change of running statistics; None: there are none.
    """

    learned: Any
    statistics: Any | None = None

    @classmethod
    def nothing(cls, form: Form) -> "Trained":
        """Return the update of who adds nothing."""
        zeros = [
            np.zeros_like(form.flatten(form.like, keys)) if keys else None
            for keys in (form.learned, form.statistics)
        ]
        return cls(*zeros)

    @classmethod
    def between(cls, form: Form, after: Any) -> "Trained":  # noqa: ANN401 - arrays
        """Return the update of a model that was trained from the form's own."""
        arrays = form.read(0, after)
        updates = [
            form.flatten(form.like, keys) - form.flatten(arrays, keys) if keys else None
            for keys in (form.learned, form.statistics)
        ]
        return cls(*updates)


@dataclass(frozen=True, slots=True)
class Place:
    """Who runs a round.

    Attributes:
        seed: The job's.
        round_number: Which round.
        client: The client's number in it.
        n_members: How many are counted, for statistics.
    """

    seed: int
    round_number: int
    client: int
    n_members: int


class PairRun:
    """A round of both, fed with answers step by step.

    Args:
        compressor: For what is learned.
        trained: This client's update.
        state: What it keeps between rounds.
        place: Who it is.
        weight: How much it counts: clients agree on the sum of all weights first, and
            statistics wait for that; None: all count alike.
    """

    def __init__(
        self,
        compressor: Compressor,
        trained: Trained,
        state: State,
        place: Place,
        weight: int | None = None,
    ) -> None:
        if weight is not None:
            compressor = Weighted(compressor, weight)
        self.compressor = compressor
        stream = Stream(place.seed, place.round_number, place.client)
        self._learned = Replay(compressor.run_round(trained.learned, state, stream))
        self._statistics, self._place = trained.statistics, place
        self._beside: Replay | None = None
        self._weight = weight
        if weight is None:
            self._begin_beside(1.0)

    def _begin_beside(self, factor: float) -> None:
        """Run the round of statistics, once it is known how much they count."""
        if self._statistics is None:
            return
        place = self._place
        beside = _for_statistics(self._learned.asked, place.n_members)
        stream = Stream(place.seed, place.round_number, place.client, STATISTICS_PHASE)
        changes = self._statistics * factor
        self._beside = Replay(beside.run_round(changes, State(), stream))

    @property
    def asked(self) -> tuple[Exchange, ...]:
        """What is asked next, of both; nothing: the round is over."""
        beside = self._beside.asked if self._beside else ()
        return (*self._learned.asked, *beside)

    @property
    def n_learned(self) -> int:
        """How many of these are the compressor's."""
        return len(self._learned.asked)

    @property
    def is_over(self) -> bool:
        """Whether all answers are here."""
        return not self.asked

    @property
    def outcome(self) -> Outcome:
        """The outcome for what is learned; the round must be over."""
        return _require(self._learned.outcome)

    def feed(self, step: Step) -> None:
        """Go on with the answers to what was asked."""
        if self._weight is not None:
            self._learned.feed(step)
            self._begin_beside(self._factor(self._weight, step))
            self._weight = None
            return
        n_learned = self.n_learned
        if n_learned:
            self._learned.feed(step[:n_learned])
        if self._beside is not None and self._beside.asked:
            self._beside.feed(step[n_learned:])

    def _factor(self, weight: int, step: Step) -> float:
        """Return what the clients' agreement on weights makes of this one's."""
        (totals,) = step
        if not isinstance(totals, Totals):
            raise RemoteProtocolError("clients must agree on their weights first")
        return agreed_factor(weight, totals, n_clients=self.compressor.n_clients)

    def feed_all(self, steps: Sequence[Step]) -> None:
        """Go on with the answers of several steps."""
        for step in steps:
            self.feed(step)

    def mean(self, form: Form) -> dict[Any, Any]:
        """Return the mean update, by the keys of the arrays that take part."""
        like = form.flatten(form.like, form.learned)
        parts = dict(form.split(self.outcome.mean.dense(like), form.learned))
        if self._beside is not None:
            like = form.flatten(form.like, form.statistics)
            mean = _require(self._beside.outcome).mean.dense(like)
            parts |= form.split(mean, form.statistics)
        return parts


def _require(outcome: Outcome | None) -> Outcome:
    if outcome is None:
        raise RuntimeError("a round must be over before its outcome is used")
    return outcome


def _for_statistics(asked: Sequence[Exchange], n_members: int) -> Compressor:
    """Return what adds statistics: where values go, they go, too."""
    if all(isinstance(each, ServerSum) for each in asked):
        return FedAvg(n_members)
    return SwitchML(n_members, bits=STATISTICS_BITS, residual=False)
