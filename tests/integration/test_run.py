"""Runs that are killed, at any moment, go on to the bits of runs that were not."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from safetensors import safe_open
from safetensors.torch import save_file

from fediac.runs import checkpoint as checkpoints
from fediac.runs import loop, recording, settled
from fediac.runs.folder import MODEL
from fediac.runs.loop import run_experiment
from fediac.runs.observers import NoObserver
from fediac.runs.records import CHECKPOINT, SUMMARY, Round
from fediac.runs.settings import RunSettings
from fediac.switch import Switch
from tests.tiny import make_settings, read_lines

N_ROUNDS = 3
NORMED = {"name": "tests.tiny:normed_model"}

CASES: dict[str, dict[str, Any]] = {
    "fediac": {"model": NORMED},
    "fediac tuned by a server": {"tuning": "server"},
    "fediac, two of three": {
        "clients": {"n_participants": 2},
        "model": NORMED,
        "train": {"statistics": "local"},
    },
    "fediac, recalibrated": {
        "model": NORMED,
        "train": {"statistics": "recalibrate"},
    },
    "fediac tuned by a server, two of three, recalibrated": {
        "tuning": "server",
        "clients": {"n_participants": 2},
        "model": NORMED,
        "train": {"statistics": "recalibrate"},
    },
    "libra, recalibrated": {
        "algorithm": "libra",
        "model": NORMED,
        "train": {"statistics": "recalibrate"},
    },
    "switchml, local statistics": {
        "algorithm": "switchml",
        "model": NORMED,
        "train": {"statistics": "local"},
    },
    "omnireduce": {"algorithm": "omnireduce", "omnireduce": {"block": 10}},
    "libra": {"algorithm": "libra"},
    "fedavg": {"algorithm": "fedavg", "model": NORMED},
    "topk": {"algorithm": "topk"},
    "own, with extras": {"algorithm": "examples.own_momentum:momentum"},
}


class KilledError(BaseException):
    """The process ends here: nothing that was not written survives."""


class KillAt(NoObserver):
    """An observer that kills the run at its n-th event: a client or a round is done."""

    def __init__(self, n_events: int) -> None:
        self.n_left = n_events

    def client_done(self) -> None:
        self.n_left -= 1
        if self.n_left == 0:
            raise KilledError

    def round_done(self, record: Round) -> None:
        assert record.number >= 1
        self.client_done()


@pytest.fixture(autouse=True)
def _few_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    # The smallest switch has a register for every entry of so small a model; libra
    # needs cold ones too.
    monkeypatch.setattr(Switch, "indexed_capacity", lambda _self, _n: 200)


def settings_of(
    tmp_path: Path, name: str = "fediac", n_rounds: int = N_ROUNDS, **changes: Any
) -> RunSettings:
    # Deaths are planned for certain rounds, so checkpoints must not depend on a clock.
    table = {"save": {"checkpoint_every": 1}} | CASES[name] | changes
    table["stop"] = {"rounds": n_rounds} | changes.get("stop", {})
    # One client at a time: its observer's events then come in order.
    table["train"] = {"n_at_once": 1} | table.get("train", {})
    return make_settings(tmp_path / "data", **table)


def outcome(folder: Path) -> dict[str, Any]:
    """Everything a run leaves that must not depend on how often it was killed."""
    with safe_open(folder / CHECKPOINT, framework="pt") as file:
        facts = file.metadata()["fediac"]
        tensors = {
            name: file.get_tensor(name).numpy().tobytes()
            for name in file.keys()  # noqa: SIM118 - no mapping
        }
    summary = json.loads((folder / "summary.json").read_text())
    summary.pop("real_s")
    return {
        "lines": read_lines(folder),
        "model": (folder / MODEL).read_bytes(),
        "checkpoint": tensors,
        "facts": json.loads(facts),
        "summary": summary,
    }


def run_whole(settings: RunSettings, folder: Path) -> dict[str, Any]:
    run_experiment(settings, folder, resumes=False)
    return outcome(folder)


def resume(settings: RunSettings, folder: Path) -> dict[str, Any]:
    run_experiment(settings, folder, resumes=True)
    return outcome(folder)


# A round has four events: three clients and its line. 4, 8 and 12 are boundaries.
@pytest.mark.parametrize(
    ("every", "kills"),
    [(1, (1, 2, 4, 5, 7, 8, 9, 12)), (2, (4, 8, 10)), (5, (8, 11)), (None, (3, 9))],
)
def test_a_run_killed_at_any_client_or_round_goes_on_to_the_same_bits(
    tmp_path: Path, every: int | None, kills: Sequence[int]
) -> None:
    # Without a number the clock decides when to save, and still no bit depends on it.
    save = {} if every is None else {"checkpoint_every": every}
    settings = settings_of(tmp_path, save=save)
    expected = run_whole(settings, tmp_path / "whole")
    assert "residual.2" in expected["checkpoint"]
    for n in kills:
        folder = tmp_path / f"killed-{n}"
        with pytest.raises(KilledError):
            run_experiment(settings, folder, resumes=False, observer=KillAt(n))
        assert resume(settings, folder) == expected


@pytest.mark.parametrize("name", CASES)
def test_every_kind_of_run_goes_on_to_the_same_bits(tmp_path: Path, name: str) -> None:
    settings = settings_of(tmp_path, name)
    expected = run_whole(settings, tmp_path / "whole")
    assert ("extra.2.velocity" in expected["checkpoint"]) == ("extras" in name)
    folder = tmp_path / "killed"
    # In the first round, in the second, after the line of the second, in the third.
    n_clients = 2 if "two" in name else 3
    for n in (2, n_clients + 3, n_clients + 1, 1):
        with pytest.raises(KilledError):
            run_experiment(settings, folder, resumes=True, observer=KillAt(n))
    assert resume(settings, folder) == expected


def test_measuring_statistics_takes_time_and_no_more_traffic(tmp_path: Path) -> None:
    lines = []
    for statistics in ("average", "recalibrate"):
        train = {"statistics": statistics, "steps": 2, "batch_size": 8}
        settings = settings_of(tmp_path, model=NORMED, train=train)
        run_experiment(settings, tmp_path / statistics, resumes=False)
        lines.append(read_lines(tmp_path / statistics))
    for plain, again in zip(*lines, strict=True):
        assert again["traffic"] == plain["traffic"]
        assert "statistics" in again["traffic"]["payload"]["up"]
        assert plain["timing"]["fast"]["compute_s"] == 0.1
        timing = again["timing"]["fast"]
        # 32 examples a client, all measured; 16 trained: a third of two rounds' time.
        # All have the totals at about the same time, so all pause together.
        assert timing["compute_s"] == pytest.approx(0.1 * (1 + 2 / 3), abs=0.01)
        phases = sum(each["upload_s"] + each["download_s"] for each in timing["phases"])
        whole_s = timing["compute_s"] + phases
        assert whole_s == pytest.approx(again["round_s"]["fast"], rel=1e-9)


def test_kept_choices_are_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Server tuning and libra's hot entries are settled once; a run that goes on reads
    # them from its checkpoint.
    for name in ("fediac tuned by a server", "libra"):
        settings = settings_of(tmp_path, name)
        expected = run_whole(settings, tmp_path / name / "whole")
        folder = tmp_path / name / "killed"
        with pytest.raises(KilledError):
            run_experiment(settings, folder, resumes=False, observer=KillAt(5))
        with monkeypatch.context() as patch:
            patch.setattr(settled, "find_hot", None)
            patch.setattr(settled, "tune_on_server", None)
            assert resume(settings, folder) == expected


def half_a_line(log: recording.RoundLog, record: Round) -> None:
    if record.number < 2:
        whole_line(log, record)
        return
    whole_line(log, record)
    path = log._path
    path.write_bytes(path.read_bytes()[:-6])
    raise KilledError


whole_line = recording.RoundLog.append


def half_a_checkpoint(tensors: Any, path: Path, metadata: dict[str, str]) -> None:
    save_file(tensors, path, metadata)
    if json.loads(metadata.get("fediac", "{}")).get("round") == 2:
        path.write_bytes(path.read_bytes()[:100])
        raise KilledError


def half_a_model(tensors: Any, path: Path, metadata: dict[str, str]) -> None:
    save_file(tensors, path, metadata)
    if "format" in metadata:
        path.write_bytes(path.read_bytes()[:100])
        raise KilledError


def die(*_: Any, **__: Any) -> None:
    raise KilledError


# What dies, and where: (module or class, name, what happens instead).
DEATHS: dict[str, tuple[Any, str, Callable[..., None]]] = {
    "before the settings are written": (loop, "write_config", die),
    "before the first round": (loop, "_load", die),
    "in the middle of a line": (recording.RoundLog, "append", half_a_line),
    "in the middle of a checkpoint": (checkpoints, "save_file", half_a_checkpoint),
    "in the middle of the model": (checkpoints, "save_file", half_a_model),
    "before the summary": (loop, "write_summary", die),
}


@pytest.mark.parametrize("place", DEATHS)
def test_files_cut_short_do_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    settings = settings_of(tmp_path)
    expected = run_whole(settings, tmp_path / "whole")
    with monkeypatch.context() as patch:
        owner, name, death = DEATHS[place]
        patch.setattr(owner, name, death)
        with pytest.raises(KilledError):
            run_experiment(settings, tmp_path / "killed", resumes=False)
    assert resume(settings, tmp_path / "killed") == expected


def test_settings_that_are_half_written_do_not_stop_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(tmp_path)
    expected = run_whole(settings, tmp_path / "whole")
    folder = tmp_path / "killed"
    with pytest.raises(KilledError):
        run_experiment(settings, folder, resumes=False, observer=KillAt(6))
    with monkeypatch.context() as patch:
        # Going on writes the settings again; this time the process dies over them.
        patch.setattr(tomli_w, "dumps", lambda document: str(document)[:9])
        patch.setattr(Path, "replace", die)
        with pytest.raises(KilledError):
            run_experiment(settings, folder, resumes=True)
    assert resume(settings, folder) == expected


def test_a_run_killed_before_its_first_checkpoint_starts_again(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    expected = run_whole(settings, tmp_path / "run")
    for name in (CHECKPOINT, SUMMARY):
        (tmp_path / "run" / name).unlink()
    assert resume(settings, tmp_path / "run") == expected


@pytest.mark.parametrize(
    ("every", "n_events", "lost"),
    [
        (5, 9, "rounds 1 to 2 are"),
        (5, 5, "round 1 is"),
        (2, 12, "round 3 is"),
        (2, 9, ""),
        (2, 1, ""),
    ],
)
def test_a_run_that_goes_on_says_which_rounds_were_lost(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    every: int,
    n_events: int,
    lost: str,
) -> None:
    settings = settings_of(tmp_path, n_rounds=4, save={"checkpoint_every": every})
    folder = tmp_path / "run"
    with pytest.raises(KilledError):
        run_experiment(settings, folder, resumes=False, observer=KillAt(n_events))
    resume(settings, folder)
    line = f"{folder}: {lost} in no checkpoint, and run again\n" if lost else ""
    assert capsys.readouterr() == ("", line)


def test_a_run_that_is_complete_stays_as_it_is(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    expected = run_whole(settings, tmp_path / "run")
    before = (tmp_path / "run" / "rounds.jsonl").read_bytes()
    assert resume(settings, tmp_path / "run") == expected
    assert (tmp_path / "run" / "rounds.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    "stop", [{"target": 0.01}, {"simulated_s": 0.15}, {"real_s": 1e-6}]
)
def test_a_run_that_reached_another_stop_is_complete_too(
    tmp_path: Path, stop: dict[str, Any]
) -> None:
    settings = settings_of(tmp_path, stop={"rounds": 50} | stop)
    expected = run_whole(settings, tmp_path / "run")
    assert resume(settings, tmp_path / "run") == expected


def test_a_complete_run_may_be_made_longer(tmp_path: Path) -> None:
    expected = run_whole(settings_of(tmp_path, n_rounds=4), tmp_path / "whole")
    run_whole(settings_of(tmp_path, n_rounds=2), tmp_path / "run")
    assert resume(settings_of(tmp_path, n_rounds=4), tmp_path / "run") == expected


def test_a_run_that_is_made_longer_has_no_summary_until_it_is_through(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "run"
    run_whole(settings_of(tmp_path, n_rounds=2), folder)
    longer = settings_of(tmp_path, n_rounds=4)
    with pytest.raises(KilledError):
        run_experiment(longer, folder, resumes=True, observer=KillAt(5))
    assert len(read_lines(folder)) == 3
    assert not (folder / "summary.json").exists()
    assert resume(longer, folder)["summary"]["rounds"] == 4


def test_seconds_of_earlier_sessions_count(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, n_rounds=2)
    folder = tmp_path / "run"
    run_experiment(settings, folder, resumes=False)
    path = folder / "rounds.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0]["real_s"] < lines[1]["real_s"]
    lines[1]["real_s"] = 1000.0
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for stop, n_rounds in (({"rounds": 3, "real_s": 999.0}, 2), ({"rounds": 3}, 3)):
        summary = run_experiment(settings_of(tmp_path, stop=stop), folder, resumes=True)
        assert summary.rounds == n_rounds
        assert summary.real_s >= 1000.0


@pytest.mark.parametrize("name", ["fediac", "fediac, two of three"])
def test_rounds_have_the_same_bits_however_many_clients_train_at_once(
    tmp_path: Path, name: str
) -> None:
    expected = run_whole(settings_of(tmp_path, name), tmp_path / "one")
    for n_at_once in (2, 3):
        train = CASES[name].get("train", {}) | {"n_at_once": n_at_once}
        settings = settings_of(tmp_path, name, train=train)
        assert run_whole(settings, tmp_path / f"{n_at_once}") == expected


def test_the_same_settings_give_the_same_rounds_and_another_seed_others(
    tmp_path: Path,
) -> None:
    settings = settings_of(tmp_path)
    expected = run_whole(settings, tmp_path / "run")
    assert run_whole(settings, tmp_path / "again") == expected
    other = run_whole(settings_of(tmp_path, seed=2), tmp_path / "other")
    assert other["lines"] != expected["lines"]
    assert other["model"] != expected["model"]


_CHILD = """
import os, signal, sys
from pathlib import Path
from fediac.runs.loop import run_experiment
from fediac.runs.settings import read_settings
from tests.integration.test_run import KillAt

class KillForReal(KillAt):
    def client_done(self):
        self.n_left -= 1
        if self.n_left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

settings = read_settings(Path(sys.argv[1]))
run_experiment(settings, Path(sys.argv[2]), resumes=False, observer=KillForReal(6))
"""


def test_a_process_that_is_killed_for_real_goes_on_to_the_same_bits(
    tmp_path: Path,
) -> None:
    settings = make_settings(tmp_path / "data", model=NORMED)
    folder, whole = tmp_path / "killed", tmp_path / "whole"
    expected = run_whole(settings, whole)
    command = [sys.executable, "-c", _CHILD, str(whole / "config.toml"), str(folder)]
    child = subprocess.run(command, cwd=Path(__file__).parents[2], check=False)
    assert child.returncode == -signal.SIGKILL
    assert len(read_lines(folder)) == 1
    assert not (folder / "summary.json").exists()
    assert resume(settings, folder) == expected
