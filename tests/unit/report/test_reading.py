"""Folders of runs: what is read, what is noted, and what is refused."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fediac.errors import ConfigError, RunError
from fediac.report.reading import read_runs
from fediac.runs.stored import read_run
from tests.runs import edit_rounds, read_rounds, write_comparison, write_run, zip_folder
from tests.support import refuses


def test_rounds_are_read_as_they_were_written(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "fediac", n_rounds=5)
    run = read_run(folder)
    assert run is not None
    again = [json.loads(msgspec.json.encode(each)) for each in run.rounds]
    assert again == read_rounds(folder)
    assert run.notes == ()
    assert run.switches == ("fast", "slow")


def test_folder_of_runs_is_in_the_catalogs_order(tmp_path: Path) -> None:
    write_comparison(tmp_path, ["topk", "fediac", "switchml"])
    (tmp_path / "plots").mkdir()
    runs, notes = read_runs([tmp_path])
    assert [run.label for run in runs] == ["fediac", "switchml", "topk"]
    assert notes == []


def test_folder_named_twice_is_read_once(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "fediac", n_rounds=2)
    runs, _ = read_runs([folder, tmp_path])
    assert len(runs) == 1


def test_runs_of_one_algorithm_are_told_apart_by_folder(tmp_path: Path) -> None:
    for name in ("a3", "a4"):
        write_run(tmp_path / name, "fediac", n_rounds=2)
    runs, _ = read_runs([tmp_path])
    assert [run.label for run in runs] == ["a3", "a4"]


def test_folders_of_one_name_are_told_apart_by_their_parents(tmp_path: Path) -> None:
    paths = [write_run(tmp_path / n / "run", "fediac", n_rounds=2) for n in "ab"]
    runs, _ = read_runs(paths)
    assert [run.label for run in runs] == ["a", "b"]
    paths.append(write_run(tmp_path / "a" / "again", "fediac", n_rounds=2))
    runs, _ = read_runs(paths)
    assert [run.label for run in runs] == ["a/run", "b/run", "a/again"]


def test_missing_summary_is_noted(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "a", "libra", n_rounds=3, has_summary=False))
    assert run is not None
    assert run.notes == (
        "no summary.json: it is still running or was interrupted; what it "
        "finished is shown: 3 rounds.",
    )


def test_half_written_last_line_is_left_out_with_a_note(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "fediac", n_rounds=4, has_summary=False)
    path = folder / "rounds.jsonl"
    path.write_bytes(path.read_bytes()[:-100])
    run = read_run(folder)
    assert run is not None
    assert run.last.number == 3
    assert run.notes[0] == "the last line of rounds.jsonl is half-written; left out."


def test_last_line_that_only_lacks_its_end_counts(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "fediac", n_rounds=4)
    path = folder / "rounds.jsonl"
    path.write_bytes(path.read_bytes()[:-1])
    run = read_run(folder)
    assert run is not None
    assert run.last.number == 4
    assert run.notes == ()


def test_summary_that_counts_other_rounds_is_noted(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "fediac", n_rounds=4)
    edit_rounds(folder, lambda rounds: rounds.pop())
    run = read_run(folder)
    assert run is not None
    assert run.notes == (
        "summary.json tells of another number of rounds (4) than rounds.jsonl holds "
        "(3); shown is rounds.jsonl.",
    )


def test_run_without_a_round_is_left_out_of_a_comparison(tmp_path: Path) -> None:
    write_comparison(tmp_path, ["fediac", "topk"])
    (tmp_path / "topk" / "rounds.jsonl").write_text("")
    runs, notes = read_runs([tmp_path])
    assert [run.label for run in runs] == ["fediac"]
    assert notes == ["topk: no round is finished; left out."]


def test_only_a_run_without_a_round_is_refused(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "fediac")
    (folder / "rounds.jsonl").write_text('{"round": 1, "ti')
    with refuses(f"{folder}: no round is finished yet", RunError):
        read_runs([folder])


def test_missing_folder_and_folder_without_runs_are_refused(tmp_path: Path) -> None:
    with refuses(f"{tmp_path / 'x'}: no such folder", RunError):
        read_runs([tmp_path / "x"])
    text = (
        f"{tmp_path}: no rounds.jsonl here or up to 2 folders down; give the folder "
        "that a run wrote"
    )
    with refuses(text, RunError):
        read_runs([tmp_path])


def test_runs_of_a_scenario_are_found_two_folders_down(tmp_path: Path) -> None:
    for place in ("libra/seed1", "libra/seed2", "fediac/seed1"):
        write_run(tmp_path / place, place.split("/")[0], n_rounds=2)
    (tmp_path / "libra" / "seed2" / "rounds.jsonl").write_text("")
    runs, notes = read_runs([tmp_path])
    assert [run.label for run in runs] == ["fediac", "libra"]
    assert notes == ["libra/seed2: no round is finished; left out."]


def test_runs_further_down_than_others_are_another_comparison(tmp_path: Path) -> None:
    write_run(tmp_path / "fediac", "fediac", n_rounds=2)
    write_run(tmp_path / "older" / "libra", "libra", n_rounds=2)
    runs, _ = read_runs([tmp_path])
    assert [run.label for run in runs] == ["fediac"]


@pytest.mark.parametrize("top", ["results/runs", "results"])
def test_many_scenarios_are_refused_and_one_is_named(tmp_path: Path, top: str) -> None:
    for scenario in ("iid", "noniid"):
        write_run(tmp_path / "results/runs" / scenario / "libra/seed1", "libra")
    text = (
        f"{tmp_path / top}: no rounds.jsonl here or up to 2 folders down; give the "
        "folder that a run wrote, or one that holds runs, such as "
        f"{tmp_path / 'results/runs/iid'}"
    )
    with refuses(text, RunError):
        read_runs([tmp_path / top])


def test_line_that_is_not_json_is_named(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "fediac", n_rounds=3)
    path = folder / "rounds.jsonl"
    lines = path.read_text().splitlines()
    lines[1] = lines[1][:50]
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(
        RunError, match=r"rounds\.jsonl:2: not JSON \(input data was truncated\)$"
    ):
        read_runs([folder])


@pytest.mark.parametrize("junk", [b"\xff\xfe\x00\n", b"\x00\n", b'{"round"\n'])
def test_line_of_junk_is_named(tmp_path: Path, junk: bytes) -> None:
    folder = write_run(tmp_path / "a", "fediac", n_rounds=3)
    path = folder / "rounds.jsonl"
    path.write_bytes(path.read_bytes() + junk)
    with pytest.raises(RunError, match=r"^[^\n]*rounds\.jsonl:4: not JSON \([^\n]*\)$"):
        read_runs([folder])


def _set(number: int, key: str, value: object) -> Callable[[list[Any]], None]:
    def edit(rounds: list[Any]) -> None:
        *path, last = key.split(".")
        place = rounds[number - 1]
        for name in path:
            place = place[name]
        place[last] = value

    return edit


@pytest.mark.parametrize(
    ("number", "key", "value", "text"),
    [
        (2, "round", 7, "round must be 2, got 7"),
        (2, "round", "2", "round: expected int, got str"),
        (2, "round", 0, "round: expected int >= 1"),
        (1, "accuracy", 1.5, "accuracy: expected float <= 1.0"),
        (1, "accuracy", "high", "accuracy: expected float, got str"),
        (1, "accuracy", None, "accuracy: expected float, got null"),
        (1, "payload_mib", None, "payload_mib: expected float, got null"),
        (1, "payload_mib", "many", "payload_mib: expected float, got str"),
        (1, "wire_mib", True, "wire_mib: expected float, got bool"),
        (1, "real_s", -1, "real_s: expected float >= 0.0"),
        (1, "real_s", 1e301, "real_s: expected float <= 1e+300"),
        (1, "loss", "low", "loss: expected float | null, got str"),
        (1, "gamma", [1], "gamma: expected float, got array"),
        (1, "gamma", float("nan"), "not JSON (json is malformed: invalid character"),
        (1, "time_s", 3.0, "time_s: expected object, got float"),
        (1, "time_s", {}, "time_s: expected object of length >= 1"),
        (1, "time_s.fast", -1, "time_s[...]: expected float >= 0.0"),
        (1, "traffic.wire.up.votes", -1, "traffic.wire.up[...]: expected int >= 0"),
        (1, "traffic.wire", {}, "traffic.wire: object missing required field up"),
        (
            1,
            "timing.fast.phases",
            [{"upload_s": 1.0}],
            "timing[...].phases[0]: object missing required field name",
        ),
        (
            1,
            "timing.fast.finish_s",
            ["soon"],
            "timing[...].finish_s[0]: expected float, got str",
        ),
        (1, "timing.slow", 3, "timing[...]: expected object, got int"),
        (
            1,
            "round_s",
            {"fast": 1.0},
            "round_s must name the switches fast, slow like time_s, got fast",
        ),
        (
            1,
            "timing",
            {},
            "timing must name the switches fast, slow like time_s, got none",
        ),
        (
            2,
            "payload_mib",
            0.5,
            "payload_mib counts from the start and must not fall, got 0.5 after ",
        ),
        (
            2,
            "time_s.slow",
            0,
            "time_s.slow counts from the start and must not fall, got 0.0 after ",
        ),
    ],
)
def test_wrong_value_is_named_with_its_line(
    tmp_path: Path, number: int, key: str, value: object, text: str
) -> None:
    folder = write_run(tmp_path / "a", "fediac", n_rounds=3)
    edit_rounds(folder, _set(number, key, value))
    with pytest.raises(RunError) as caught:
        read_runs([folder])
    assert str(caught.value).startswith(f"{folder / 'rounds.jsonl'}:{number}: {text}")


def test_rounds_timed_on_other_switches_are_refused(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "fediac", n_rounds=3)

    def drop_slow(rounds: list[Any]) -> None:
        for name in ("time_s", "round_s", "timing"):
            rounds[1][name] = {"fast": rounds[1][name]["fast"]}

    edit_rounds(folder, drop_slow)
    text = "time_s must name the switches fast, slow like the line before, got fast"
    with refuses(f"{folder / 'rounds.jsonl'}:2: {text}", RunError):
        read_runs([folder])


def test_missing_field_is_named(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "fediac", n_rounds=3)
    edit_rounds(folder, lambda rounds: rounds[2].pop("traffic"))
    with refuses(
        f"{folder / 'rounds.jsonl'}:3: object missing required field traffic", RunError
    ):
        read_runs([folder])


def test_settings_must_be_there_and_toml(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "fediac", n_rounds=1)
    path = folder / "config.toml"
    path.write_text("seed = \n")
    with pytest.raises(ConfigError, match=r"config\.toml: .*line 1.*\)$"):
        read_runs([folder])
    path.unlink()
    with refuses(f"{path}: no such file or directory", ConfigError):
        read_runs([folder])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not JSON (input data was truncated)"),
        ("[1]", "expected object, got array"),
        ("{}", "object missing required field rounds"),
    ],
)
def test_damaged_summary_is_named(tmp_path: Path, text: str, why: str) -> None:
    folder = write_run(tmp_path / "a", "fediac", n_rounds=1)
    (folder / "summary.json").write_text(text)
    with refuses(f"{folder / 'summary.json'}: {why}", RunError):
        read_runs([folder])


def test_an_archive_is_read_like_the_folder_that_is_in_it(tmp_path: Path) -> None:
    for place in ("libra/seed1", "libra/seed2", "fediac/seed1"):
        write_run(tmp_path / "all" / place, place.split("/")[0], n_rounds=2)
    (tmp_path / "all" / "libra" / "seed2" / "rounds.jsonl").write_text("")
    archive = zip_folder(tmp_path / "all")
    runs, notes = read_runs([archive])
    expected, _ = read_runs([tmp_path / "all"])
    assert [replace(run, folder=Path()) for run in runs] == [
        replace(run, folder=Path()) for run in expected
    ]
    assert runs[0].folder == archive / "fediac" / "seed1"
    assert notes == ["libra/seed2: no round is finished; left out."]
    (one,), _ = read_runs([archive / "libra"])
    assert one.folder == archive / "libra" / "seed1"


def test_an_archive_of_a_scenario_is_named(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "iid" / "libra/seed1", "libra")
    archive = zip_folder(tmp_path / "runs" / "iid")
    shutil.rmtree(tmp_path / "runs" / "iid")
    for top in (tmp_path, tmp_path / "runs"):
        text = (
            f"{top}: no rounds.jsonl here or up to 2 folders down; give the folder "
            f"that a run wrote, or one that holds runs, such as {archive}"
        )
        with refuses(text, RunError):
            read_runs([top])


def test_what_is_missing_in_an_archive_is_named(tmp_path: Path) -> None:
    write_run(tmp_path / "iid" / "libra/seed1", "libra", n_rounds=2)
    (tmp_path / "iid" / "libra" / "seed1" / "config.toml").unlink()
    archive = zip_folder(tmp_path / "iid")
    with refuses(f"{archive / 'fedavg'}: no such folder", RunError):
        read_runs([archive / "fedavg"])
    config = archive / "libra" / "seed1" / "config.toml"
    with refuses(f"{config}: no such file or directory", ConfigError):
        read_runs([archive])
