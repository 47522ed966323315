"""What an experiment leaves in a folder, and how it goes on from there."""

import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import fediac
from fediac.api.commands import compare_command, run_command
from fediac.api.experiment import Experiment, RoundReport
from fediac.errors import ConfigError, RunError
from fediac.runs.settings import read_settings
from fediac.runs.stored import read_run
from tests.support import refuses
from tests.tiny import read_lines
from tests.unit.api.own_experiment import make_experiment, make_normed


def weights(experiment: Experiment) -> dict[str, torch.Tensor]:
    return {name: each.clone() for name, each in experiment.module.state_dict().items()}


def are_equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(
        torch.equal(one[name], other[name]) for name in one
    )


def test_the_folder_is_as_a_run_leaves_it(tmp_path: Path) -> None:
    experiment = make_experiment(out=tmp_path / "run")
    reports = list(experiment.run(3))
    names = {"config.toml", "rounds.jsonl", "summary.json", "model.safetensors"}
    there = {each.name for each in (tmp_path / "run").iterdir()}
    assert there == names | {"checkpoint.safetensors"}
    run = read_run(tmp_path / "run")
    assert run is not None
    assert run.notes == ()
    assert [RoundReport.of(each) for each in run.rounds] == reports
    assert run.summary is not None
    assert (run.summary.stopped, run.summary.dim) == ("3 rounds done", 14)
    assert (run.summary.n_clients, run.summary.dataset) == (4, "own data")
    assert are_equal(
        load_file(tmp_path / "run" / "model.safetensors"), weights(experiment)
    )


def test_settings_say_what_was_given(tmp_path: Path) -> None:
    make = lambda dim: fediac.FediAC(4, n_votes=dim, threshold=1, bits=16)  # noqa: E731
    list(make_experiment(out=tmp_path, compressor=make).run(1))
    settings = read_settings(tmp_path / "config.toml")
    assert settings.algorithm == "fediac"
    fediac_table = settings.of("fediac")
    assert (fediac_table.n_votes, fediac_table.bits) == (14, 16)
    assert (settings.train.steps, settings.train.lr) == (3, 0.1)
    assert (settings.clients.n_clients, settings.clients.n_participants) == (4, 4)
    assert (settings.data.partition, settings.model.name) == ("iid", "Linear")
    document = tomllib.loads((tmp_path / "config.toml").read_text())
    assert {"compressor", "data_sha256", "clients_sha256", "model_sha256"} == set(
        document["experiment"]
    )


@pytest.mark.parametrize("statistics", ["average", "local", "recalibrate"])
@pytest.mark.parametrize(
    "algorithm",
    [
        lambda dim: fediac.FediAC(4, n_votes=dim // 4, threshold=2),
        lambda _: fediac.Libra(4, n_sent="10%", hot_rounds=1),
    ],
    ids=["fediac", "libra"],
)
def test_a_resumed_run_is_the_same_to_the_last_bit(
    tmp_path: Path, algorithm: Any, statistics: str
) -> None:
    settings: dict[str, Any] = {
        "model": make_normed,
        "compressor": algorithm,
        "statistics": statistics,
        "optimizer": torch.optim.Adam,
    }
    whole = make_experiment(out=tmp_path / "whole", **settings)
    expected = list(whole.run(5))
    broken = make_experiment(out=tmp_path / "broken", **settings)
    for done in broken.run(5):
        if done.round_number == 2:
            break
    again = make_experiment(out=tmp_path / "broken", resume=True, **settings)
    assert list(again.run(5)) == expected
    assert are_equal(weights(again), weights(whole))
    lines = [read_lines(tmp_path / each) for each in ("whole", "broken")]
    assert lines[0] == lines[1]
    models = [
        (tmp_path / each / "model.safetensors").read_bytes()
        for each in ("whole", "broken")
    ]
    assert models[0] == models[1]


def test_who_takes_part_is_the_same_after_a_break(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"compressor": fediac.SwitchML(2), "clients": 5}
    settings["n_participants"] = "40%"
    expected = list(make_experiment(**settings).run(4))
    list(make_experiment(out=tmp_path, **settings).run(2))
    again = make_experiment(out=tmp_path, resume=True, **settings)
    assert list(again.run(4)) == expected


def test_rounds_that_are_done_are_not_run_again(tmp_path: Path) -> None:
    list(make_experiment(out=tmp_path).run(3))
    before = (tmp_path / "rounds.jsonl").read_bytes()
    again = make_experiment(out=tmp_path, resume=True)
    assert [each.round_number for each in again.run(2)] == [1, 2]
    assert [each.round_number for each in again.run(1)] == [3]
    assert (tmp_path / "rounds.jsonl").read_bytes() == before
    assert [each.round_number for each in again.run(1)] == [4]


def test_resuming_begins_where_there_is_nothing(tmp_path: Path) -> None:
    experiment = make_experiment(out=tmp_path / "new", resume=True)
    assert [each.round_number for each in experiment.run(1)] == [1]


def test_an_error_in_the_users_loop_loses_no_round(tmp_path: Path) -> None:
    def fail() -> None:
        for done in make_experiment(out=tmp_path).run(5):
            if done.round_number == 2:
                raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert len(list(make_experiment(out=tmp_path, resume=True).run(3))) == 3
    assert [line["round"] for line in read_lines(tmp_path)] == [1, 2, 3]


def test_a_folder_with_a_run_is_not_overwritten(tmp_path: Path) -> None:
    list(make_experiment(out=tmp_path).run(1))
    text = (
        f"{tmp_path}: holds a run already; set resume=True to go on with it, or give "
        "another out"
    )
    with refuses(text, ConfigError):
        make_experiment(out=tmp_path)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"lr": 0.2}, "train.lr"),
        ({"model": make_normed}, "model.name"),
        ({"model": lambda: nn.Linear(6, 2, bias=False)}, "fediac.n_votes"),
        ({"clients": [[0], [1], [2], [3]]}, "data.partition"),
        ({"test": (np.ones((4, 6)), np.arange(4) % 2)}, "data_sha256"),
        ({"optimizer": torch.optim.Adam}, "optimizer"),
    ],
)
def test_another_experiment_does_not_go_on(
    tmp_path: Path, changes: dict[str, Any], name: str
) -> None:
    list(make_experiment(out=tmp_path).run(1))
    pattern = f"^{re.escape(str(tmp_path / 'config.toml'))}: {name} was "
    with pytest.raises(ConfigError, match=pattern):
        make_experiment(out=tmp_path, resume=True, **changes)


def test_what_is_not_given_any_more_is_named(tmp_path: Path) -> None:
    list(make_experiment(out=tmp_path, optimizer=torch.optim.Adam).run(1))
    text = (
        f"{tmp_path / 'config.toml'}: optimizer was 'torch.optim.adam.Adam', got none; "
        "going on needs the same model, data and settings; give another out"
    )
    with refuses(text, ConfigError):
        make_experiment(out=tmp_path, resume=True)


def test_the_command_line_says_who_can_go_on(tmp_path: Path) -> None:
    list(make_experiment(out=tmp_path / "run").run(1))
    own = tmp_path / "own.toml"
    own.write_text("seed = 1\n")
    text = (
        f"{tmp_path / 'run'}: holds a run of fediac.Experiment, whose model and data "
        "are in Python; go on with it there, with resume=True"
    )
    for config in (own, tmp_path / "run" / "config.toml"):
        with refuses(text, ConfigError):
            run_command(
                config, out=tmp_path / "run", overrides=[], resumes=True, as_json=True
            )


def test_its_settings_are_not_all_of_it(tmp_path: Path) -> None:
    list(make_experiment(out=tmp_path / "run").run(1))
    config = tmp_path / "run" / "config.toml"
    text = (
        f"{config}: is of a fediac.Experiment, whose model and data are in Python; run "
        "it there"
    )
    other: dict[str, Any] = {
        "out": tmp_path / "other",
        "overrides": [],
        "as_json": True,
    }
    with refuses(text, ConfigError):
        run_command(config, resumes=False, **other)
    with refuses(text, ConfigError):
        compare_command(config, "fedavg", resumes=False, **other)


def test_a_run_of_a_file_goes_on_by_the_command(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("seed = 1\n")
    text = (
        f"{tmp_path}: holds a run of a settings file; go on with it by fediac run "
        "--resume, or give another out"
    )
    with refuses(text, ConfigError):
        make_experiment(out=tmp_path, resume=True)


def test_two_processes_do_not_go_on_with_one_run(tmp_path: Path) -> None:
    list(make_experiment(out=tmp_path).run(1))
    first, second = (make_experiment(out=tmp_path, resume=True) for _ in range(2))
    list(first.run(2))
    text = (
        f"{tmp_path / 'rounds.jsonl'}: must have 1 round to go on, got 2; another "
        "process went on with this run"
    )
    with refuses(text, RunError):
        list(second.run(2))


def test_updates_are_kept_for_tuning(tmp_path: Path) -> None:
    experiment = make_experiment(
        out=tmp_path, save_updates=2, compressor=lambda _: fediac.FedAvg(4)
    )
    before = weights(experiment)
    list(experiment.run(1))
    after = weights(experiment)
    list(experiment.run(2))
    assert sorted(each.name for each in tmp_path.glob("updates*")) == [
        "updates-1.npy",
        "updates-2.npy",
    ]
    updates = np.load(tmp_path / "updates-1.npy")
    assert (updates.shape, updates.dtype) == ((4, 14), np.float32)
    # The mean of four float32, whose last bit depends on the order of adding.
    change = torch.cat([(before[name] - after[name]).flatten() for name in before])
    assert np.allclose(updates.mean(axis=0), change, atol=1e-6)


@pytest.mark.parametrize(
    ("out", "path", "written"),
    [("run", None, "run/report.html"), (None, "page.html", "page.html")],
)
def test_a_report_is_written_and_shown(
    tmp_path: Path, out: str | None, path: str | None, written: str
) -> None:
    experiment = make_experiment(out=None if out is None else tmp_path / out)
    list(experiment.run(2))
    page = experiment.report(None if path is None else tmp_path / path)
    assert page.path == tmp_path / written
    text = page.path.read_text()
    assert "own data, Linear" in text
    shown = page._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert "<html" not in shown  # what is inside is escaped


def test_reports_have_other_formats(tmp_path: Path) -> None:
    experiment = make_experiment()
    list(experiment.run(1))
    page = experiment.report(tmp_path / "rounds.csv")
    assert len(page.path.read_text().splitlines()) == 2
    assert page._repr_html_().startswith("<pre>")


def test_without_a_round_there_is_nothing_to_report_on() -> None:
    text = "there must be at least one round to report on, run one"
    with refuses(text, RunError):
        make_experiment().report()
