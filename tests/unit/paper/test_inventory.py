from pathlib import Path
from statistics import median

import tomli_w

from fediac.paper.inventory import list_stored, render_inventory
from fediac.paper.stored import read_stored, run_folder
from tests.unit.paper.test_stored import store


def test_every_run_is_listed_with_its_cost_and_origin(tmp_path: Path) -> None:
    for entrant in ("fediac", "libra"):
        store(tmp_path, "digits", entrant, 1)
    folder = run_folder(tmp_path, "digits", "libra", 1)
    with (folder / "config.toml").open("a") as file:
        file.write(
            tomli_w.dumps({"versions": {"machine": "Abacus", "commit": "0" * 40}})
        )
    runs = read_stored(tmp_path)
    rows = list_stored(runs)
    assert [row["entrant"] for row in rows] == ["fediac", "libra"]
    for row, run in zip(rows, runs, strict=True):
        assert row["rounds"] == len(run.rounds)
        clocks = ("train_s", "compress_s", "simulate_s", "evaluate_s")
        spent = sum(getattr(each, name) for each in run.rounds for name in clocks)
        assert row["real s"] == spent > 0
        assert row["train s"] == median(each.train_s for each in run.rounds)
        assert row["compress s"] == median(each.compress_s for each in run.rounds)
        assert row["best"] == max(each.accuracy for each in run.rounds)
    assert (rows[0]["machine"], rows[1]["machine"]) == ("", "Abacus")
    text = render_inventory(rows)
    n_rounds = sum(len(run.rounds) for run in runs)
    assert f"2 runs, {n_rounds} rounds" in text
    assert text.rstrip().endswith("| Abacus | 0000000000 |")


def test_what_ran_where_is_added_up(tmp_path: Path) -> None:
    store(tmp_path, "digits", "fediac", 1)
    for seed in (1, 2):
        store(tmp_path, "digits", "libra", seed)
    rows = list_stored(read_stored(tmp_path))
    for row, machine in zip(rows, ("Abacus", "Abacus", "Slide rule"), strict=True):
        row |= {"machine": machine, "rounds": 7, "real s": 600.0}
    text = render_inventory(rows)
    assert "| digits | Abacus | 2 | 1 | 2 | 14 | 1,200 |" in text
    assert "| digits | Slide rule | 1 | 2 | 1 | 7 | 600 |" in text


def test_all_who_wrote_a_run_are_named(tmp_path: Path) -> None:
    folder = store(tmp_path, "digits", "libra")
    first = {"machine": "Abacus", "commit": "1" * 40}
    versions = {"machine": "Abacus", "commit": "2" * 40 + "-dirty", "earlier": [first]}
    with (folder / "config.toml").open("a") as file:
        file.write(tomli_w.dumps({"versions": versions}))
    text = render_inventory(list_stored(read_stored(tmp_path)))
    assert text.rstrip().endswith("| Abacus | 1111111111, 2222222222-dirty |")


def test_a_machine_without_kernels_is_called_so(tmp_path: Path) -> None:
    folder = store(tmp_path, "digits", "libra")
    first = {"machine": "Abacus", "commit": "1" * 40, "kernels": "beads"}
    versions = {**first, "kernels": "none", "earlier": [first]}
    with (folder / "config.toml").open("a") as file:
        file.write(tomli_w.dumps({"versions": versions}))
    (row,) = list_stored(read_stored(tmp_path))
    assert row["machine"] == "Abacus, Abacus without kernels"
