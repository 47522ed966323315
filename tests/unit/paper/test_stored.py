import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from fediac.errors import ConfigError, RunError
from fediac.paper.plan import FULL, Product, list_entrants
from fediac.paper.scenarios import find_scenario
from fediac.paper.stored import put_away, read_some, read_stored, run_folder
from fediac.runs.settings import as_document
from tests.runs import edit_rounds, read_rounds, write_run
from tests.support import refuses
from tests.unit.paper.made_up import make_run


def store(
    results: Path, scenario: str, entrant: str, seed: int = 1, *, n_rounds: int = 3
) -> Path:
    """Write a run that has only what is committed: no model, no checkpoint."""
    folder = run_folder(results, scenario, entrant, seed)
    folder.parent.mkdir(parents=True, exist_ok=True)
    write_run(folder, entrant.split("-")[0], n_rounds=n_rounds, seed=seed)
    found = find_scenario(scenario)
    entrants = {
        each.name: each
        for product in Product
        for each in list_entrants(product, found, FULL)
    }
    settings = replace(entrants[entrant].apply(found.settings), seed=seed)
    document = without_none(as_document(settings))
    (folder / "config.toml").write_text(tomli_w.dumps(document))
    return folder


def without_none(table: dict[str, Any]) -> dict[str, Any]:
    """The table as TOML has it."""
    return {
        key: without_none(value) if isinstance(value, dict) else value
        for key, value in table.items()
        if value is not None
    }


def test_all_runs_are_read_by_scenario_entrant_and_seed(tmp_path: Path) -> None:
    store(tmp_path, "cifar10-iid", "switchml")
    store(tmp_path, "cifar10-iid", "fediac-tuned", 10)
    store(tmp_path, "cifar10-iid", "fediac-tuned", 2)
    store(tmp_path, "cifar100-iid", "fediac", n_rounds=5)
    runs = read_stored(tmp_path)
    assert [(run.scenario, run.entrant, run.seed) for run in runs] == [
        ("cifar10-iid", "fediac-tuned", 2),
        ("cifar10-iid", "fediac-tuned", 10),
        ("cifar10-iid", "switchml", 1),
        ("cifar100-iid", "fediac", 1),
    ]
    assert runs[-1].settings.algorithm == "fediac"
    assert [each.number for each in runs[-1].rounds] == [1, 2, 3, 4, 5]
    assert runs[-1].last.number == 5


def test_a_folder_without_results_has_no_runs(tmp_path: Path) -> None:
    assert read_stored(tmp_path / "nowhere") == []


def test_runs_beside_the_stored_ones_are_left_out(tmp_path: Path) -> None:
    folder = store(tmp_path, "digits", "fediac")
    folder.rename(folder.with_name("seed1.again"))
    assert read_stored(tmp_path) == []


def test_the_line_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    folder = store(tmp_path, "digits", "fediac")
    (folder / "summary.json").unlink()
    with (folder / "rounds.jsonl").open("a") as file:
        file.write('{"round": 4, "accu')
    (run,) = read_stored(tmp_path)
    assert len(run.rounds) == 3


def test_a_run_without_a_round_is_left_out(tmp_path: Path) -> None:
    folder = store(tmp_path, "digits", "fediac")
    (folder / "rounds.jsonl").write_text("")
    assert read_stored(tmp_path) == []
    put_away(tmp_path, ("digits", "fediac", 1))
    assert read_stored(tmp_path) == []


def test_runs_that_ended_are_put_into_an_archive_and_read_from_it(
    tmp_path: Path,
) -> None:
    folders = [store(tmp_path, "digits", "fediac", seed) for seed in (1, 2)]
    folders.append(store(tmp_path, "digits", "libra"))
    (folders[1] / "failed.txt").write_text("model diverged\n")
    before = read_stored(tmp_path)
    for run in before:
        put_away(tmp_path, run.key)
    archive = tmp_path / "runs" / "digits.zip"
    assert list((tmp_path / "runs").iterdir()) == [archive]
    after = read_stored(tmp_path)
    assert [run.folder for run in after] == [
        archive / run.entrant / f"seed{run.seed}" for run in before
    ]
    assert [replace(run, folder=Path()) for run in after] == [
        replace(run, folder=Path()) for run in before
    ]
    assert [run.failed for run in after] == ["", "model diverged", ""]
    assert read_some(tmp_path, [("digits", "libra", 1), ("digits", "libra", 2)]) == {
        after[2].key: after[2]
    }


def test_an_archive_is_the_same_to_the_byte_however_its_runs_came(
    tmp_path: Path,
) -> None:
    archives = []
    for results, seeds in ((tmp_path / "a", (1, 2, 3)), (tmp_path / "b", (3, 2, 1, 2))):
        for seed in seeds:
            store(results, "digits", "fediac", seed)
            put_away(results, ("digits", "fediac", seed))
        archives.append((results / "runs" / "digits.zip").read_bytes())
    assert archives[0] == archives[1]


def test_a_run_put_away_leaves_what_is_somebodys_own(tmp_path: Path) -> None:
    folder = store(tmp_path, "digits", "fediac")
    (folder / "notes.txt").write_text("mine")
    put_away(tmp_path, ("digits", "fediac", 1))
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_a_longer_run_that_goes_on_counts_and_not_a_shorter_one(
    tmp_path: Path,
) -> None:
    store(tmp_path, "digits", "fediac", n_rounds=3)
    put_away(tmp_path, ("digits", "fediac", 1))
    for n_rounds, expected in ((2, 3), (3, 3), (4, 4)):
        folder = store(tmp_path, "digits", "fediac", n_rounds=n_rounds)
        (folder / "summary.json").unlink()
        (run,) = read_stored(tmp_path)
        assert len(run.rounds) == expected
        assert (run.folder == folder) == (n_rounds == 4)
        shutil.rmtree(folder)


def test_several_processes_put_runs_into_one_archive(tmp_path: Path) -> None:
    for seed in range(1, 7):
        store(tmp_path, "digits", "fediac", seed)
    code = (
        "import sys; from pathlib import Path; from fediac.paper.stored import "
        "put_away; [put_away(Path(sys.argv[1]), ('digits', 'fediac', int(seed))) "
        "for seed in sys.argv[2:]]"
    )
    words = [sys.executable, "-c", code, str(tmp_path)]
    others = [
        subprocess.Popen([*words, *seeds])
        for seeds in (("1", "2"), ("3", "4"), ("5", "6"))
    ]
    assert [other.wait() for other in others] == [0, 0, 0]
    assert [run.seed for run in read_stored(tmp_path)] == [1, 2, 3, 4, 5, 6]


def test_an_archive_that_is_none_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / "runs" / "digits.zip"
    archive.parent.mkdir()
    archive.write_bytes(b"no zip")
    with refuses(f"{archive}: not a zip archive (File is not a zip file)", RunError):
        read_stored(tmp_path)


def test_a_damaged_file_in_an_archive_is_named(tmp_path: Path) -> None:
    store(tmp_path, "digits", "fediac")
    put_away(tmp_path, ("digits", "fediac", 1))
    archive = tmp_path / "runs" / "digits.zip"
    data = bytearray(archive.read_bytes())
    data[data.index(b"rounds.jsonl") + 200] ^= 0xFF
    archive.write_bytes(data)
    rounds = re.escape(str(archive / "fediac" / "seed1" / "rounds.jsonl"))
    with pytest.raises(RunError, match=rf"^{rounds}: damaged \([^\n]*\)$"):
        read_stored(tmp_path)


def test_rounds_out_of_order_are_refused(tmp_path: Path) -> None:
    folder = store(tmp_path, "digits", "fediac")
    path = folder / "rounds.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    assert len(read_rounds(folder)) == 2
    with refuses(f"{path}:1: round must be 1, got 2", RunError):
        read_stored(tmp_path)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"payload_mib": 0.0}, "payload_mib"),
        ({"time_s": {"fast": 1.0, "slow": 0.0}}, "time_s.slow"),
    ],
)
def test_a_run_that_costs_nothing_is_refused(
    tmp_path: Path, change: dict[str, Any], name: str
) -> None:
    folder = store(tmp_path, "digits", "fediac")
    edit_rounds(folder, lambda records: records[0].update(change))
    text = f"{folder / 'rounds.jsonl'}:1: {name} must be above 0, got 0.0"
    with refuses(text, RunError):
        read_stored(tmp_path)


def test_writers_that_have_no_names_are_refused(tmp_path: Path) -> None:
    path = store(tmp_path, "digits", "fediac") / "config.toml"
    document = tomllib.loads(path.read_text())
    path.write_text(tomli_w.dumps(document | {"versions": 3}))
    with refuses(f"{path}: versions must be a table, got 3", ConfigError):
        read_stored(tmp_path)


def test_a_run_in_the_folder_of_another_seed_is_refused(tmp_path: Path) -> None:
    folder = store(tmp_path, "digits", "fediac")
    other = folder.rename(folder.with_name("seed2"))
    with refuses(f"{other}: holds a run with seed 1", RunError):
        read_stored(tmp_path)


@pytest.mark.parametrize(
    ("target", "number"), [(0.3, 2), (0.2, 2), (0.1, 1), (0.5, None)]
)
def test_the_target_is_reached_in_the_first_round_that_has_it(
    target: float, number: int | None
) -> None:
    found = make_run([0.1, 0.3, 0.2, 0.4]).reach(target)
    assert (None if found is None else found.number) == number


def test_reading_needs_no_torch() -> None:
    code = (
        "import sys; import fediac.paper.command, "
        "fediac.paper.stored; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
