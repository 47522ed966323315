"""A run with a user's own algorithm or model goes on with the same file only."""

import hashlib
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fediac import imports
from fediac.errors import AlgorithmError, ConfigError
from fediac.imports import hash_source
from fediac.runs.checkpoint import load_checkpoint
from fediac.runs.loop import run_experiment
from fediac.runs.records import CONFIG
from tests.support import refuses
from tests.tiny import make_settings, read_lines

SOURCE = {
    "algorithm": "from fediac.compressors import FedAvg as mine\n",
    "model": "from tests.tiny import plain_model as mine\n",
}
HANDED_ON = "from own_code_package.inside import mine\n"
Start = Callable[..., dict[str, Any]]


@pytest.fixture(params=SOURCE)
def what(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> Start:
    monkeypatch.syspath_prepend(tmp_path)
    names: dict[str, Any] = {
        "algorithm": {"algorithm": "own_code_here:mine"},
        "model": {"model": {"name": "own_code_here:mine"}},
    }

    def run(source: str, n_rounds: int, *, resumes: bool) -> dict[str, Any]:
        (tmp_path / "own_code_here.py").write_text(source)
        monkeypatch.delitem(sys.modules, "own_code_here", raising=False)
        imports._hash_files.cache_clear()  # as in a process of its own
        changes = names[what] | {"stop": {"rounds": n_rounds}}
        changes["save"] = {"checkpoint_every": 100}
        settings = make_settings(tmp_path / "data", **changes)
        run_experiment(settings, tmp_path / "run", resumes=resumes)
        config = tomllib.loads((tmp_path / "run" / CONFIG).read_text())
        versions: dict[str, Any] = config["versions"]
        return versions

    return run


def test_the_settings_of_a_run_have_the_hash_of_its_code(
    start: Start, what: str
) -> None:
    versions = start(SOURCE[what], 1, resumes=False)
    expected = hashlib.sha256(SOURCE[what].encode()).hexdigest()
    assert versions[f"{what}_sha256"] == expected
    # An algorithm of the catalog has the package's version.
    assert ("algorithm_sha256" in versions) == (what == "algorithm")
    assert start(SOURCE[what], 2, resumes=True) == versions


def test_a_run_does_not_go_on_with_other_code_unless_it_is_told_to(
    tmp_path: Path, start: Start, what: str
) -> None:
    begun = start(SOURCE[what], 1, resumes=False)
    config = tmp_path / "run" / CONFIG
    text = (
        f"{config}: the file of {what} 'own_code_here:mine' has changed since; going "
        f"on needs the same one; give another --out, or take {what}_sha256 out of "
        "config.toml to go on all the same"
    )
    other = f"{SOURCE[what]}# better\n"
    with refuses(text, ConfigError):
        start(other, 2, resumes=True)
    lines = config.read_text().splitlines()
    config.write_text("\n".join(each for each in lines if "_sha256" not in each))
    versions = start(other, 2, resumes=True)
    assert versions[f"{what}_sha256"] == hashlib.sha256(other.encode()).hexdigest()
    assert f"{what}_sha256" not in versions["earlier"][0]
    assert versions["earlier"][0]["python"] == begun["python"]
    # From here on, this is the code of the run.
    start(other, 3, resumes=True)


def test_the_hash_is_that_of_what_was_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "own_code_package"
    package.mkdir()
    inside, outside = package / "inside.py", package / "__init__.py"
    inside.write_text("def mine(): ...\n")
    outside.write_text(HANDED_ON)
    expected = hashlib.sha256(outside.read_bytes() + inside.read_bytes()).hexdigest()
    imports.import_named("algorithm", "own_code_package:mine")
    inside.write_text("def mine(): return 7\n")
    assert hash_source("algorithm", "own_code_package:mine") == expected
    outside.unlink()
    assert hash_source("algorithm", "own_code_package:mine") == expected


def test_code_without_a_file_has_no_hash() -> None:
    assert hash_source("algorithm", "builtins:len") is None


FAILING = """
from dataclasses import dataclass
from fediac.compressors import FedAvg

@dataclass
class mine:
    n_clients: int

    def run_round(self, update, state, stream, *, out=None):
        if stream.round_number > LAST:
            raise ValueError("I did not think of that")
        return (yield from FedAvg(self.n_clients).run_round(update, state, stream))
"""


@pytest.mark.parametrize("what", ["algorithm"], indirect=True)
def test_rounds_before_a_failure_are_kept(tmp_path: Path, start: Start) -> None:
    text = (
        "algorithm 'own_code_here:mine' failed: ValueError: I did not think of that "
        "(own_code_here.py, line 11)"
    )
    with refuses(text, AlgorithmError):
        start(FAILING.replace("LAST", "3"), 9, resumes=False)
    folder = tmp_path / "run"
    assert [line["round"] for line in read_lines(folder)] == [1, 2, 3]
    checkpoint = load_checkpoint(folder, device="cpu")
    assert checkpoint is not None
    assert checkpoint.progress.round_number == 3


WILD = """
from dataclasses import dataclass, replace
from fediac.compressors import FedAvg
from fediac.core.mean import Mean

@dataclass
class mine:
    n_clients: int

    def run_round(self, update, state, stream, *, out=None):
        inner = FedAvg(self.n_clients)
        outcome = yield from inner.run_round(update, state, stream)
        return replace(outcome, mean=Mean((*outcome.mean.parts, self)))

    def write(self, out):
        out[2:5] = float("inf")
"""


@pytest.mark.parametrize("what", ["algorithm"], indirect=True)
def test_training_is_not_blamed_for_a_mean_that_is_not_finite(
    tmp_path: Path, start: Start
) -> None:
    text = (
        "algorithm 'own_code_here:mine' must return a finite mean, got 3 entries that "
        "are not"
    )
    with refuses(text, AlgorithmError):
        start(WILD, 2, resumes=False)
    assert not (tmp_path / "run" / "rounds.jsonl").read_text()
