"""Settings: shared ones once, differing ones side by side."""

from pathlib import Path

from fediac.report.contenders import list_contenders
from fediac.report.differences import differing
from fediac.report.reading import read_runs
from fediac.report.settings_tables import settings_tables
from tests.runs import write_comparison, write_run


def test_shared_and_differing_settings_are_told_apart(tmp_path: Path) -> None:
    runs, _ = read_runs([write_comparison(tmp_path, ["fediac", "switchml"])])
    shared, unlike = settings_tables(list_contenders(runs))
    values = {row.cells[0]: row.cells[1] for row in shared.rows}
    assert (values["seed"], values["data.beta"]) == ("1", "0.5")
    assert values["network.switches"] == "fast, slow"
    assert unlike.columns == ("setting", "fediac", "switchml")
    assert ("fediac.bits", "10", "\u2013") in [row.cells for row in unlike.rows]
    assert differing(runs) == []


def test_tables_of_other_algorithms_and_long_lists_are_left_out(tmp_path: Path) -> None:
    runs, _ = read_runs([write_run(tmp_path / "a", "fediac", n_rounds=1)])
    (table,) = settings_tables(list_contenders(runs))
    names = [row.cells[0] for row in table.rows]
    assert "fediac.threshold" in names
    assert "partition.sha256" in names
    assert "switchml.bits" not in names
    assert "partition.clients" not in names


def test_seeds_of_one_setting_are_named_together(tmp_path: Path) -> None:
    for seed in (1, 2):
        write_run(tmp_path / str(seed), "fediac", n_rounds=1, seed=seed)
    (table,) = settings_tables(list_contenders(read_runs([tmp_path])[0]))
    assert ("seed", "1, 2") in [row.cells for row in table.rows]
