"""run and compare as a user types them: flags, folders and what is missing."""

import json
import os
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from fediac.api import commands
from fediac.runs import requirements, versions
from fediac.runs.progress import ProgressBars
from tests.integration.command import Command, Result
from tests.runs import zip_folder
from tests.tiny import read_lines, write_config


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return write_config(tmp_path, network={"rates": ["700"]})


@pytest.mark.parametrize("command", ["run", "compare"])
def test_the_tensorboard_flag_does_what_the_setting_does(
    fediac: Command, config: Path, tmp_path: Path, command: str
) -> None:
    pytest.importorskip("tensorboard")
    out = tmp_path / "out"
    names = ["--algorithms=fedavg"] if command == "compare" else []
    result = fediac(command, config, *names, "--out", out, "--tensorboard")
    assert (result.code, result.err) == (0, "")
    folder = out / "fedavg" if command == "compare" else out
    assert list((folder / "tensorboard").iterdir())


@pytest.mark.parametrize("command", ["run", "compare"])
def test_the_data_flag_does_what_the_setting_does(
    fediac: Command, config: Path, tmp_path: Path, command: str
) -> None:
    names = ["--algorithms=fedavg"] if command == "compare" else []
    moved = (tmp_path / "data").rename(tmp_path / "2024")  # a number, were it TOML
    out = tmp_path / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        result = fediac(command, config, *names, "--out", out, "--data", moved.name)
    assert (result.code, result.err) == (0, "")
    folder = out / "fedavg" if command == "compare" else out
    assert 'folder = "2024"' in (folder / "config.toml").read_text()


@pytest.mark.parametrize("command", ["run", "compare"])
@pytest.mark.parametrize(
    ("module", "message"),
    [
        (
            "tensorboard",
            "save.tensorboard needs TensorBoard: pip install 'fediac[tensorboard]'",
        ),
        ("torch", "training needs PyTorch: pip install 'fediac[train]'"),
        ("tomli_w", "training needs tomli-w: pip install 'fediac[train]'"),
    ],
)
def test_what_is_missing_is_said_before_training(  # one line each
    fediac: Command,
    config: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    module: str,
    message: str,
) -> None:
    for place in (commands, requirements):
        monkeypatch.setattr(
            place, "find_spec", lambda name: None if name == module else find_spec(name)
        )
    out = tmp_path / "out"
    result = fediac(command, config, "--out", out, "--tensorboard")
    assert result == Result(2, "", f"error: {message}\n")
    assert not out.exists()


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("clients.n_clients=0", "clients.n_clients must be at least 1, got 0"),
        (
            "clients.n_participants=9",
            "clients.n_participants must be in 1..3 (clients), got 9",
        ),
        (
            "fediac.threshold=4",
            "fediac.threshold must be in 1..3 (clients in a round), got 4",
        ),
        (
            "fediac.entries_per_vote=4",
            "fediac.entries_per_vote must be 1 or a power of two in 8..4096, got 4",
        ),
        ("fediac.fade=1", "fediac.fade must be at least 0 and below 1, got 1.0"),
        ("fediac.clip=0", "fediac.clip must be finite and above 0, got 0.0"),
        ("train.batch_size=0", "train.batch_size must be at least 1, got 0"),
        ("train.steps=0", "train.steps must be at least 1, got 0"),
        ("train.lr=0", "train.lr must be finite and above 0, got 0.0"),
        (
            'network.rates=["quick"]',
            "network.rates must be paper, nyumets, uniform, packets per second such as "
            "700 or 200-2800, or a file, got 'quick'",
        ),
        (
            'network.switches=["quick"]',
            "network.switches must be fast, slow or packets per second, got 'quick'",
        ),
        (
            "network.compute_s=-1",
            "network.compute_s must be finite and at least 0, got -1.0",
        ),
        (
            "model.name=nothing.here:at_all",
            "model 'nothing.here:at_all' cannot be imported: No module named 'nothing'",
        ),
    ],
)
def test_errors_name_the_key_of_the_settings(
    fediac: Command, config: Path, tmp_path: Path, override: str, message: str
) -> None:
    out = tmp_path / "out"
    result = fediac("run", config, "--out", out, "--set", override)
    assert result == Result(2, "", f"error: {message}\n")
    result = fediac(
        "compare", config, "--out", out, "--algorithms=fediac", "--set", override
    )
    assert result == Result(2, "", f"error: {message}\n")
    assert not out.exists()


@pytest.mark.parametrize("name", ["switchml", "libra"])
def test_a_comparison_names_the_keys_of_each_algorithm(
    fediac: Command, config: Path, tmp_path: Path, name: str
) -> None:
    names = f"--algorithms={name}"
    result = fediac("compare", config, names, "--set", f"{name}.bits=1")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"error: {name}.bits must leave room for 3 clients")
    assert not (tmp_path / "out").exists()


def test_a_share_of_clients_takes_part(
    fediac: Command, config: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    shares = ["clients.n_participants=60%", "fediac.threshold=50%", "stop.target=1%"]
    options = [f"--set={share}" for share in shares]
    document = fediac.json("run", config, "--out", out, *options)
    assert document["target"]["accuracy"] == 0.01
    line = json.loads((out / "rounds.jsonl").read_text().splitlines()[0])
    assert line["clients"] == 2


@pytest.mark.parametrize("command", ["run", "compare"])
def test_a_job_that_is_preempted_loses_no_round(
    fediac: Command,
    config: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    names = ["--algorithms=fedavg"] if command == "compare" else []
    rare = ["--set=stop.rounds=4", "--set=save.checkpoint_every=500"]
    rare += ["--set=train.n_at_once=1", "--set=fediac.threshold=1"]  # they agree then
    words: list[Any] = [command, config, *names, *rare, "--out", tmp_path / "out"]
    folder = tmp_path / "out" / ("fedavg" if command == "compare" else "")
    n_left = [10]  # three rounds of three clients, and one more

    def preempt(_: ProgressBars) -> None:
        n_left[0] -= 1
        if not n_left[0]:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(ProgressBars, "client_done", preempt)
        result = fediac(*words)
    assert result.code == 143
    assert result.err.startswith("stopped; everything up to the last checkpoint is in ")
    assert len(read_lines(folder)) == 3
    again = fediac(*words, "--resume")
    assert (again.code, again.err) == (0, "")  # no round is run again
    assert len(read_lines(folder)) == 4


@pytest.mark.parametrize("command", ["run", "compare"])
def test_going_on_with_other_kernels_is_refused_or_shown_on_the_page(
    fediac: Command,
    config: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    names = ["--algorithms=fedavg"] if command == "compare" else []
    words: list[Any] = [command, config, *names, "--out", tmp_path / "out"]
    folder = tmp_path / "out" / ("fedavg" if command == "compare" else "")
    assert fediac(*words, "--set=stop.rounds=1").code == 0
    monkeypatch.setattr(versions, "name_machine", lambda _: "Another CPU")
    words += ["--set=stop.rounds=2", "--resume"]
    refused = fediac(*words)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith(f"error: {folder / 'config.toml'}: machine was ")
    assert refused.err.endswith("add --allow-other-kernels to go on all the same\n")
    assert refused.err.count("\n") == 1
    assert len(read_lines(folder)) == 1
    assert fediac(*words, "--allow-other-kernels").code == 0
    assert len(read_lines(folder)) == 2
    page = fediac("report", folder, "-o", "-").out
    assert "it went on with other kernels or on another processor after 1 round" in page


OWN = """
from dataclasses import dataclass

from fediac.compressors import SwitchML


@dataclass(frozen=True)
class NineBits(SwitchML):
    bits: int = 9


def few(n_clients, dim):
    return SwitchML(n_clients, bits=6 if dim < 1000 else 12)


def many(n_clients, dim):
    return SwitchML(n_clients, bits=40)
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a file of somebody's own algorithms."""
    monkeypatch.syspath_prepend("no folder at all")  # and puts the path back
    monkeypatch.delitem(sys.modules, "somebodys_own", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "somebodys_own.py").write_text(OWN)
    return tmp_path


def test_own_algorithms_are_compared_and_reported_by_their_names(
    fediac: Command, config: Path, own: Path
) -> None:
    names = "fedavg,somebodys_own:NineBits,somebodys_own:few"
    result = fediac("compare", config, "--algorithms", names, "--out", "all")
    assert (result.code, result.err) == (0, "")
    assert sorted(path.name for path in (own / "all").iterdir() if path.is_dir()) == [
        "NineBits",
        "fedavg",
        "few",
    ]
    for name, bits in (("NineBits", 9), ("few", 6)):
        assert f"│ {name} " in result.out
        (line,) = read_lines(own / "all" / name)
        assert line["bits"] == bits
    result = fediac("report", "all", "--format=md", "-o", "-")
    assert result.code == 0
    assert "| NineBits |" in result.out
    assert "| somebodys\\_own:NineBits |" in result.out  # which code it was


def test_an_own_algorithm_is_resumed_to_the_same_bits(
    fediac: Command, config: Path, own: Path
) -> None:
    words: list[Any] = ["run", config, "--set=algorithm=somebodys_own:NineBits"]
    result = fediac(*words, "--set=stop.rounds=3", "--out=whole")
    assert (result.code, result.err) == (0, "")
    assert "│ NineBits " in result.out
    fediac(*words, "--set=stop.rounds=1", "--out=parts")
    result = fediac(*words, "--set=stop.rounds=3", "--out=parts", "--resume")
    assert (result.code, result.err) == (0, "")
    assert read_lines(own / "parts") == read_lines(own / "whole")
    model = "model.safetensors"
    assert (own / "parts" / model).read_bytes() == (own / "whole" / model).read_bytes()
    stored = (own / "parts" / "config.toml").read_text()
    assert 'algorithm = "somebodys_own:NineBits"' in stored


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere:make", "cannot be imported: No module named 'nowhere'"),
        (
            "somebodys_own:fewer",
            "cannot be imported: module 'somebodys_own' has no attribute 'fewer'",
        ),
        (
            "somebodys_own:many",
            "must return a compressor, got ArgumentError: bits must be at most 32 (a "
            "lane), got 40 (somebodys_own.py, line 17)",
        ),
    ],
)
def test_own_algorithms_that_cannot_run_are_refused_before_training(
    fediac: Command, config: Path, own: Path, name: str, message: str
) -> None:
    expected = Result(2, "", f"error: algorithm {name!r} {message}\n")
    assert fediac("run", config, f"--set=algorithm={name}", "--out=out") == expected
    names = f"--algorithms=fedavg,{name}"
    assert fediac("compare", config, names, "--out=out") == expected
    assert not (own / "out").exists()


def test_an_own_algorithm_called_like_another_is_refused(
    fediac: Command, config: Path, own: Path
) -> None:
    (own / "somebody_elses.py").write_text(OWN)
    names = "somebodys_own:few,somebody_elses:few"
    message = (
        "algorithms must have different names after the colon, got "
        "'somebodys_own:few' and 'somebody_elses:few'"
    )
    result = fediac("compare", config, "--algorithms", names, "--out=out")
    assert result == Result(2, "", f"error: {message}\n")
    assert not (own / "out").exists()


def test_a_run_is_repeated_from_the_archive_that_holds_it(
    fediac: Command, config: Path, tmp_path: Path
) -> None:
    assert fediac("run", config, "--out", tmp_path / "runs" / "first").code == 0
    archive = zip_folder(tmp_path / "runs")
    stored = archive / "first" / "config.toml"
    assert fediac("run", stored, "--out", tmp_path / "second").code == 0
    assert read_lines(tmp_path / "second") == read_lines(archive / "first")
    wrong = archive / "none" / "config.toml"
    result = fediac("run", wrong)
    assert (result.code, result.err) == (
        2,
        f"error: {wrong}: no such file or directory\n",
    )
