"""Folders of runs: what is read, what is noted, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fediac.errors import RunError
from fediac.report.reading import read_run, read_runs
from tests.runs import edit_rounds, read_rounds, write_comparison, write_run
from tests.support import refuses


def test_rounds_are_read_as_they_were_written(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "fediac", n_rounds=5)
    run = read_run(folder)
    assert run is not None
    assert [each.record for each in run.rounds] == read_rounds(folder)
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
    assert len({run.look for run in runs}) == 2


def test_folders_of_one_name_are_told_apart_by_their_parents(tmp_path: Path) -> None:
    paths = [write_run(tmp_path / n / "run", "fediac", n_rounds=2) for n in "ab"]
    runs, _ = read_runs(paths)
    assert [run.label for run in runs] == ["a", "b"]
    paths.append(write_run(tmp_path / "a" / "again", "fediac", n_rounds=2))
    runs, _ = read_runs(paths)
    assert [run.label for run in runs] == ["a/run", "b/run", "a/again"]


def test_algorithm_keeps_its_look_whoever_else_is_there(tmp_path: Path) -> None:
    write_comparison(tmp_path / "all")
    every, _ = read_runs([tmp_path / "all"])
    alone, _ = read_runs([tmp_path / "all" / "libra"])
    looks = {run.algorithm: run.look for run in every}
    assert alone[0].look == looks["libra"]
    assert len(set(looks.values())) == len(looks)


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
    with pytest.raises(RunError, match=r"rounds\.jsonl:2: not JSON \(.*column \d+\)$"):
        read_runs([folder])


@pytest.mark.parametrize("junk", [b"\xff\xfe\x00\n", b"[" * 100_000 + b"\n", b"\x00\n"])
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
        (2, "round", 7, "round must be 2, the one after round 1, got 7"),
        (2, "round", "2", 'round must be an integer of at least 0, got "2"'),
        (1, "accuracy", 1.5, "accuracy must be in 0..1, got 1.5"),
        (1, "accuracy", "high", 'accuracy must be a number or null, got "high"'),
        (
            1,
            "payload_mib",
            None,
            "payload_mib must be a number of at least 0, got null",
        ),
        (1, "wire_mib", True, "wire_mib must be a number of at least 0, got true"),
        (1, "gamma", [1], "gamma must be a number or null, got [1]"),
        (1, "time_s", 3.0, "time_s must be an object, got 3.0"),
        (
            1,
            "traffic.wire.up.votes",
            -1,
            "traffic.wire.up.votes must be a number of at least 0, got -1",
        ),
        (
            1,
            "timing.fast.phases",
            [{"upload_s": 1.0}],
            "timing.fast.phases.name is missing",
        ),
        (
            1,
            "timing.fast.finish_s",
            ["soon"],
            "timing.fast.finish_s must be a list of numbers of at least 0, "
            'got ["soon"]',
        ),
        (1, "timing.slow.phases", 3, "timing.slow.phases must be a list, got 3"),
        (
            1,
            "timing.slow.bottleneck",
            3,
            "timing.slow.bottleneck must be a string or null, got 3",
        ),
        (
            2,
            "payload_mib",
            0.5,
            "payload_mib counts from the start and must not fall, got 0.5 after ",
        ),
        (
            2,
            "time_s",
            {"fast": 1e9},
            "time_s must name the switches fast, slow like the line before, got fast",
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


def test_missing_field_is_named(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "fediac", n_rounds=3)
    edit_rounds(folder, lambda rounds: rounds[2].pop("traffic"))
    with refuses(f"{folder / 'rounds.jsonl'}:3: traffic is missing", RunError):
        read_runs([folder])


def test_numbers_that_are_not_finite_count_as_unknown(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "fediac", n_rounds=3)
    edit_rounds(folder, _set(2, "gamma", float("nan")))
    edit_rounds(folder, _set(2, "accuracy", None))
    run = read_run(folder)
    assert run is not None
    assert "gamma" not in run.rounds[1].facts
    assert run.rounds[1].accuracy is None


def test_settings_must_be_toml_with_an_algorithm(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "fediac", n_rounds=1)
    path = folder / "config.toml"
    path.write_text("seed = 1\n")
    with refuses(f"{path}: algorithm must be a string", RunError):
        read_runs([folder])
    path.write_text("seed = \n")
    with pytest.raises(RunError, match=r"config\.toml: not TOML \(.*line 1.*\)$"):
        read_runs([folder])
    for value in ("1" * 5000, "[" * 5000):
        path.write_text(f"seed = {value}\n")
        with pytest.raises(RunError, match=r"config\.toml: not TOML \("):
            read_runs([folder])
    path.unlink()
    with refuses(f"{path}: no such file", RunError):
        read_runs([folder])


def test_damaged_summary_is_named(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "fediac", n_rounds=1)
    (folder / "summary.json").write_text(json.dumps([1]))
    with refuses(f"{folder / 'summary.json'}: must be a JSON object", RunError):
        read_runs([folder])
