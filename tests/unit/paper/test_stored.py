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
from fediac.paper.stored import read_one, read_stored, run_folder
from fediac.runs.settings import as_document
from tests.runs import edit_rounds, make_rounds, read_rounds, write_run
from tests.support import refuses
from tests.unit.paper.tiny_scenario import make_run

FIRST = make_rounds("fediac", 1)[0]


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
    edit_rounds(folder, add_real_s)
    return folder


def add_real_s(records: list[dict[str, Any]]) -> None:
    """Add the one number that made-up runs of reports do without."""
    for number, record in enumerate(records, start=1):
        record["real_s"] = 2.0 * number


def without_none(table: dict[str, Any]) -> dict[str, Any]:
    """The table as TOML has it."""
    return {
        key: without_none(value) if isinstance(value, dict) else value
        for key, value in table.items()
        if value is not None
    }


def test_all_runs_are_read_by_scenario_entrant_and_seed(tmp_path: Path) -> None:
    store(tmp_path, "cifar10-iid", "switchml")
    store(tmp_path, "cifar10-iid", "fediac-bound", 10)
    store(tmp_path, "cifar10-iid", "fediac-bound", 2)
    store(tmp_path, "cifar100-iid", "fediac", n_rounds=5)
    runs = read_stored(tmp_path)
    assert [(run.scenario, run.entrant, run.seed) for run in runs] == [
        ("cifar10-iid", "fediac-bound", 2),
        ("cifar10-iid", "fediac-bound", 10),
        ("cifar10-iid", "switchml", 1),
        ("cifar100-iid", "fediac", 1),
    ]
    assert runs[-1].settings.algorithm == "fediac"
    assert [record["round"] for record in runs[-1].records] == [1, 2, 3, 4, 5]
    assert runs[-1].last["round"] == 5


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
    run = read_one(folder)
    assert run is not None
    assert len(run.records) == 3


def test_a_run_without_a_round_is_left_out(tmp_path: Path) -> None:
    folder = store(tmp_path, "digits", "fediac")
    (folder / "rounds.jsonl").write_text("")
    assert read_one(folder) is None
    assert read_stored(tmp_path) == []
    assert read_one(tmp_path / "nothing") is None


def test_rounds_out_of_order_are_refused(tmp_path: Path) -> None:
    folder = store(tmp_path, "digits", "fediac")
    path = folder / "rounds.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    assert len(read_rounds(folder)) == 2
    with refuses(f"{path}:1: round must be 1, got 2", RunError):
        read_stored(tmp_path)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"accuracy": None}, "accuracy must be a number of at least 0, got null"),
        ({"accuracy": 63}, "accuracy must be in 0..1, got 63.0"),
        (
            {"payload_mib": "many"},
            'payload_mib must be a number of at least 0, got "many"',
        ),
        ({"wire_mib": True}, "wire_mib must be a number of at least 0, got true"),
        ({"real_s": -1}, "real_s must be a number of at least 0, got -1"),
        ({"real_s": 1e301}, "real_s must be a number of at least 0, got 1e+301"),
        ({"train_s": None}, "train_s must be a number of at least 0, got null"),
        ({"compress_s": "1"}, 'compress_s must be a number of at least 0, got "1"'),
        ({"simulate_s": []}, "simulate_s must be a number of at least 0, got []"),
        ({"evaluate_s": {}}, "evaluate_s must be a number of at least 0, got {}"),
        ({"time_s": 3.0}, "time_s must be an object, got 3.0"),
        ({"time_s": {}}, "time_s must be an object with at least one switch, got {}"),
        (
            {"time_s": {"fast": -1}},
            "time_s.fast must be a number of at least 0, got -1",
        ),
        (
            {"time_s": {"fast": 1e9}},
            "round_s must name the switches fast like time_s, got fast, slow",
        ),
        (
            {"round_s": {}},
            "round_s must name the switches fast, slow like time_s, got none",
        ),
        (
            {"time_s": {"fast": 1e9}, "round_s": {"fast": 1.0}},
            "time_s must name the switches fast, slow like the line before, got fast",
        ),
        (
            {"time_s": {"fast": 0, "slow": 1e9}},
            "time_s.fast counts from the start and must not fall, got 0.0 after "
            f"{FIRST['time_s']['fast']}",
        ),
        (
            {"payload_mib": 0},
            "payload_mib counts from the start and must not fall, got 0.0 after "
            f"{FIRST['payload_mib']}",
        ),
        ({"traffic": {}}, "traffic.payload is missing"),
        ({"timing": {"fast": 1}}, "timing.fast must be an object, got 1"),
        ({"loss": "low"}, 'loss must be a number or null, got "low"'),
    ],
)
def test_numbers_that_are_none_are_refused(
    tmp_path: Path, change: dict[str, Any], text: str
) -> None:
    folder = store(tmp_path, "digits", "fediac")
    edit_rounds(folder, lambda records: records[1].update(change))
    with refuses(f"{folder / 'rounds.jsonl'}:2: {text}", RunError):
        read_stored(tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        *("accuracy", "payload_mib", "wire_mib", "time_s", "round_s", "traffic"),
        *("real_s", "train_s", "compress_s", "simulate_s", "evaluate_s"),
    ],
)
def test_a_line_without_a_number_is_refused(tmp_path: Path, name: str) -> None:
    folder = store(tmp_path, "digits", "fediac")
    edit_rounds(folder, lambda records: records[2].pop(name))
    with refuses(f"{folder / 'rounds.jsonl'}:3: {name} is missing", RunError):
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
    text = f"{folder / 'rounds.jsonl'}:1: {name} must be a number above 0, got 0.0"
    with refuses(text, RunError):
        read_stored(tmp_path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not JSON (expecting value at column 1)"),
        ("[]", "must be a JSON object"),
    ],
)
def test_a_damaged_summary_is_refused(tmp_path: Path, text: str, why: str) -> None:
    path = store(tmp_path, "digits", "fediac") / "summary.json"
    path.write_text(text)
    with refuses(f"{path}: {why}", RunError):
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
    record = make_run([0.1, 0.3, 0.2, 0.4]).reach(target)
    assert (None if record is None else record["round"]) == number


def test_reading_needs_no_torch() -> None:
    code = (
        "import sys; import fediac.paper.command, "
        "fediac.paper.stored; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
