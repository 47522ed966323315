from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fediac
from fediac.api.experiment import Experiment
from fediac.errors import DatasetError
from fediac.plan.networks import NetworkDescription, make_network
from fediac.runs.settings import RunSettings
from fediac.sim import Network, constant_uplinks, paper_switch, simulate_round
from fediac.training.datasets import Dataset
from fediac.training.own_data import read_data
from tests.support import refuses
from tests.unit.api.own_experiment import LOCAL, make_data, make_experiment


def dataset_of(train: Any, test: Any) -> Dataset:
    return read_data(train, test).dataset


def test_reports_add_up_traffic_and_time() -> None:
    reports = list(make_experiment().run(3))
    assert [report.round_number for report in reports] == [1, 2, 3]
    for before, after in pairwise(reports):
        assert after.payload_mib > before.payload_mib > 0
        assert after.time_s > before.time_s > 0


def test_what_is_not_given_is_as_in_a_settings_file() -> None:
    file = RunSettings()
    setting = NetworkDescription(
        switch=file.network.switches[0],
        rates=file.network.rates,
        compute_s=file.network.compute_s,
    )
    network = make_network(setting, n_clients=4, threshold=1, seed=file.seed)
    _, y = make_data(80)
    usual: dict[str, Any] = {name: getattr(file.train, name) for name in LOCAL}
    explicit = make_experiment(
        **usual,
        network=network,
        clients=fediac.partition.iid(y, 4, seed=file.seed),
        seed=file.seed,
    )
    implicit = make_experiment(without=LOCAL)
    assert next(implicit.run(1)).time_s == next(explicit.run(1)).time_s > 0.1
    for ours, theirs in zip(
        implicit.module.parameters(), explicit.module.parameters(), strict=True
    ):
        assert torch.equal(ours, theirs)


def test_a_round_begins_when_the_last_one_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    starts = []

    def spy(*arguments: Any, start_s: float, **others: Any) -> Any:
        starts.append(start_s)
        return simulate_round(*arguments, start_s=start_s, **others)

    monkeypatch.setattr("fediac.runs.loop.simulate_round", spy)
    reports = list(make_experiment().run(3))
    assert starts == [0.0, reports[0].time_s, reports[1].time_s]


def test_module_holds_what_was_learned() -> None:
    experiment = make_experiment()
    last = list(experiment.run(5))[-1]
    x, y = make_data(120)
    with torch.no_grad():
        right = (experiment.module(x[80:]).argmax(dim=1) == y[80:]).float().mean()
    assert float(right) == pytest.approx(last.accuracy)
    assert last.loss < next(make_experiment().run(1)).loss


def test_an_algorithm_that_does_not_fit_the_model_is_refused_at_once() -> None:
    with refuses("n_votes must be in 1..14 (dim), got 15"):
        make_experiment(compressor=fediac.FediAC(4, n_votes=15))


def test_an_algorithm_may_be_given_as_such_or_as_a_function() -> None:
    made = fediac.FediAC(4, n_votes="100%", threshold=1, bits=16)
    reports = list(make_experiment(compressor=made).run(2))
    assert reports == list(make_experiment().run(2))


def test_same_seed_gives_the_same_reports() -> None:
    assert list(make_experiment().run(2)) == list(make_experiment().run(2))


def test_the_seed_decides_the_initial_weights() -> None:
    torch.default_generator.manual_seed(7)
    before = torch.default_generator.get_state()
    first = make_experiment(seed=3).module.state_dict()
    assert torch.equal(torch.default_generator.get_state(), before)
    torch.default_generator.manual_seed(8)
    second = make_experiment(seed=3).module.state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    other = make_experiment(seed=4).module.state_dict()
    assert not torch.equal(first["weight"], other["weight"])


def test_running_again_goes_on() -> None:
    halves = make_experiment()
    reports = [*halves.run(2), *halves.run(2)]
    assert reports == list(make_experiment().run(4))


def test_variances_stay_above_zero_beside_much_larger_ones() -> None:
    """One grid serves all statistics: its step is larger than a constant's variance."""
    x, y = make_data(120)
    x[:, 1], x[:, 2] = 1e4 * x[:, 1], 0.0
    experiment = Experiment(
        lambda: nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 2)),
        (x[:80], y[:80]),
        (x[80:], y[80:]),
        compressor=lambda _: fediac.SwitchML(4, bits=16),
        **LOCAL,
        device="cpu",
    )
    lowest = []
    for report in experiment.run(12):
        lowest.append(float(experiment.module.get_buffer("0.running_var").min()))
        assert np.isfinite(report.loss)
    assert min(lowest) == 0.0


def test_statistics_may_be_measured_on_the_new_model() -> None:
    x, y = make_data(120)
    network = Network(constant_uplinks(4, 700.0), paper_switch("fast"), compute_s=6.0)
    reports = {}
    for statistics in ("average", "recalibrate"):
        experiment = Experiment(
            lambda: nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3), nn.Linear(3, 2)),
            (x[:80], y[:80]),
            (x[80:], y[80:]),
            compressor=lambda _: fediac.SwitchML(4, bits=16),
            **LOCAL,
            network=network,
            statistics=statistics,
            device="cpu",
        )
        reports[statistics] = list(experiment.run(2))
    for plain, again in zip(*reports.values(), strict=True):
        assert again.payload_mib == plain.payload_mib
        assert again.loss != plain.loss
        # 16 of a client's 20 examples make two batches of 8; it trained on three. A
        # forward pass takes a third of that, and packets leave at other moments.
        longer = (again.time_s - plain.time_s) / plain.round_number
        assert longer == pytest.approx(6.0 * 16 / (3 * 24), abs=0.1)


def test_word_numbers_reach_the_model_as_whole_numbers() -> None:
    words = np.arange(80).reshape(20, 4).astype(np.int32) % 7
    labels = np.arange(20) % 2
    experiment = Experiment(
        lambda: nn.Sequential(nn.Embedding(7, 3), nn.Flatten(), nn.Linear(12, 2)),
        (words, labels),
        (words, labels),
        compressor=lambda _: fediac.FedAvg(2),
        **LOCAL,
        device="cpu",
    )
    assert [done.round_number for done in experiment.run(1)] == [1]


def test_clients_must_be_as_many_as_the_compressor_has() -> None:
    with refuses("clients must be 4 (the compressor's n_clients), got 2"):
        make_experiment(clients=[np.arange(40), np.arange(40, 80)])


def test_bytes_and_floats_are_not_mixed() -> None:
    pixels, labels = np.zeros((8, 1, 2, 3), np.uint8), np.arange(8) % 2
    kinds = "of the kind of train's, uint8, got float32"
    text = f"test inputs must be {kinds}: only bytes are normalized"
    with refuses(text, DatasetError):
        dataset_of((pixels, labels), (pixels / np.float32(255), labels))


def test_bytes_are_normalized_and_floats_are_not() -> None:
    labels = np.arange(4) % 2
    pixels = np.full((4, 1, 2, 2), 255, np.uint8)
    assert dataset_of((pixels, labels), (pixels, labels)).mean == (1.0,)
    floats = dataset_of((pixels / 2, labels), (pixels / 2, labels))
    assert floats.train.images.dtype == np.float32
    assert (floats.mean, floats.std) == ((0.0,), (1.0,))


@pytest.mark.parametrize(
    "change",
    [
        lambda inputs: inputs.bfloat16(),
        lambda inputs: inputs.requires_grad_(),
        lambda inputs: inputs.to_sparse(),
    ],
)
def test_tensors_of_any_sort_are_inputs(
    change: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    labels = torch.arange(4)
    inputs = torch.arange(8.0).reshape(4, 2)
    dataset = dataset_of((change(inputs), labels), (inputs.detach(), labels))
    assert dataset.train.images.dtype == np.float32
    assert np.array_equal(dataset.train.images, inputs.detach().numpy())


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
            "shape (2,); other targets need a loss",
        ),
        (
            (np.zeros((2, 2)), np.array([0, -3])),
            "train labels must be whole numbers from 0, got -3",
        ),
        (
            (np.full((2, 2), np.nan), np.arange(2)),
            "train inputs must be finite, in float32 as well",
        ),
        (
            (np.full((2, 2), 1e39), np.arange(2)),
            "train inputs must be finite, in float32 as well",
        ),
        (
            (np.zeros((2, 28, 28), np.uint8), np.arange(2)),
            "train inputs of uint8 must be images of shape (n, channels, height, "
            "width), got shape (2, 28, 28)",
        ),
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


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"compressor": "fediac"},
            "compressor must be one like FediAC(...), with run_round, or a function "
            "that makes one for a number of parameters, got str",
        ),
        (
            {"compressor": lambda _: "fediac"},
            "compressor must return one like FediAC(...), with run_round, got str",
        ),
        ({"loss": "mse"}, "loss must be a function, got str"),
        ({"out": 3}, "out must be the path of a folder, got int"),
        ({"network": "fast"}, "network must be a Network, got str"),
        (
            {"clients": "all"},
            "clients must be a number, or a list with the example numbers of each "
            "client, got str",
        ),
        ({"seed": 1.5}, "seed must be a whole number, got 1.5"),
    ],
)
def test_arguments_of_the_wrong_kind_are_named(
    changes: dict[str, Any], text: str
) -> None:
    with refuses(text, TypeError):
        make_experiment(**changes)


def test_a_model_is_made_not_given() -> None:
    x, y = make_data(8)
    make = Experiment
    text = (
        "model must be a function that makes one, such as lambda: nn.Linear(20, 3), "
        "got Linear"
    )
    with refuses(text, TypeError):
        make(nn.Linear(6, 2), (x, y), (x, y), compressor=lambda _: fediac.FedAvg(2))
    with refuses("model must return an nn.Module, got NoneType", TypeError):
        make(
            lambda: None,  # type: ignore[arg-type,return-value] # that is the point
            (x, y),
            (x, y),
            compressor=lambda _: fediac.FedAvg(2),
        )


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (
            [0.5],
            "clients: client 0 must have a vector of whole numbers, at least one, got "
            "float64 of shape (1,)",
        ),
        (
            [],
            "clients: client 0 must have a vector of whole numbers, at least one, got "
            "float64 of shape (0,)",
        ),
        (
            [3, 80],
            "clients: example numbers of client 0 must be in 0..79, got 3 to 80",
        ),
        (
            [-1],
            "clients: example numbers of client 0 must be in 0..79, got -1 to -1",
        ),
    ],
)
def test_clients_have_examples_that_there_are(rows: list[float], text: str) -> None:
    with refuses(text):
        make_experiment(clients=[rows, [1], [2], [3]])


def test_lists_of_example_numbers_will_do() -> None:
    rows = [[0, 1, 2], [3, 4], [5], [6, 7, 8, 9]]
    arrays = [np.array(each) for each in rows]
    reports = [next(make_experiment(clients=each).run(1)) for each in (rows, arrays)]
    assert reports[0] == reports[1]


def test_what_happens_to_statistics_is_named() -> None:
    text = "statistics must be average, local or recalibrate, got 'recalibrated'"
    with refuses(text):
        make_experiment(statistics="recalibrated")


def test_devices_are_named() -> None:
    with refuses("device must be auto, cpu or cuda, got 'gpu'"):
        make_experiment(device="gpu")


def test_there_is_at_least_one_round() -> None:
    experiment = make_experiment()
    with refuses("n_rounds must be at least 1, got 0"):
        experiment.run(0)
    with refuses("n_rounds must be a whole number, got '3'", TypeError):
        experiment.run("3")  # type: ignore[arg-type] # that is the point


def test_data_are_pairs_of_arrays() -> None:
    x, y = make_data(8)
    text = "train must have rows of an input and a target, or with columns, got Tensor"
    with refuses(text, DatasetError):
        dataset_of(x, (x, y))
    text = (
        "test must be a pair of inputs and labels, a data set with a length and rows, "
        "or a loader of such, got int"
    )
    with refuses(text, DatasetError):
        dataset_of((x, y), 3)
    with refuses(
        "test must be arrays of numbers, got inputs of object and labels of int64",
        DatasetError,
    ):
        dataset_of((x, y), (np.array([None] * 8), y))


def test_clients_count_by_their_examples_if_asked_to() -> None:
    x, y = make_data(120)
    unequal = [(x[:60], y[:60]), (x[60:70], y[60:70]), (x[70:80], y[70:80])]
    given: dict[str, Any] = {"compressor": fediac.FedAvg(3), "train": unequal}
    ends = []
    for weights in ("equal", "examples"):
        experiment = make_experiment(weights=weights, **given)
        done = list(experiment.run(2))
        ends.append((done[-1].loss, done[-1].payload_mib))
        experiment.close()
    assert ends[0][0] != ends[1][0]
    # Two rounds of three clients, 4 bytes each way.
    assert (ends[1][1] - ends[0][1]) * 2**20 == pytest.approx(2 * 3 * 8, rel=1e-6)
    with refuses("weights must be equal or examples, got 'size'"):
        make_experiment(weights="size")
