"""Which accuracy is compared at, who reached it, and who saved what."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from fediac.number_words import digits
from fediac.report.contenders import Contender, list_contenders
from fediac.report.reading import read_runs
from fediac.report.tables import target_table
from fediac.report.target import (
    Standing,
    Target,
    choose_target,
    duration,
    find_saving,
    list_rivals,
    rank,
    traffic,
)
from fediac.runs.stored import Run
from tests.runs import edit_rounds, read_rounds, write_comparison, write_run

GOAL = Target(0.63, "")
PAYLOAD = traffic("payload")


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    return read_runs([write_comparison(tmp_path)])[0]


def scale(folder: Path, **factors: float) -> Path:
    """Multiply what a run sent and how long it took."""

    def edit(rounds: list[dict[str, Any]]) -> None:
        for each in rounds:
            each["payload_mib"] *= factors.get("payload", 1.0)
            time = factors.get("time", 1.0)
            each["time_s"] = {key: time * s for key, s in each["time_s"].items()}

    edit_rounds(folder, edit)
    return folder


def contenders_in(folder: Path) -> list[Contender]:
    return list_contenders(read_runs([folder])[0])


def labels(standings: Sequence[Standing]) -> list[str]:
    return [each.contender.label for each in standings]


def test_reached_is_the_first_round_with_the_accuracy(runs: list[Run]) -> None:
    for run in runs:
        expected = [
            each["round"]
            for each in read_rounds(run.folder)
            if each["accuracy"] >= 0.63
        ]
        found = run.reach(0.63)
        assert (found.number if found else None) == (expected[0] if expected else None)


def test_ranking_is_by_what_was_spent_until_the_target(runs: list[Run]) -> None:
    for cost in (traffic("wire"), duration("slow")):
        standings = rank(list_contenders(runs), GOAL, cost)
        costs = [each.cost(cost) for each in standings]
        assert costs == sorted(costs)
        assert labels(standings)[-1] == "topk"
        assert standings[-1].reached == ()


def test_a_cost_is_the_mean_over_seeds(tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        scale(write_run(tmp_path / str(seed), "libra", seed=seed), payload=seed)
    (standing,) = rank(contenders_in(tmp_path), GOAL, PAYLOAD)
    assert len(standing.rounds) == 3
    assert standing.cost(PAYLOAD) == fmean(standing.costs(PAYLOAD))
    assert standing.costs(PAYLOAD)[2] == 3 * standing.costs(PAYLOAD)[0]


def test_who_missed_the_target_with_one_seed_has_no_cost(tmp_path: Path) -> None:
    write_run(tmp_path / "1", "libra", seed=1)
    write_run(tmp_path / "2", "libra", seed=2, n_rounds=3)
    (standing,) = rank(contenders_in(tmp_path), GOAL, PAYLOAD)
    assert standing.reached == ()
    assert standing.cost(PAYLOAD) == float("inf")


def test_each_seed_has_its_own_target(tmp_path: Path) -> None:
    for seed in (1, 2):
        write_run(tmp_path / str(seed), "libra", seed=seed)
    target = Target(0.45, "", {1: 0.3, 2: 0.6})
    (standing,) = rank(contenders_in(tmp_path), target, PAYLOAD)
    rounds = read_rounds(tmp_path / "1")
    expected = [
        next(each["round"] for each in rounds if each["accuracy"] >= accuracy)
        for accuracy in (0.3, 0.6)
    ]
    assert [each.number for each in standing.reached] == expected
    assert expected[0] < expected[1]


def test_rivals_are_the_best_of_other_algorithms(tmp_path: Path) -> None:
    for place, (name, algorithm) in enumerate(
        [
            ("a", "fediac"),
            ("b", "fediac"),
            ("c", "libra"),
            ("d", "libra"),
            ("e", "topk"),
        ]
    ):
        folder = write_run(
            tmp_path / name, algorithm, tuning=("local", "none")[place % 2]
        )
        scale(folder, payload=10.0**place)
    standings = rank(contenders_in(tmp_path), Target(0.3, ""), PAYLOAD)
    assert labels(standings) == ["a", "b", "c", "d", "e"]
    assert labels(list_rivals(standings)) == ["c", "e"]
    assert labels(list_rivals(standings[:2])) == ["b"]
    assert list_rivals(standings[:1]) == []


def test_who_never_got_there_is_no_rival(runs: list[Run]) -> None:
    standings = rank(list_contenders(runs), GOAL, PAYLOAD)
    assert "topk" not in labels(list_rivals(standings))


def test_a_saving_is_of_the_seeds_that_both_have(tmp_path: Path) -> None:
    scale(write_run(tmp_path / "a1", "fediac", seed=1), payload=1.0)
    scale(write_run(tmp_path / "a2", "fediac", seed=2), payload=9.0)
    scale(write_run(tmp_path / "b1", "fediac", seed=1, tuning="none"), payload=2.0)
    one, other = (each for each in rank(contenders_in(tmp_path), GOAL, PAYLOAD)[::-1])
    assert len(one.rounds) == 2
    assert find_saving(one, other, PAYLOAD) == pytest.approx(0.5)


def test_a_saving_without_a_shared_seed_is_of_all(tmp_path: Path) -> None:
    write_run(tmp_path / "a1", "fediac", seed=1)
    scale(write_run(tmp_path / "b2", "fediac", seed=2, tuning="none"), payload=4.0)
    one, other = rank(contenders_in(tmp_path), GOAL, PAYLOAD)
    assert find_saving(one, other, PAYLOAD) == pytest.approx(0.75)


def test_nothing_is_saved_against_who_spent_nothing(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "fediac")
    scale(write_run(tmp_path / "b", "libra"), payload=0.0)
    free, other = rank(contenders_in(tmp_path), GOAL, PAYLOAD)
    assert find_saving(other, free, PAYLOAD) is None


def test_the_main_table_shows_traffic_and_seconds_first(runs: list[Run]) -> None:
    table = target_table(list_contenders(runs), GOAL)
    assert table.columns == (
        "run",
        "MiB",
        "seconds, fast",
        "seconds, slow",
        "rounds",
        "compared",
        "MiB on the wire",
    )
    assert all(len(row.cells) == len(table.columns) for row in table.rows)


def test_table_starts_with_the_thriftiest(runs: list[Run]) -> None:
    table = target_table(list_contenders(runs), GOAL)
    first, second, *_, last = table.rows
    assert first.cells[0] == "fediac"
    assert first.cells[5].endswith("% less than libra")
    assert second.cells[5].endswith("\u00d7 the least")
    assert last.cells[:2] == ("topk", "\u2013")
    assert last.cells[4:6] == ("not in 30", "\u2013")


def test_table_of_seeds_has_means_and_ranges(tmp_path: Path) -> None:
    for seed in (1, 2):
        scale(write_run(tmp_path / f"seed{seed}", "libra", seed=seed), payload=seed)
    table = target_table(contenders_in(tmp_path), GOAL)
    (row,) = table.rows
    hit = next(r for r in read_rounds(tmp_path / "seed1") if r["accuracy"] >= 0.63)
    low, high = hit["payload_mib"], 2 * hit["payload_mib"]
    assert row.cells[:2] == (
        "libra",
        f"{digits(1.5 * low)} ({digits(low)} to {digits(high)})",
    )
    assert dict(zip(table.columns, row.cells, strict=True))["seeds"] == "2"


def test_table_says_which_part_of_the_seeds_missed_the_target(tmp_path: Path) -> None:
    write_run(tmp_path / "seed1", "libra", seed=1)
    write_run(tmp_path / "seed2", "libra", seed=2, n_rounds=3)
    table = target_table(contenders_in(tmp_path), GOAL)
    cells = dict(zip(table.columns, table.rows[0].cells, strict=True))
    assert (cells["MiB"], cells["rounds"]) == ("\u2013", "1 of 2 not in 3")


def test_table_of_one_compares_nothing(runs: list[Run]) -> None:
    table = target_table(list_contenders(runs[:1]), GOAL)
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
