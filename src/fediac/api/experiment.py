"""Federated learning with a user's own model and data, in a few lines of Python."""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fediac.api.arguments import (
    check_clients,
    check_settings,
    make_algorithm,
    make_module,
)
from fediac.compressors import Compressor
from fediac.core.integers import as_whole
from fediac.core.ledger import PAYLOAD
from fediac.partition import iid
from fediac.plan.networks import NetworkSetting, make_network
from fediac.sim import Network, simulate_round
from fediac.switch import Switch
from fediac.training.engines import make_engine
from fediac.training.federation import Federation, Statistics
from fediac.training.local_settings import LocalSettings
from fediac.training.models import draw_weights
from fediac.training.own_data import Pair, dataset_of
from fediac.transports import RoundFacts


@dataclass(frozen=True, slots=True)
class RoundReport:
    """The results of a round.

    Attributes:
        payload_mib: All that was sent and received so far, as the paper counts.
        time_s: Simulated seconds so far.
        facts: The round's numbers: entries chosen, width, error.
    """

    round_number: int
    accuracy: float
    loss: float
    payload_mib: float
    time_s: float
    facts: RoundFacts


class Experiment:
    """Clients that train a model together through a switch.

    Args:
        model: Makes the model. All clients get its initial weights, and what PyTorch
            draws for them depends on ``seed``.
        train: Inputs and labels, NumPy arrays or tensors. Inputs of uint8 are images
            and get normalized; other whole numbers reach the model as int64, all else
            as float32.
        test: The same, to measure accuracy on.
        compressor: The algorithm, for example
            ``fediac.FediAC(10, n_votes="5%", threshold=2)``, or a function that makes
            it for so many parameters. Its ``n_clients`` is the number of clients.
        clients: For each client the numbers of its training examples, as
            `fediac.partition` gives them; by default ``partition.iid`` with ``seed``.
        local: How a client trains between two rounds; by default as in a settings
            file without ``[train]``.
        network: What a round's time is simulated on; by default the paper's fast
            switch and traces, as in a file without ``[network]``.
        statistics: Batch norm's running statistics: ``average``, ``local``, or
            ``recalibrate``, see `Federation`. Sparse algorithms are scored better early
            on when they are recalibrated.
        seed: Seed for everything random.
        device: ``cpu``, ``cuda``, or ``auto``: the GPU when there is one.
    """

    def __init__(  # noqa: PLR0913 - made once, settings by name
        self,
        model: Callable[[], nn.Module],
        train: Pair,
        test: Pair,
        *,
        compressor: Compressor | Callable[[int], Compressor],
        clients: Sequence[NDArray[np.int64]] | None = None,
        local: LocalSettings | None = None,
        network: Network | None = None,
        statistics: Statistics = "average",
        seed: int = 1,
        device: str = "auto",
    ) -> None:
        check_settings(local, network, statistics=statistics, seed=seed, device=device)
        dataset = dataset_of(train, test)
        with draw_weights(seed):
            initial = make_module(model)
        dim = sum(each.numel() for each in initial.parameters() if each.requires_grad)
        self._compressor = make_algorithm(compressor, dim)
        n_clients = self._compressor.n_clients
        if clients is None:
            clients = iid(dataset.train.labels, n_clients, seed=seed)
        clients = check_clients(
            clients, n_clients=n_clients, n_examples=len(dataset.train.labels)
        )
        local = LocalSettings() if local is None else local
        self._engine = make_engine(
            lambda: copy.deepcopy(initial),
            dataset,
            clients,
            local,
            seed=seed,
            on_cuda=torch.cuda.is_available() and device != "cpu",
        )
        self._federation = Federation(
            engine=self._engine,
            model=self._engine.model,
            n_clients=n_clients,
            n_participants=n_clients,
            rate=local.rate,
            seed=seed,
            switch=Switch(),
            statistics=statistics,
        )
        self._network = network or make_network(
            NetworkSetting(), n_clients=n_clients, threshold=1, seed=seed
        )
        self._seed = seed
        self._progress = self._federation.start()
        self._payload_mib = self._time_s = 0.0

    @property
    def module(self) -> nn.Module:
        """The global model; after `run` it is the trained one."""
        return self._engine.model.module

    def run(self, n_rounds: int) -> Iterator[RoundReport]:
        """Return an iterator that runs one round per step and yields its report.

        Called again, it goes on where the last one stopped.
        """
        as_whole("n_rounds", n_rounds, at_least=1)
        return self._rounds(n_rounds)

    def _rounds(self, n_rounds: int) -> Iterator[RoundReport]:
        for _ in range(n_rounds):
            done = self._federation.run_round(self._progress, self._compressor)
            self._progress = done.progress
            self._payload_mib += done.ledger.traffic(PAYLOAD).payload_mib
            self._time_s += simulate_round(
                done.ledger,
                self._network,
                seed=self._seed,
                round_number=done.progress.round_number,
                start_s=self._time_s,
                pauses=done.pauses,
            ).round_s
            yield RoundReport(
                round_number=done.progress.round_number,
                accuracy=done.evaluation.accuracy,
                loss=done.evaluation.loss,
                payload_mib=self._payload_mib,
                time_s=self._time_s,
                facts=done.result.facts,
            )
