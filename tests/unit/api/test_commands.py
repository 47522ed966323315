import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from fediac.api import commands
from fediac.api.commands import compare_command, run_command
from fediac.errors import INTERRUPTED, ConfigError, UpdateError
from fediac.runs.loop import run_experiment
from fediac.runs.progress import ProgressBars
from fediac.runs.settings import RunSettings
from tests.support import refuses
from tests.tiny import read_lines, write_data

DEFAULTS: dict[str, Any] = {
    "out": None,
    "overrides": [],
    "resumes": False,
    "as_json": False,
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration in a folder whose name a shell would split."""
    folder = tmp_path / "my runs"
    document = {
        "data": {
            "name": "tiny",
            "folder": str(write_data(tmp_path / "data")),
            "partition": "iid",
        },
        "model": {"name": "tests.tiny:plain_model"},
        "clients": {"n_clients": 3},
        "train": {"steps": 2, "batch_size": 8, "n_at_once": 1, "device": "cpu"},
        "network": {"rates": ["700"]},
        "stop": {"rounds": 2},
    }
    folder.mkdir()
    path = folder / "tiny.toml"
    path.write_text(tomli_w.dumps(document))
    return path


def run(config: Path, **changes: Any) -> None:
    run_command(config, **DEFAULTS | changes)


def compare(config: Path, algorithms: str, **changes: Any) -> None:
    compare_command(config, algorithms, **DEFAULTS | changes)


def interrupt(n_clients: int) -> Callable[[ProgressBars], None]:
    """What a bar does when Ctrl-C comes after so many clients."""
    left = [n_clients]

    def client_done(_: ProgressBars) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt

    return client_done


def test_a_run_says_what_came_out_and_is_quiet_elsewhere(
    config: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run(config, out=tmp_path / "out")
    found = capsys.readouterr()
    assert found.err == ""
    assert "\x1b" not in found.out
    assert "│ fediac    │      2 │" in found.out
    assert "iid partition: 96 of 96 examples, 32 to 32 a client, sha256 " in found.out
    assert f"{tmp_path / 'out'}: 2 rounds done in " in found.out


# One vote of 475 entries, drawn: three clients never vote for the same.
STARVED = ["fediac.n_votes=1", "fediac.threshold=3", "stop.rounds=4"]
FEW = (
    "note: fediac: clients vote for 1 of 475 parameters; so few make a model this "
    'small learn slowly, and hardly save a packet; n_votes = "auto" takes 475.\n'
)
NOTHING = (
    "note: fediac: clients agreed on nothing in rounds 1 to 4 (4 running), so the "
    "model stood still; more votes (fediac.n_votes), a lower threshold "
    '(fediac.threshold) or votes for the largest entries (fediac.law = "topk") may '
    "help.\n"
)


@pytest.mark.parametrize("as_json", [False, True])
def test_a_run_whose_clients_agree_on_nothing_says_so(
    config: Path,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    *,
    as_json: bool,
) -> None:
    run(config, out=tmp_path / "out", overrides=STARVED, as_json=as_json)
    assert capsys.readouterr().err == FEW + NOTHING
    both = tmp_path / "both"
    compare(config, "topk,fediac", out=both, overrides=STARVED, as_json=as_json)
    assert capsys.readouterr().err == FEW + NOTHING


def test_json_is_one_document_and_nothing_else(
    config: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run(config, out=tmp_path / "out", as_json=True, overrides=["seed=4"])
    found = capsys.readouterr()
    assert found.err == ""
    document = json.loads(found.out)
    assert document == json.loads((tmp_path / "out" / "summary.json").read_text())
    assert document["seed"] == 4
    compare(config, "topk, fedavg", out=tmp_path / "both", as_json=True)
    found = capsys.readouterr()
    names = [each["algorithm"] for each in json.loads(found.out)["algorithms"]]
    assert names == ["topk", "fedavg"]


def test_results_go_to_a_folder_named_after_the_configuration(
    config: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    run(config)
    assert (tmp_path / "runs" / "tiny" / "summary.json").exists()
    compare(config, "fedavg")
    assert (tmp_path / "runs" / "tiny-compared" / "fedavg" / "summary.json").exists()


def test_a_comparison_shows_all_and_how_to_draw_them(
    config: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    compare(config, "fedavg,topk", out=out)
    text = capsys.readouterr().out
    assert "│ fedavg " in text
    assert "│ topk " in text
    assert text.count("\niid partition: 96 of 96 examples, ") == 1
    assert text.endswith(f"{out}: fediac report {out} -o report.html draws it\n")


def test_names_must_be_there(config: Path) -> None:
    with refuses(
        "--algorithms must name some of fediac, switchml, omnireduce, libra, fedavg, "
        "topk or your own as module:name, got ' , '",
        ConfigError,
    ):
        compare(config, " , ")
    with refuses("unknown algorithm 'fediak'; did you mean 'fediac'?", ConfigError):
        compare(config, "fediak")
    with refuses(
        "unknown algorithm 'sgd'; there are fediac, switchml, omnireduce, libra, "
        "fedavg, topk, module:name",
        ConfigError,
    ):
        run(config, overrides=["algorithm=sgd"])


@pytest.mark.parametrize("command", ["run", "compare"])
def test_ctrl_c_says_how_to_go_on_and_that_works(
    config: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    out = config.parent / "the out"
    overrides = ['network.switches=["fast", "slow"]', "seed=5"]

    def start(folder: Path, *, resumes: bool = False) -> None:
        if command == "run":
            run(config, out=folder, overrides=overrides, resumes=resumes)
        else:
            compare(config, "fediac", out=folder, overrides=overrides, resumes=resumes)

    with monkeypatch.context() as patch:
        patch.setattr(ProgressBars, "client_done", interrupt(5))
        with pytest.raises(SystemExit) as ended:
            start(out)
    assert ended.value.code == INTERRUPTED == 130
    first, second = capsys.readouterr().err.splitlines()
    assert first == (
        f"stopped; everything up to the last checkpoint is in {out}; go on with"
    )
    names = ["--algorithms", "fediac"] if command == "compare" else []
    sets = [word for each in overrides for word in ("--set", each)]
    words = ["fediac", command, str(config), *names, "--out", str(out), *sets]
    assert shlex.split(second) == [*words, "--resume"]
    start(out, resumes=True)
    start(config.parent / "whole")
    inside = "fediac" if command == "compare" else ""
    assert read_lines(out / inside) == read_lines(config.parent / "whole" / inside)


@pytest.mark.parametrize("has_folder", [False, True])
@pytest.mark.parametrize("command", ["run", "compare"])
def test_ctrl_c_before_a_run_has_begun_leaves_nothing_to_resume(
    config: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    command: str,
    *,
    has_folder: bool,
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    home = {"run": "runs.loop", "compare": "api.several_runs"}[command]
    monkeypatch.setattr(f"fediac.{home}.prepare_run", interrupt)
    out = tmp_path / "out"
    if has_folder:
        out.mkdir()
    own = {"algorithms": "fediac"} if command == "compare" else {}
    start = getattr(commands, f"{command}_command")
    with pytest.raises(SystemExit) as ended:
        start(config, **DEFAULTS | own | {"out": out})
    assert ended.value.code == 130
    assert capsys.readouterr() == ("", "stopped before anything was written\n")


def test_resuming_where_no_run_is_starts_none(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("seed = 1\n")
    folder = tmp_path / "nothere"
    with refuses(f"{folder}: holds no run to resume", ConfigError):
        run_command(config, out=folder, overrides=[], resumes=True, as_json=True)
    assert not folder.exists()


def test_training_that_diverged_names_the_setting_that_helps(config: Path) -> None:
    out = config.parent / "out"
    ending = (
        r"^client 0, round 1: update has \d+ entries that are NaN, infinite or beyond "
        r"2\*\*100; training diverged, a lower learning rate \(lr\) may help$"
    )
    with pytest.raises(UpdateError, match=ending):
        run(config, out=out, overrides=["train.lr=1e30"])
    with pytest.raises(UpdateError, match=ending):
        compare(
            config, "fedavg", out=config.parent / "all", overrides=["train.lr=1e30"]
        )


@pytest.mark.parametrize("as_json", [False, True])
def test_a_comparison_shows_the_others_when_one_failed(
    config: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    as_json: bool,
) -> None:
    def fail(settings: RunSettings, *arguments: Any, **others: Any) -> Any:
        if settings.algorithm == "topk":
            raise UpdateError("client 2, round 1: update has 9 entries that are NaN")
        return run_experiment(settings, *arguments, **others)

    monkeypatch.setattr("fediac.api.several_runs.run_experiment", fail)
    out = config.parent / "all"
    changes: Any = {"algorithms": "topk,fedavg", "out": out, "as_json": as_json}
    with pytest.raises(SystemExit) as stopped:
        compare_command(config, **DEFAULTS | changes)
    assert stopped.value.code == 1
    text = capsys.readouterr().out
    why = "client 2, round 1: update has 9 entries that are NaN"
    if as_json:
        document = json.loads(text)
        assert [each["algorithm"] for each in document["algorithms"]] == ["fedavg"]
        assert document["failed"] == {"topk": why}
    else:
        assert text.endswith(f"\nfailed: topk: {why}\n")
        assert "fedavg" in text
