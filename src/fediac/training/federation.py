"""Rounds of federated learning: train locally, aggregate, apply, evaluate.

Batch norm's running statistics travel after the totals; where they are measured again,
clients do so in between, on the new global model.

Everything a round needs beside the seed is in `Progress`, so a run can stop after any
round and go on from there to the same bits.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from fediac.compressors import Compressor, State
from fediac.compressors.weighted import weight_factors
from fediac.core.ledger import Ledger
from fediac.core.rng import Stream
from fediac.errors import NotFiniteError
from fediac.sim import Pause
from fediac.switch import Switch
from fediac.training.flat_model import FlatModel
from fediac.training.local import Engine, Evaluation, LocalResult, Measured
from fediac.training.recalibration import find_measured, share_of_training
from fediac.transports.protocol import SwitchElsewhere
from fediac.transports.statistics import STATISTICS_PHASE, average_statistics, weigh
from fediac.transports.vectors import RoundResult, aggregate_vectors

StatisticsRule = Literal["average", "local", "recalibrate"]
"""What becomes of batch norm's running statistics, see `Federation`."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a run, from which the next round starts.

    Attributes:
        round_number: Rounds done.
        parameters: The global model, flat.
        statistics: Its running statistics, flat; a mean over clients.
        states: What every client keeps between rounds.
        own_statistics: Every client's own running statistics, where they stay local.
    """

    round_number: int
    parameters: Tensor
    statistics: Tensor
    states: tuple[State, ...]
    own_statistics: tuple[Tensor, ...] = ()


@dataclass(frozen=True, slots=True)
class FederatedRound:
    """One round's results.

    Attributes:
        clients: Who took part.
        trained: What each of them trained.
        ledger: All that was sent, statistics included.
        train_loss: Mean over clients.
        train_s: Seconds that local training took here, and measuring statistics.
        compress_s: Seconds that aggregation took here.
        pauses: What clients computed between exchanges.
    """

    progress: Progress
    clients: tuple[int, ...]
    trained: tuple[LocalResult, ...]
    result: RoundResult
    ledger: Ledger
    evaluation: Evaluation
    train_loss: float
    train_s: float
    compress_s: float
    evaluate_s: float
    pauses: tuple[Pause, ...] = ()


@dataclass(frozen=True, slots=True)
class Federation:
    """Clients that train, and a switch.

    Attributes:
        engine: Trains and evaluates.
        model: The engine's global model.
        n_clients: All clients there are.
        n_participants: Clients drawn for a round.
        rate: Round number -> learning rate.
        seed: The run's seed.
        switch: Where sums are made.
        statistics: What happens to batch norm's running statistics. ``average``: every
            round, over the switch where the algorithm uses it. ``recalibrate``: the
            same, with what clients measure on the new global model instead of what
            their training left. ``local``: each client keeps its own, and nothing is
            sent: local batch norm as in FedBN, but its weights are averaged like all
            others. Models are evaluated with the mean of those who took part, which is
            then no client's own.
        weights: How much each client counts in means over the switch, of its update and
            of its statistics; None: all the same, as in the paper.
    """

    engine: Engine
    model: FlatModel
    n_clients: int
    n_participants: int
    rate: Callable[[int], float]
    seed: int
    switch: Switch | SwitchElsewhere
    statistics: StatisticsRule = "average"
    weights: tuple[int, ...] | None = None

    def start(self) -> Progress:
        """Return the progress before the first round: the model's initial weights."""
        statistics = self.model.statistics.clone()
        keeps_own = statistics.numel() and self.statistics == "local"
        return Progress(
            round_number=0,
            parameters=self.model.parameters.clone(),
            statistics=statistics,
            states=(State(),) * self.n_clients,
            own_statistics=(statistics,) * self.n_clients if keeps_own else (),
        )

    def load(self, progress: Progress) -> None:
        """Give the engine's model the weights and statistics of ``progress``."""
        self.model.parameters.copy_(progress.parameters)
        self.model.statistics.copy_(progress.statistics)

    def run_round(
        self,
        progress: Progress,
        compressor: Compressor,
        *,
        client_done: Callable[[], None] = lambda: None,
    ) -> FederatedRound:
        """Return the results of one more round.

        Args:
            progress: Where the run is.
            compressor: The algorithm of the round.
            client_done: Called when a client has finished its training.

        Raises:
            NotFiniteError: Training diverged: a client's update is not finite.
        """
        start = time.perf_counter()
        trained = self._train(progress, client_done)
        after_training = time.perf_counter()
        with _blamed_on_training():
            result = self._aggregate(trained, progress, compressor)
            after = replace(progress, parameters=progress.parameters - result.mean)
            before_measuring = time.perf_counter()
            measured = self._recalibrate(trained, after)
            measure_s = time.perf_counter() - before_measuring
            changes = self._statistics_changes(trained, measured)
            after, ledger = self._average_statistics(changes, after, result.ledger)
        number = progress.round_number + 1
        after = replace(after, round_number=number, states=result.states)
        after_compression = time.perf_counter()
        self.load(after)
        evaluation = self.engine.evaluate()
        done = time.perf_counter()
        return FederatedRound(
            progress=after,
            clients=tuple(trained),
            trained=tuple(trained.values()),
            result=result,
            ledger=result.ledger.then(ledger),
            evaluation=evaluation,
            train_loss=sum(each.loss for each in trained.values()) / len(trained),
            train_s=after_training - start + measure_s,
            compress_s=after_compression - after_training - measure_s,
            evaluate_s=done - after_compression,
            pauses=_pauses(trained, measured),
        )

    def draw_clients(self, round_number: int) -> tuple[int, ...]:
        """Return the clients that take part in a round, ascending."""
        if self.n_participants == self.n_clients:
            return tuple(range(self.n_clients))
        stream = Stream(self.seed, round_number, 0).purpose("participation")
        words = stream.words(0, self.n_clients, like=torch.zeros(0))
        order = sorted(range(self.n_clients), key=lambda i: (int(words[i]), i))
        return tuple(sorted(order[: self.n_participants]))

    def factors(self, clients: Iterable[int]) -> dict[int, float]:
        """Return what the updates of those who take part are multiplied by."""
        if self.weights is None:
            return dict.fromkeys(clients, 1.0)
        return weight_factors({client: self.weights[client] for client in clients})

    def _train(
        self, progress: Progress, client_done: Callable[[], None]
    ) -> dict[int, LocalResult]:
        number = progress.round_number + 1
        clients = self.draw_clients(number)
        self.load(progress)
        results = self.engine.train(
            list(clients),
            round_number=number,
            rate=self.rate(number),
            statistics=dict(enumerate(progress.own_statistics)) or None,
            client_done=client_done,
        )
        return dict(zip(clients, results, strict=True))

    def _aggregate(
        self,
        trained: Mapping[int, LocalResult],
        progress: Progress,
        compressor: Compressor,
    ) -> RoundResult:
        number = progress.round_number + 1
        updates = {client: each.update for client, each in trained.items()}
        return aggregate_vectors(
            self._of_everyone(updates),
            compressor,
            switch=self.switch,
            seed=self.seed,
            round_number=number,
            weights=self.weights,
            states=progress.states,
        )

    def _recalibrate(
        self, clients: Iterable[int], progress: Progress
    ) -> dict[int, Measured]:
        """Return what clients measure on the model of ``progress``, if they do."""
        if self.statistics != "recalibrate" or not find_measured(self.model).any():
            return {}
        self.load(progress)
        order = list(clients)
        number = progress.round_number + 1
        measured = self.engine.recalibrate(order, round_number=number)
        return dict(zip(order, measured, strict=True))

    def _statistics_changes(
        self, trained: Mapping[int, LocalResult], measured: Mapping[int, Measured]
    ) -> dict[int, Tensor]:
        """Return the change of each client's statistics; of measured ones, to these."""
        changes = {client: each.statistics for client, each in trained.items()}
        if not measured:
            return changes
        is_measured = find_measured(self.model)
        for client, each in measured.items():
            change = self.model.statistics - each.statistics
            changes[client] = torch.where(is_measured, change, changes[client])
        return changes

    def _average_statistics(
        self, changes: Mapping[int, Tensor], progress: Progress, sent: Ledger
    ) -> tuple[Progress, Ledger]:
        """Return progress with the statistics after the round, and their cost.

        What travels is their change in the round, as a dense sum with its own peak,
        to where the round's values went (``sent``).
        """
        if not progress.statistics.numel():
            return progress, Ledger()
        if self.statistics == "local":
            return _keep_own(progress, changes), Ledger()
        result = average_statistics(
            weigh(self._of_everyone(changes), self.weights),
            sent=sent,
            switch=self.switch,
            seed=self.seed,
            round_number=progress.round_number + 1,
        )
        statistics = progress.statistics - result.mean
        # The grid is as coarse as the largest change of all: rounding may take a small
        # variance below zero, and there is no root of that.
        below_zero = self.model.variances & (statistics < 0.0)
        statistics = statistics.masked_fill(below_zero, 0.0)
        return replace(progress, statistics=statistics), result.ledger

    def _of_everyone(self, tensors: Mapping[int, Tensor]) -> list[Tensor | None]:
        """Return a list with an element per client, None for those that are absent."""
        return [tensors.get(client) for client in range(self.n_clients)]


def _pauses(
    trained: Mapping[int, LocalResult], measured: Mapping[int, Measured]
) -> tuple[Pause, ...]:
    """Return the time that clients take to measure statistics before they send them."""
    shares = {
        client: share_of_training(each.n_examples, trained[client].n_trained)
        for client, each in measured.items()
    }
    return (Pause(STATISTICS_PHASE, shares),) if shares else ()


@contextmanager
def _blamed_on_training() -> Iterator[None]:
    """Add what to do about updates that are not finite."""
    try:
        yield
    except NotFiniteError as error:
        raise NotFiniteError(
            f"{error}; training diverged, a lower learning rate (lr) may help"
        ) from error


def _keep_own(progress: Progress, changes: Mapping[int, Tensor]) -> Progress:
    """Return progress with the statistics of those that trained, and their mean."""
    own = list(progress.own_statistics)
    mean = torch.zeros_like(progress.statistics)
    for client, change in changes.items():
        own[client] = own[client] - change
        mean += own[client]
    return replace(progress, statistics=mean / len(changes), own_statistics=tuple(own))
