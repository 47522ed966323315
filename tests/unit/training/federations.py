"""Federations of tiny models on a CPU, and rounds of them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from torch import nn

from fediac.compressors import Compressor, FedAvg
from fediac.switch import Switch
from fediac.training.cpu import CpuEngine
from fediac.training.federation import FederatedRound, Federation
from fediac.training.local_settings import LocalSettings
from fediac.training.models import Shape
from tests.tiny import OneAlgorithm, normed_model, seeded, tiny_dataset

DATA = tiny_dataset()
N, DIM = 4, 483
"""Clients, and parameters of the model with batch norm."""

Make = Callable[..., OneAlgorithm]


@contextmanager
def federations() -> Iterator[Make]:
    """Give what makes federations, and close their engines in the end."""
    engines: list[CpuEngine] = []

    def make(  # a test says what it is about, and leaves the rest
        compressor: Compressor | None = None,
        model: Callable[[Shape, int], nn.Module] = normed_model,
        n_participants: int | None = None,
        shares: Sequence[Any] | int = N,
        batch_size: int = 8,
        lr: float = 0.1,
        n_at_once: int = 2,
        **settings: Any,
    ) -> OneAlgorithm:
        if isinstance(shares, int):
            shares = np.array_split(np.arange(len(DATA.train)), shares)
        local = LocalSettings(steps=2, batch_size=batch_size, lr=lr)
        engine = CpuEngine(
            lambda: seeded(model), DATA, shares, local, seed=5, n_at_once=n_at_once
        )
        engines.append(engine)
        n = n_participants or len(shares)
        federation = Federation(
            engine=engine,
            model=engine.model,
            n_clients=len(shares),
            n_participants=n,
            rate=local.rate,
            seed=5,
            switch=Switch(),
            **settings,
        )
        return OneAlgorithm(federation, compressor or FedAvg(n))

    yield make
    for engine in engines:
        engine.close()


def run_rounds(federation: OneAlgorithm, n_rounds: int) -> list[FederatedRound]:
    rounds: list[FederatedRound] = []
    progress = federation.start()
    for _ in range(n_rounds):
        rounds.append(federation.run_round(progress))
        progress = rounds[-1].progress
    return rounds
