"""An experiment with a loss, an optimizer, a metric and clients of the user's own."""

import io
import sys
import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Subset, TensorDataset

import fediac
from fediac.errors import ArgumentError, ConfigError, DatasetError
from fediac.training.task import r_squared
from tests.support import refuses
from tests.unit.api.own_experiment import make_data, make_experiment

Pair = tuple[torch.Tensor, torch.Tensor]


def regression(n: int = 120) -> tuple[Pair, Pair]:
    x, _ = make_data(n)
    y = x @ torch.linspace(-1.0, 1.0, 6).unsqueeze(1)
    return (x[: n - 40], y[: n - 40]), (x[n - 40 :], y[n - 40 :])


def make_regression(**changes: Any) -> fediac.Experiment:
    train, test = regression()
    given: dict[str, Any] = {"train": train, "test": test}
    given["model"] = lambda: nn.Linear(6, 1)
    return make_experiment(**(given | {"loss": nn.MSELoss()} | changes))


def test_cross_entropy_of_ones_own_gives_the_bits_of_ours() -> None:
    ours = list(make_experiment().run(2))
    own = list(make_experiment(loss=functional.cross_entropy).run(2))
    assert [each.accuracy for each in own] == [each.accuracy for each in ours]
    assert [each.facts for each in own] == [each.facts for each in ours]
    for mine, theirs in zip(own, ours, strict=True):
        # A mean of means in float32, where ours is one sum.
        assert mine.loss == pytest.approx(theirs.loss, rel=1e-5)


def test_plain_sgd_of_ones_own_gives_the_bits_of_ours() -> None:
    ours = list(make_experiment().run(2))
    assert list(make_experiment(optimizer=torch.optim.SGD).run(2)) == ours


def test_an_optimizer_takes_the_steps() -> None:
    def still(parameters: Any, lr: float) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=0.0 * lr)

    experiment = make_experiment(optimizer=still)
    before = experiment.module.state_dict()["weight"].clone()
    list(experiment.run(1))
    assert torch.equal(experiment.module.state_dict()["weight"], before)
    momentum = make_experiment(optimizer=partial(torch.optim.SGD, momentum=0.9))
    assert list(momentum.run(1)) != list(make_experiment().run(1))


def test_an_optimizer_gets_the_learning_rate_of_the_round() -> None:
    rates = []

    def make(parameters: Any, lr: float) -> torch.optim.Optimizer:
        rates.append(lr)
        return torch.optim.SGD(parameters, lr=lr)

    list(make_experiment(optimizer=make, lr=0.5, lr_decay=1.0).run(1))
    assert rates[-4:] == [0.25] * 4


def test_regression_is_scored_by_r_squared() -> None:
    experiment = make_regression(steps=40)
    reports = list(experiment.run(6))
    (_, (x, y)) = regression()
    with torch.no_grad():
        expected = r_squared(experiment.module(x), y)
        loss = float(functional.mse_loss(experiment.module(x), y))
    assert reports[-1].accuracy == pytest.approx(expected)
    assert reports[-1].accuracy > 0.9
    assert reports[-1].loss == pytest.approx(loss, rel=1e-5)


def test_r_squared_is_1_for_perfect_and_0_for_the_mean() -> None:
    y = torch.tensor([[1.0, 10.0], [3.0, 30.0]])
    assert r_squared(y, y) == 1.0
    assert r_squared(y.mean(dim=0).expand(2, 2), y) == 0.0
    assert r_squared(-y, y) < 0.0
    assert r_squared(torch.zeros(2, 1), torch.ones(2, 1)) == 0.0


def test_a_metric_sees_all_of_the_test_set_at_once() -> None:
    seen: list[Any] = []

    def metric(outputs: torch.Tensor, targets: torch.Tensor) -> float:
        seen.append((outputs.shape, targets.shape))
        return 0.25

    x, y = make_data(400)
    experiment = make_experiment(test=(x, y), metric=metric)
    assert next(experiment.run(1)).accuracy == 0.25
    assert seen == [((400, 2), (400,))]


def test_progress_calls_a_metric_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        """A file that says it is a terminal."""

        def isatty(self) -> bool:
            return True

    def half_right(*_: Any) -> float:
        return 0.5

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm-256color")
    list(make_experiment(metric=half_right).run(2))
    assert "half_right 50.0 %" in terminal.getvalue()


@pytest.mark.parametrize(("value", "share"), [(-3.0, 0.0), (float("nan"), 0.0), (1, 1)])
def test_what_is_worse_than_nothing_counts_as_nothing(
    value: float, share: float
) -> None:
    experiment = make_experiment(metric=lambda *_: value)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert next(experiment.run(1)).accuracy == share
    text = (
        "metric returned less than 0, which counts as 0; turn an error around, for "
        "instance into 1 / (1 + error)"
    )
    assert [str(each.message) for each in warned] == [text] * (value < 0.0)


def test_metrics_are_shares() -> None:
    text = (
        "metric must return at most 1 (perfect), got 37.5; turn an error around, for "
        "instance into 1 / (1 + error)"
    )
    with refuses(text):
        list(make_experiment(metric=lambda *_: 37.5).run(1))
    with refuses("metric must return a number, got str"):
        list(make_experiment(metric=lambda *_: "good").run(1))


def test_targets_of_many_numbers_need_a_metric() -> None:
    x, _ = make_data(20)
    words = np.zeros((20, 3), np.int64)
    given: dict[str, Any] = {"train": (x, words), "test": (x, words)}
    given["model"] = lambda: nn.Sequential(nn.Linear(6, 12), nn.Unflatten(1, (4, 3)))
    given["loss"] = nn.CrossEntropyLoss()
    with refuses("metric must be given for targets of int64 and shape (3,)"):
        make_experiment(**given)

    def right(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return (scores.argmax(dim=1) == targets).float().mean()

    assert 0.0 <= next(make_experiment(metric=right, **given).run(1)).accuracy <= 1.0


def test_a_loss_that_broadcasts_is_refused() -> None:
    (x, y), (x_test, y_test) = regression()
    with pytest.raises(ArgumentError, match=r"^loss must take .*\(2, 1\) and \(2,\)"):
        make_regression(train=(x, y[:, 0]), test=(x_test, y_test[:, 0]))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"loss": lambda outputs, targets: (outputs[:, 0] - targets) ** 2},
            "loss must return one number that can be differentiated, got shape (2,)",
        ),
        (
            {"loss": lambda *_: 0.5},
            "loss must return one number that can be differentiated, got 0.5",
        ),
        (
            {"optimizer": lambda *_, **__: "adam"},
            "optimizer must make a torch.optim.Optimizer when called with parameters "
            "and lr, got str",
        ),
        (
            {"optimizer": torch.optim.LBFGS},
            "optimizer must take parameters and lr, and step without arguments, got "
            "TypeError: LBFGS.step() missing 1 required positional argument: 'closure'",
        ),
    ],
)
def test_what_cannot_be_used_is_named(changes: dict[str, Any], text: str) -> None:
    with refuses(text):
        make_experiment(**changes)


def test_floats_are_targets_for_a_loss_only() -> None:
    train, test = regression()
    with pytest.raises(DatasetError, match=r"other targets need a loss$"):
        make_experiment(train=train, test=test)


def test_clients_are_a_number_or_come_with_the_data() -> None:
    by_number = list(make_experiment(clients=4).run(1))
    assert by_number == list(make_experiment().run(1))
    x, y = make_data(120)
    parts = [(x[:50], y[:50]), (x[50:60], y[50:60]), (x[60:62], y[60:62])]
    rows = [np.arange(50), np.arange(50, 60), np.arange(60, 62)]
    compressor = fediac.FedAvg(3)
    one = make_experiment(train=[*parts], compressor=compressor)
    other = make_experiment(train=(x, y), clients=rows, compressor=compressor)
    assert list(one.run(2)) == list(other.run(2))
    text = "clients must be left out where train is a list with one a client"
    with refuses(text):
        make_experiment(train=parts, clients=3, compressor=compressor)


def test_some_clients_take_part_in_a_round() -> None:
    reports = {}
    for some in (2, "50%"):
        experiment = make_experiment(
            compressor=fediac.FedAvg(2), clients=4, n_participants=some
        )
        reports[some] = list(experiment.run(2))
    assert reports[2] == reports["50%"]
    whole = next(make_experiment(compressor=fediac.FedAvg(4)).run(1))
    assert reports[2][0].payload_mib < whole.payload_mib
    text = "compressor must be for 2 clients (those of 4 that take part), got 4"
    with refuses(text):
        make_experiment(compressor=fediac.FedAvg(4), clients=4, n_participants="50%")
    text = (
        "clients must say how many there are where some take part, n_participants=2; "
        "the compressor is for those of a round, 4"
    )
    with refuses(text):
        make_experiment(n_participants=2)
    with refuses("n_participants must be in 1..4 (clients), got 5", ConfigError):
        make_experiment(clients=4, n_participants=5)


def test_own_functions_train_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    experiment = make_experiment(device="auto", optimizer=torch.optim.SGD)
    assert next(experiment.module.parameters()).device.type == "cpu"
    text = "device must be cpu with a loss, optimizer or metric of your own, got 'cuda'"
    with refuses(text):
        make_experiment(device="cuda", optimizer=torch.optim.SGD)


def test_data_sets_and_loaders_give_the_bits_of_arrays() -> None:
    x, y = make_data(120)
    whole = TensorDataset(x, y)
    train = [Subset(whole, range(i, i + 20)) for i in (0, 20, 40, 60)]
    loaders = [DataLoader(each, batch_size=7) for each in train]
    test = Subset(whole, range(80, 120))
    rows = [np.arange(i, i + 20) for i in (0, 20, 40, 60)]
    expected = list(make_experiment(clients=rows).run(2))
    for given in (train, loaders):
        assert list(make_experiment(train=given, test=test).run(2)) == expected


def test_rows_with_columns_are_data_too() -> None:
    class Part:
        """A client's partition as Hugging Face has it."""

        def __init__(self, rows: range) -> None:
            self._rows = rows

        def __len__(self) -> int:
            return len(self._rows)

        def __getitem__(self, number: int) -> dict[str, Any]:
            row = self._rows[number]
            return {"points": x[row].numpy(), "side": int(y[row]), "row": row}

    x, y = make_data(120)
    train = [Part(range(i, i + 20)) for i in (0, 20, 40, 60)]
    rows = [np.arange(i, i + 20) for i in (0, 20, 40, 60)]
    experiment = make_experiment(
        train=train, test=Part(range(80, 120)), columns=("points", "side")
    )
    assert list(experiment.run(2)) == list(make_experiment(clients=rows).run(2))


def test_what_a_loader_draws_is_the_same_every_time() -> None:
    x, y = make_data(120)
    loader = DataLoader(TensorDataset(x, y), batch_size=7, shuffle=True)
    torch.default_generator.manual_seed(7)
    before = torch.default_generator.get_state()
    first = list(make_experiment(train=loader).run(1))
    assert torch.equal(torch.default_generator.get_state(), before)
    torch.default_generator.manual_seed(8)
    assert list(make_experiment(train=loader).run(1)) == first
