"""Which accuracy is compared at, who reached it, and who saved what."""

from pathlib import Path

import pytest

from fediac.report.reading import read_runs
from fediac.report.tables import target_table
from fediac.report.target import (
    Target,
    choose_target,
    rank,
    repeats,
    saving,
    second_best,
)
from fediac.runs.stored import Run
from tests.runs import edit_rounds, read_rounds, write_comparison, write_run


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    return read_runs([write_comparison(tmp_path)])[0]


def test_reached_is_the_first_round_with_the_accuracy(runs: list[Run]) -> None:
    for run in runs:
        expected = [
            each["round"]
            for each in read_rounds(run.folder)
            if each["accuracy"] >= 0.63
        ]
        found = run.reach(0.63)
        assert (found.number if found else None) == (expected[0] if expected else None)


def test_ranking_is_by_traffic_until_the_target(runs: list[Run]) -> None:
    standings = rank(runs, Target(0.63, ""), "wire")
    costs = [each.mib("wire") for each in standings]
    assert costs == sorted(costs)
    assert standings[-1].run.label == "topk"
    assert standings[-1].reached is None


def test_saving_is_against_the_second_best(runs: list[Run]) -> None:
    standings = rank(runs, Target(0.63, ""), "payload")
    best, second = standings[:2]
    assert best.reached is not None
    assert second.reached is not None
    expected = 1.0 - best.reached.mib["payload"] / second.reached.mib["payload"]
    assert saving(standings, "payload") == expected
    assert saving(standings[:1], "payload") is None
    assert saving([best, standings[-1]], "payload") is None


def test_settings_of_one_algorithm_do_not_compete(tmp_path: Path) -> None:
    for name, algorithm, tuning in (
        ("a", "fediac", "local"),
        ("b", "fediac", "none"),
        ("c", "libra", "local"),
    ):
        write_run(tmp_path / name, algorithm, tuning=tuning)
    runs = read_runs([tmp_path])[0]
    standings = rank(runs, Target(0.3, ""), "payload")
    first = standings[0].run.algorithm
    second = second_best(standings)
    assert second is not None
    assert second.run.algorithm != first
    alike = [each for each in standings if each.run.algorithm == "fediac"]
    assert second_best(alike) is alike[1]
    assert second_best(alike[:1]) is None


def test_repeats_with_other_seeds_do_not_compete(tmp_path: Path) -> None:
    for seed in (1, 2):
        write_run(tmp_path / f"seed{seed}", "fediac", seed=seed)
    write_run(tmp_path / "wider", "fediac", tuning="none")
    runs = read_runs([tmp_path])[0]
    standings = rank(runs, Target(0.3, ""), "payload")
    assert [each.run.label for each in standings] == ["seed1", "seed2", "wider"]
    assert second_best(standings) is standings[2]
    assert second_best(standings[:2]) is None
    assert saving(standings[:2], "payload") is None
    assert repeats(standings) == standings[:2]


def test_table_of_repeats_compares_nothing(tmp_path: Path) -> None:
    for seed in (1, 2):
        write_run(tmp_path / f"seed{seed}", "fediac", seed=seed)
    table = target_table(read_runs([tmp_path])[0], Target(0.63, ""))
    assert "compared" not in table.columns
    assert [row.cells[0] for row in table.rows] == ["seed1", "seed2"]


def test_table_starts_with_the_thriftiest_run(runs: list[Run]) -> None:
    table = target_table(runs, Target(0.63, ""))
    first, second, *_, last = table.rows
    assert first.cells[0] == "fediac"
    assert first.cells[3].endswith("% less than libra")
    assert second.cells[3].endswith("\u00d7 the least")
    assert last.cells[:3] == ("topk", "not reached", "\u2013")
    assert all(len(row.cells) == len(table.columns) for row in table.rows)


def test_table_of_one_run_compares_nothing(runs: list[Run]) -> None:
    table = target_table(runs[:1], Target(0.63, ""))
    assert "compared" not in table.columns
    assert all(len(row.cells) == len(table.columns) for row in table.rows)


def test_target_is_what_was_asked_for_before_the_runs_own(runs: list[Run]) -> None:
    asked = choose_target(runs, 0.5)
    own = choose_target(runs, None)
    assert asked is not None
    assert own is not None
    assert (asked.accuracy, own.accuracy) == (0.5, 0.63)


def test_without_a_target_it_is_the_percent_all_reached(tmp_path: Path) -> None:
    for algorithm in ("fediac", "topk"):
        write_run(tmp_path / algorithm, algorithm, n_rounds=20, target=None)
    runs, _ = read_runs([tmp_path])
    best = min(max(r["accuracy"] for r in read_rounds(run.folder)) for run in runs)
    target = choose_target(runs, None)
    assert target is not None
    assert target.accuracy == int(100 * best) / 100
    assert target.origin == (
        "The runs set no target; this is the highest whole percent all of them reached."
    )


def test_runs_with_unlike_targets_say_so(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "fediac", n_rounds=20, target=0.6)
    write_run(tmp_path / "b", "libra", n_rounds=20, target=0.63)
    target = choose_target(read_runs([tmp_path])[0], None)
    assert target is not None
    assert "do not share a target (set: 60 % and 63 %)" in target.origin


def test_one_run_without_a_target_has_none(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "fediac", target=None)
    assert choose_target(read_runs([folder])[0], None) is None


def test_runs_that_never_learned_have_no_target(tmp_path: Path) -> None:
    for name in "ab":
        folder = write_run(tmp_path / name, "fediac", n_rounds=2, target=None)
        edit_rounds(folder, lambda rounds: [r.update(accuracy=0.0) for r in rounds])
    assert choose_target(read_runs([tmp_path])[0], None) is None
