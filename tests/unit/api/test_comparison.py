"""Several algorithms on a user's own model and data."""

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fediac
from fediac.errors import ConfigError, DatasetError, UpdateError
from fediac.report.reading import read_runs
from tests.support import refuses
from tests.unit.api.own_experiment import LOCAL, make_data, make_experiment, make_normed

BOTH: dict[str, Any] = {
    "lean": fediac.FediAC(4, n_votes="40%", threshold=2),
    "fedavg": fediac.FedAvg(4),
}


def compare(**changes: Any) -> fediac.Comparison:
    x, y = make_data(120)
    settings: dict[str, Any] = {
        "model": make_normed,
        "train": (x[:80], y[:80]),
        "test": (x[80:], y[80:]),
        "compressors": BOTH,
        "n_rounds": 2,
        "device": "cpu",
        **LOCAL,
    }
    return fediac.compare(**(settings | changes))


def test_each_is_as_alone() -> None:
    compared = compare()
    for name, compressor in BOTH.items():
        alone = make_experiment(model=make_normed, compressor=compressor)
        assert compared.reports[name] == list(alone.run(2))
        theirs = compared.modules[name].state_dict()
        for key, each in alone.module.state_dict().items():
            assert torch.equal(each, theirs[key])


def test_folders_have_the_names(tmp_path: Path) -> None:
    compared = compare(out=tmp_path, save_updates=1)
    runs, notes = read_runs([tmp_path])
    assert not notes
    assert {run.folder.name: len(run.rounds) for run in runs} == {
        "lean": 2,
        "fedavg": 2,
    }
    assert (tmp_path / "lean" / "updates-1.npy").exists()
    assert compared.out == tmp_path
    assert compared.report().path == tmp_path / "report.html"


def test_it_goes_on_where_it_was(tmp_path: Path) -> None:
    first = compare(out=tmp_path, n_rounds=1)
    longer = compare(out=tmp_path, n_rounds=3, resume=True)
    assert longer.reports == compare(n_rounds=3).reports
    assert all(longer.reports[name][:1] == first.reports[name] for name in BOTH)


def test_names_tell_settings_of_one_algorithm_apart(tmp_path: Path) -> None:
    two = {f"k{k}": fediac.FediAC(4, n_votes=k, threshold=1, bits=8) for k in (10, 40)}
    page = compare(compressors=two).report(tmp_path / "page.md")
    text = page.path.read_text()
    assert "k10" in text
    assert "k40" in text


def test_it_is_shown_as_a_table() -> None:
    compared = compare()
    lines = str(compared).splitlines()
    assert sum("lean" in line or "fedavg" in line for line in lines) == 2
    assert all(
        f" {each.accuracy:.1%}"[:-1] in str(compared)
        for each in (reports[-1] for reports in compared.reports.values())
    )
    assert compared._repr_html_().startswith("<pre>")


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_metric_of_ones_own_has_its_name(tmp_path: Path, *, is_kept: bool) -> None:
    def half_right(*_: Any) -> float:
        return 0.5

    compared = compare(metric=half_right, out=tmp_path / "runs" if is_kept else None)
    table, page = str(compared), compared.report(tmp_path / "page.md").path.read_text()
    assert " half_right " in table.splitlines()[1]
    assert r"| half\_right | best half\_right |" in page
    assert r"## Traffic and simulated time to 50 % half\_right" in page
    for text in (table, page):
        assert "accuracy" not in text


def test_one_that_diverges_does_not_stop_the_others() -> None:
    class Far(fediac.FedAvg):
        """An algorithm whose mean is far off."""

        def run_round(self, update: Any, *given: Any, **named: Any) -> Any:
            return super().run_round(update * 1e25, *given, **named)

    compared = compare(compressors={"far": Far(4), "fedavg": fediac.FedAvg(4)})
    assert list(compared.reports) == ["fedavg"]
    assert "far" in compared.failures
    assert "failed: far: " in str(compared)
    with pytest.raises(UpdateError):
        compare(compressors={"far": Far(4)})


def test_all_are_checked_before_one_trains(tmp_path: Path) -> None:
    wrong = {"fedavg": fediac.FedAvg(4), "more": fediac.FediAC(4, n_votes=10**6)}
    with refuses("n_votes must be in 1..90 (dim), got 1000000"):
        compare(compressors=wrong, out=tmp_path)
    assert not list(tmp_path.iterdir())
    compare(out=tmp_path)
    with pytest.raises(ConfigError, match="holds a run already"):
        compare(out=tmp_path)


@pytest.mark.parametrize("name", ["", "a/b", "..", "nul", "con.x", 3])
def test_names_are_good_for_folders(name: Any) -> None:
    text = (
        "compressors must have names that are good for a folder on every system "
        "(letters, digits, dots, dashes and underscores; not con, nul, ...), got "
        f"{name!r}"
    )
    with refuses(text):
        compare(compressors={name: fediac.FedAvg(4)})


def test_one_is_at_least_there() -> None:
    text = "compressors must be a dict of name -> compressor, at least one, got dict"
    with refuses(text, TypeError):
        compare(compressors={})


def test_all_are_for_as_many_clients() -> None:
    text = "compressors must all be for as many clients, got 4 for 'a' and 3 for 'b'"
    both = {"a": fediac.FediAC(4), "b": fediac.FedAvg(3)}
    with refuses(text):
        compare(compressors=both)


def test_clients_may_have_their_own_data() -> None:
    x, y = make_data(120)
    parts = [(x[i : i + 20], y[i : i + 20]) for i in (0, 20, 40, 60)]
    rows = [np.arange(i, i + 20) for i in (0, 20, 40, 60)]
    assert compare(train=parts).reports == compare(clients=rows).reports


def test_it_takes_what_an_experiment_takes() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'lrr'"):
        compare(lrr=0.1)
    with pytest.raises(DatasetError, match=r"^train labels must be"):
        compare(train=(np.ones((8, 6)), np.ones(8)))
    names = set(inspect.signature(fediac.Experiment).parameters) - {"compressor"}
    own = {"compressors", "n_rounds", "settings"}
    assert set(inspect.signature(fediac.compare).parameters) - own < names


def test_modules_are_the_trained_ones() -> None:
    x, y = make_data(120)
    compared = compare(model=lambda: nn.Linear(6, 2))
    for name, reports in compared.reports.items():
        scores = compared.modules[name](x[80:])
        right = (scores.argmax(dim=1) == y[80:]).float().mean()
        assert float(right) == pytest.approx(reports[-1].accuracy)
