"""The paper's tables and figures as a user makes them."""

import json
import os
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fediac.archives import read_archive
from fediac.paper import running
from fediac.paper.entrants import MAIN
from fediac.paper.tasks import RunOptions
from fediac.runs.progress import ProgressBars
from fediac.runs.records import Round
from tests.integration.command import Command, Result
from tests.tiny import read_lines

ROW = {
    "scenario",
    "switch",
    "algorithm",
    "seed",
    "target",
    "reached",
    "gave_up",
    "rounds",
    "payload_mib",
    "time_s",
    "spent_mib",
    "spent_s",
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `fediac paper table1 --quick` leaves, run from a bare source tree."""
    folder = tmp_path_factory.mktemp("paper") / "results"
    source = Path(__file__).parents[2] / "src"
    command = [sys.executable, "-m", "fediac", "paper", "table1", "--quick", "--json"]
    done = subprocess.run(
        [*command, "--out", str(folder)],
        env=os.environ | {"PYTHONPATH": str(source), "FEDIAC_COMMIT": "abc123"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert document["failed"] == []
    assert {Path(file).name for file in document["files"]} == {
        "table1.md",
        "table1.json",
    }
    return folder


def test_quick_table_has_every_entrant_and_a_target_that_fedavg_fixed(
    results: Path,
) -> None:
    rows = json.loads((results / "table1.json").read_text())
    assert [row["algorithm"] for row in rows] == [each.name for each in MAIN]
    assert all(set(row) == ROW for row in rows)
    assert {(row["scenario"], row["switch"], row["seed"]) for row in rows} == {
        ("digits", "fast", 1)
    }
    lines = read_lines(results / "runs/digits.zip/fedavg/seed1")
    best = max(line["accuracy"] for line in lines[:3])
    assert {row["target"] for row in rows} == {round(best - 0.02, 6)}
    assert rows[-1]["reached"]


def test_runs_are_kept_without_models_and_say_what_wrote_them(results: Path) -> None:
    assert [path.name for path in (results / "runs").iterdir()] == ["digits.zip"]
    files = read_archive(results / "runs" / "digits.zip")
    names = ("config.toml", "rounds.jsonl", "summary.json")
    assert sorted(files) == sorted(
        f"{entrant.name}/seed1/{name}" for entrant in MAIN for name in names
    )
    for entrant in MAIN:
        config = files[f"{entrant.name}/seed1/config.toml"]
        document = tomllib.loads(config.decode())
        assert document["versions"]["commit"] == "abc123"
        assert document["versions"]["machine"]
        assert "folder" not in document["data"]


def test_the_second_table_needs_no_other_runs(fediac: Command, results: Path) -> None:
    before = (results / "runs" / "digits.zip").stat().st_mtime_ns
    result = fediac("paper", "table2", "--quick", "--out", results)
    assert result.code == 0
    lines = result.err.splitlines()
    assert len(lines) == 7
    assert all(" is stored to " in line for line in lines)
    assert (results / "runs" / "digits.zip").stat().st_mtime_ns == before
    assert "Digits by writer" in result.out
    assert "slow switch" in result.out
    assert result.out.splitlines()[-1].startswith(f"wrote {results / 'table2.md'}, ")


def test_a_dry_run_runs_nothing(fediac: Command, results: Path, tmp_path: Path) -> None:
    document = fediac.json(
        "paper", "fig-accuracy", "fig-theory", "--quick", "--dry-run", "--out", results
    )
    entrants = [each["entrant"] for each in document["runs"]]
    assert sorted(entrants) == sorted(each.name for each in MAIN)
    assert {each["step"] for each in document["runs"]} <= {"is stored", "runs again"}
    assert document["theory"] == ["digits seed 1"]
    assert document["missing"] == []
    out = tmp_path / "nothing"
    result = fediac(
        *("paper", "table1", "--only", "cifar10-iid", "--dry-run"),
        *("--out", out, "--data", tmp_path),
    )
    assert result.code == 0
    assert not out.exists()
    line = next(x for x in result.out.splitlines() if "switchml" in x)
    cells = " ".join(line.replace("│", " ").split())
    assert cells == "cifar10-iid switchml seed 1 0 runs 63 % or 100 rounds at most 100"
    file = tmp_path / "cifar-10-batches-bin" / "data_batch_1.bin"
    assert result.out.splitlines()[-1] == (
        f"missing: cifar10-iid: needs {file}; give the folder that has it with --data, "
        "or add --download"
    )
    fetched = fediac.json(
        *("paper", "table1", "--only", "cifar10-iid", "--dry-run", "--download"),
        *("--out", out, "--data", tmp_path),
    )
    assert fetched["missing"] == []
    assert not file.exists()


@pytest.mark.parametrize(
    ("product", "entrants"),
    [
        ("fig-accuracy", "fediac,switchml"),
        ("fig-noniid", "fediac-beta5"),
        ("fig-scale", "fediac-tuned"),
    ],
)
def test_quick_figures_are_drawn_with_their_numbers(
    fediac: Command, results: Path, product: str, entrants: str
) -> None:
    document = fediac.json(
        "paper", product, "--quick", "--entrants", entrants, "--out", results
    )
    assert document[product]
    assert "<svg" in (results / f"{product}.svg").read_text()
    assert (results / f"{product}.md").read_text().startswith(f"# {product}\n")
    assert json.loads((results / f"{product}.json").read_text())


def test_table_one_is_a_picture_too(fediac: Command, results: Path) -> None:
    words = ("--quick", "--entrants", "fediac,switchml", "--out", results)
    rows = fediac.json("paper", "fig-traffic", *words)["fig-traffic"]
    assert rows == fediac.json("paper", "table1", *words)["table1"]
    assert json.loads((results / "fig-traffic.json").read_text()) == rows
    assert "<svg" in (results / "fig-traffic.svg").read_text()


def test_quick_sweeps_mark_the_best(fediac: Command, results: Path) -> None:
    document = fediac.json(
        *("paper", "sweeps", "--quick", "--out", results),
        *("--entrants", "fediac-tuned,fediac-a1"),
    )
    rows = [row for row in document["sweeps"] if row["family"] == "fediac"]
    assert [row["setting"] for row in rows] == ["a = 1", "a = 2", "a = 3", "a = 4"]
    assert [len(row["seeds"]) for row in rows] == [1, 1, 0, 0]
    for best in ("least_traffic", "fastest"):
        assert sum(row[best] for row in rows) == any(row["reached"] for row in rows)


def test_quick_theory_is_measured_once(fediac: Command, results: Path) -> None:
    words = ("paper", "fig-theory", "--quick", "--out", results)
    first = fediac(*words)
    assert first.code == 0
    assert first.err.splitlines() == [
        "digits theory seed 1 runs to round 2",
        "digits theory seed 1 is done",
    ]
    assert (results / "fig-theory-digits.svg").exists()
    assert fediac(*words).err == ""


def test_a_second_seed_is_shown_with_the_first(fediac: Command, results: Path) -> None:
    words: tuple[Any, ...] = ("paper", "table1", "--quick", "--out", results)
    document = fediac.json(*words, "--entrants", "fedavg", "--seeds", "2")
    seeds = [row["seed"] for row in document["table1"] if row["algorithm"] == "fedavg"]
    assert seeds == [1, 2]


def interrupted(
    fediac: Command,
    out: Path,
    monkeypatch: pytest.MonkeyPatch,
    product: Sequence[str] = ("table1", "--entrants", "fedavg"),
) -> Result:
    """What a user sees who presses Ctrl-C in the second round."""

    def stop(_: ProgressBars, record: Round) -> None:
        if record.number == 2:
            raise KeyboardInterrupt

    words = ["paper", *product, "--quick", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["fediac", *words])
    with monkeypatch.context() as patch:
        patch.setattr(ProgressBars, "round_done", stop)
        return fediac(*words)


def test_ctrl_c_says_that_a_measurement_begins_anew(
    fediac: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = interrupted(fediac, tmp_path, monkeypatch, ["fig-theory"])
    assert result.code == 130
    assert result.err.splitlines()[-2] == (
        f"stopped; every round that was done is in {tmp_path}, but a measurement of "
        "fig-theory begins anew; go on with"
    )
    assert not list(tmp_path.glob("theory/*/*.json"))


def test_what_ctrl_c_stopped_goes_on_with_the_same_command(
    fediac: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "my results"
    result = interrupted(fediac, out, monkeypatch)
    assert result.code == 130
    last = result.err.splitlines()[-1]
    before = f"stopped; every round that was done is in {out}; go on with\n"
    assert result.err.endswith(f"{before}{last}\n")
    words = shlex.split(last)
    assert words[0] == "fediac"
    again = fediac(*words[1:])
    assert again.code == 0
    assert "[1/1] digits fedavg seed 1 goes on to 3 rounds" in again.err
    assert (out / "table1.json").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["table1", "--only", "cifar10-idd"],
            "unknown scenario 'cifar10-idd'; did you mean 'cifar10-iid'?",
        ),
        (["tabel1"], "unknown product 'tabel1'; did you mean 'table1'?"),
        (
            ["table1", "--entrants", "fediacs"],
            "unknown entrant 'fediacs'; did you mean 'fediac'?",
        ),
        (
            ["table1", "--device", "gpu"],
            "--device must be auto, cpu or cuda, got 'gpu'",
        ),
        (
            ["table1", "--seeds", "one"],
            "--seeds must be a range such as 1-4 or a list such as 1,2,4, got 'one'",
        ),
        (
            ["table1", "--seeds", str(1 << 64)],
            f"--seeds must be below 2**64, got {1 << 64}",
        ),
        (["table1", "--entrants", ","], "--entrants must name at least one, got ','"),
        (
            ["table1", "--quick", "--only", "cifar10-iid"],
            "--only must be one of digits, digits-iid, digits-noniid with --quick, "
            "got 'cifar10-iid'",
        ),
        (
            ["fig-theory", "--entrants", "fediac"],
            "--entrants must not be given for fig-theory, which is of FediAC alone, "
            "got fediac",
        ),
    ],
)
def test_what_is_typed_wrong_is_one_line(
    fediac: Command, words: list[str], message: str
) -> None:
    assert fediac("paper", *words) == Result(2, "", f"error: {message}\n")


def test_missing_data_of_a_named_scenario_are_an_error(
    fediac: Command, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    result = fediac(
        *("paper", "table1", "--only", "unipen62"),
        *("--data", data, "--out", tmp_path / "results"),
    )
    message = (
        f"unipen62: needs {data / 'unipen62_by_writer.npz'}; give the folder that has "
        "it with --data"
    )
    assert result == Result(2, "", f"error: {message}\n")


def test_without_any_data_the_first_that_is_missing_is_named(
    fediac: Command, tmp_path: Path
) -> None:
    result = fediac(
        "paper", "table1", "--data", tmp_path, "--out", tmp_path / "results"
    )
    assert result.code == 2
    assert result.err.startswith("error: cifar10-iid: needs ")


def test_nothing_stored_is_nothing_to_show(fediac: Command, tmp_path: Path) -> None:
    result = fediac("paper", "table1", "--no-run", "--out", tmp_path)
    message = f"{tmp_path}: holds no run that table1 could show"
    assert result == Result(2, "", f"error: {message}\n")


def test_help_teaches_with_examples(fediac: Command) -> None:
    result = fediac("paper", "--help")
    assert result.code == 0
    assert "fediac paper table1 --quick" in result.out
    assert "fig-theory" in result.out


@pytest.mark.parametrize("words", [[], ["--allow-other-kernels"]])
def test_runs_go_on_with_other_kernels_only_if_told_to(
    fediac: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    told = []

    def run_plan(_: object, run_options: RunOptions, *__: object) -> list[str]:
        told.append(run_options.allows_other_kernels)
        return ["nothing was run"]

    monkeypatch.setattr(running, "run_plan", run_plan)
    fediac("paper", "table1", "--quick", "--out", tmp_path / "results", *words)
    assert told == [bool(words)]
