from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

import fediac
from fediac.errors import DatasetError
from fediac.training.experiment import Experiment
from fediac.training.local import LocalSettings
from fediac.training.own_data import dataset_of
from tests.support import refuses

LOCAL = LocalSettings(steps=3, batch_size=8, lr=0.1, lr_decay=0.0)


def make_data(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, 6)).astype(np.float32)
    return torch.from_numpy(x), torch.from_numpy((x[:, 0] > 0).astype(np.int64))


def make_experiment(**changes: object) -> Experiment:
    x, y = make_data(120)
    settings: dict[str, object] = {
        "compressor": lambda dim: fediac.FediAC(4, n_votes=dim, threshold=1, bits=16),
        "local": LOCAL,
        "device": "cpu",
    }
    torch.default_generator.manual_seed(0)
    return Experiment(
        lambda: nn.Linear(6, 2),
        (x[:80], y[:80]),
        (x[80:], y[80:]),
        **(settings | changes),  # type: ignore[arg-type] # each test gives what fits
    )


def test_reports_add_up_traffic_and_time() -> None:
    reports = list(make_experiment().run(3))
    assert [report.round_number for report in reports] == [1, 2, 3]
    for before, after in pairwise(reports):
        assert after.payload_mib > before.payload_mib > 0
        assert after.time_s > before.time_s > 0


def test_module_holds_what_was_learned() -> None:
    experiment = make_experiment()
    last = list(experiment.run(5))[-1]
    x, y = make_data(120)
    with torch.no_grad():
        right = (experiment.module(x[80:]).argmax(dim=1) == y[80:]).float().mean()
    assert float(right) == pytest.approx(last.accuracy)
    assert last.loss < next(make_experiment().run(1)).loss


def test_same_seed_gives_the_same_reports() -> None:
    assert list(make_experiment().run(2)) == list(make_experiment().run(2))


def test_clients_must_be_as_many_as_the_compressor_has() -> None:
    with refuses("clients must be 4 (the compressor's n_clients), got 2"):
        make_experiment(clients=[np.arange(40), np.arange(40, 80)])


def test_bytes_are_normalized_and_floats_are_not() -> None:
    labels = np.arange(4) % 2
    pixels = np.full((4, 1, 2, 2), 255, np.uint8)
    assert dataset_of((pixels, labels), (pixels, labels)).mean == (1.0,)
    floats = dataset_of((pixels / 2, labels), (pixels / 2, labels))
    assert floats.train.images.dtype == np.float32
    assert (floats.mean, floats.std) == ((0.0,), (1.0,))


@pytest.mark.parametrize(
    ("train", "text"),
    [
        (
            (np.zeros((3, 2)), np.zeros(2, np.int64)),
            "train must have as many labels as inputs, at least one, got 3 inputs and "
            "2 labels",
        ),
        (
            (np.zeros((2, 2)), np.zeros(2)),
            "train labels must be a vector of whole numbers from 0, got float64 of "
            "shape (2,)",
        ),
        ((np.full((2, 2), np.nan), np.arange(2)), "train inputs must be finite"),
        (
            (np.zeros((2, 5)), np.arange(2)),
            "test inputs must have the shape of train's (5,), got (2,)",
        ),
    ],
)
def test_arrays_that_do_not_fit_are_refused(
    train: tuple[np.ndarray, np.ndarray], text: str
) -> None:
    with refuses(text, DatasetError):
        dataset_of(train, (np.zeros((2, 2)), np.arange(2)))
