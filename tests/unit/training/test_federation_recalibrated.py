"""Rounds whose statistics are measured again on the new global model."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fediac.compressors import (
    Compressor,
    FedAvg,
    FediAC,
    Libra,
    OmniReduce,
    SwitchML,
    TopK,
)
from fediac.core.rng import Stream
from fediac.errors import NotFiniteError
from fediac.training.cpu import CpuEngine
from fediac.training.federation import FederatedRound
from fediac.training.flat_model import flatten_model
from fediac.training.local import normalize
from fediac.training.models import Shape
from fediac.training.recalibration import draw_examples
from tests.support import bytes_of, refuses
from tests.tiny import normed_model, seeded
from tests.unit.training.federations import (
    DATA,
    DIM,
    Make,
    N,
    federations,
    run_rounds,
)

BATCH_SIZE = 5
BY_LABEL = np.array_split(np.argsort(DATA.train.labels, kind="stable"), N)
"""Clients of a label or two each."""

COMPRESSORS: dict[str, Compressor] = {
    "fediac": FediAC(N, 50, 2, bits=9),
    "switchml": SwitchML(N, 12),
    "omnireduce": OmniReduce(N, 24, 10),
    "libra": Libra(N, 24, np.arange(0, DIM, 2)),
    "fedavg": FedAvg(N),
    "topk": TopK(N, 24),
}


def group_model(shape: Shape, n_classes: int) -> nn.Module:
    """Normalized by groups of channels, which keeps no statistics."""
    return nn.Sequential(
        nn.Conv2d(shape[0], 4, 3, padding=1),
        nn.GroupNorm(2, 4),
        nn.Flatten(),
        nn.Linear(4 * shape[1] * shape[2], n_classes),
    )


class Countdown(nn.Module):
    """A layer with a float of its own, which falls while it is trained."""

    left: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("left", torch.full((1,), 8.0))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the input."""
        if self.training:
            self.left -= 1.0
        return inputs


def counting_model(shape: Shape, n_classes: int) -> nn.Module:
    return nn.Sequential(Countdown(), normed_model(shape, n_classes))


def only_counting_model(shape: Shape, n_classes: int) -> nn.Module:
    return nn.Sequential(Countdown(), group_model(shape, n_classes))


def noisy_model(shape: Shape, n_classes: int) -> nn.Module:
    """Batch norm behind noise that is there in tests, too."""

    class Noise(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            return inputs + torch.rand_like(inputs)

    return nn.Sequential(Noise(), normed_model(shape, n_classes))


@pytest.fixture
def make() -> Iterator[Make]:
    with federations() as factory:
        yield partial(
            factory, shares=BY_LABEL, batch_size=BATCH_SIZE, statistics="recalibrate"
        )


def by_plain_pytorch(done: FederatedRound, client: int) -> Tensor:
    """What a client's normalization sees in the new global model."""
    model = flatten_model(seeded(normed_model))
    model.parameters.copy_(done.progress.parameters)
    norm = model.module[1]  # type: ignore[index] # a sequential
    norm.momentum = None
    images, _ = normalize(DATA.train, DATA)
    stream = Stream(5, done.progress.round_number, client).purpose("recalibration")
    mine = torch.from_numpy(BY_LABEL[client])
    model.module.train()
    with torch.no_grad():
        for rows in draw_examples(len(mine), BATCH_SIZE, stream):
            model.module(images[mine[rows]])
    return model.statistics


@pytest.mark.parametrize("name", COMPRESSORS)
def test_statistics_are_the_mean_of_what_clients_see_in_the_new_model(
    make: Make, name: str
) -> None:
    federation = make(COMPRESSORS[name])
    before = federation.start().statistics.double()
    for done in run_rounds(federation, 2):
        seen = torch.stack([by_plain_pytorch(done, i).double() for i in range(N)])
        # A lane of 24 bits: less than one step a client, N peak / (2^23 - N); floats:
        # the rounding of N additions and three operations more.
        size = float((before - seen).abs().max())
        step = 0.0 if name in ("fedavg", "topk") else N * size / (2**23 - N)
        allowed = step + (N + 3) * 2.0**-23 * max(1.0, float(seen.abs().max()))
        after = done.progress.statistics.double()
        assert float((after - seen.mean(dim=0)).abs().max()) <= allowed
        assert float(seen.std(dim=0).max()) > 100 * allowed  # clients differ
        before = after


@pytest.mark.parametrize("name", COMPRESSORS)
def test_all_but_the_statistics_is_as_when_they_are_averaged(
    make: Make, name: str
) -> None:
    done, plain = (
        run_rounds(make(COMPRESSORS[name], statistics=each), 2)[-1]
        for each in ("recalibrate", "average")
    )
    assert torch.equal(done.progress.parameters, plain.progress.parameters)
    assert str(done.ledger) == str(plain.ledger)  # block numbers are arrays
    assert done.train_loss == plain.train_loss
    assert not torch.equal(done.progress.statistics, plain.progress.statistics)
    assert done.progress.own_statistics == ()


def test_clients_take_a_third_of_a_training_step_for_each_batch(make: Make) -> None:
    federation = make()
    (pause,) = run_rounds(federation, 1)[0].pauses
    # 24 examples make four whole batches; training had two.
    assert pause.phase == "statistics"
    assert pause.shares == dict.fromkeys(range(N), Fraction(4, 3 * 2))


@pytest.mark.parametrize("statistics", ["average", "local"])
def test_other_modes_take_no_time(make: Make, statistics: str) -> None:
    assert run_rounds(make(statistics=statistics), 1)[0].pauses == ()


@pytest.mark.parametrize("n_participants", [1, 3])
def test_the_clients_of_the_round_measure(make: Make, n_participants: int) -> None:
    for done in run_rounds(make(n_participants=n_participants), 3):
        assert len(done.clients) == n_participants
        seen = torch.stack([by_plain_pytorch(done, i) for i in done.clients])
        torch.testing.assert_close(done.progress.statistics, seen.mean(dim=0))
        (pause,) = done.pauses
        assert tuple(pause.shares) == done.clients
        rows = done.ledger.select(phase="statistics").rows
        assert tuple(sorted({row.client for row in rows})) == done.clients


def test_models_without_batch_norm_pay_nothing(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(CpuEngine, "recalibrate")
    done = run_rounds(make(model=group_model), 1)[0]
    assert done.ledger.phases == ("server",)
    assert done.progress.statistics.shape == (0,)
    assert done.pauses == ()


def test_floats_that_are_no_statistics_are_averaged_as_trained(make: Make) -> None:
    done = run_rounds(make(model=counting_model), 1)[0]
    plain = run_rounds(make(model=counting_model, statistics="average"), 1)[0]
    assert float(done.progress.statistics[0]) == 8.0 - 2.0  # two steps
    assert bool((done.progress.statistics != plain.progress.statistics)[1:].all())


def test_a_model_with_no_other_floats_than_such_is_not_run_again(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(CpuEngine, "recalibrate")
    done = run_rounds(make(model=only_counting_model), 1)[0]
    assert done.progress.statistics.tolist() == [6.0]
    assert done.pauses == ()


def bits_of(done: FederatedRound) -> list[bytes]:
    after = done.progress
    return [bytes_of(each) for each in (after.parameters, after.statistics)]


@pytest.mark.parametrize("model", [normed_model, noisy_model])
def test_bits_do_not_depend_on_what_ran_before_or_beside(
    make: Make, model: Callable[[Shape, int], nn.Module]
) -> None:
    compressor = COMPRESSORS["fediac"]
    first, second = run_rounds(make(compressor, model, n_at_once=1), 2)
    other = make(compressor, model, n_at_once=3)
    other.run_round(second.progress)
    again = other.run_round(first.progress)
    assert bits_of(again) == bits_of(second)


def test_a_new_model_that_overflows_is_blamed_on_training(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    federation = make()
    recalibrate = CpuEngine.recalibrate

    def overflow(engine: CpuEngine, clients: list[int], *, round_number: int) -> Any:
        measured = recalibrate(engine, clients, round_number=round_number)
        endless = torch.full_like(measured[1].statistics, float("inf"))
        measured[1] = replace(measured[1], statistics=endless)
        return measured

    monkeypatch.setattr(CpuEngine, "recalibrate", overflow)
    text = (
        "client 1, round 1: update has 8 entries that are NaN, infinite or beyond "
        "2**100; training diverged, a lower learning rate (lr) may help"
    )
    with refuses(text, NotFiniteError):
        federation.run_round(federation.start())
