"""The verdicts: the least of all, beside the best of another algorithm."""

from pathlib import Path

import pytest

from fediac.number_words import about_percent, digits, mib, seconds
from fediac.report.contenders import Contender, list_contenders
from fediac.report.reading import read_runs
from fediac.report.target import Target
from fediac.report.verdict import judge
from tests.runs import read_rounds, write_comparison, write_run
from tests.unit.report.test_target import scale

GOAL = Target(0.63, "")


def contenders_in(folder: Path) -> list[Contender]:
    return list_contenders(read_runs([folder])[0])


def first_hit(folder: Path) -> dict[str, float]:
    hit: dict[str, float] = next(
        each for each in read_rounds(folder) if each["accuracy"] >= GOAL.accuracy
    )
    return hit


def test_least_traffic_has_the_best_other_algorithm_beside_it(tmp_path: Path) -> None:
    write_comparison(tmp_path)
    least, *_ = judge(contenders_in(tmp_path), GOAL)
    ours, libra, switchml = (
        first_hit(tmp_path / name)["payload_mib"]
        for name in ("fediac", "libra", "switchml")
    )
    assert ours < libra < switchml
    assert least.title == "Least traffic to 63 %"
    assert least.winner.contender.label == "fediac"
    assert least.number == mib(ours)
    assert least.compared == (
        f"{about_percent(1 - ours / libra)} less than libra ({mib(libra)}), the best "
        f"other algorithm, and {about_percent(1 - ours / switchml)} less than switchml "
        f"({mib(switchml)})"
    )


def test_a_better_setting_of_the_winner_is_not_the_best_other(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "fediac")
    scale(write_run(tmp_path / "b", "fediac", tuning="none"), payload=1.1)
    scale(write_run(tmp_path / "c", "libra"), payload=100.0)
    least, *_ = judge(contenders_in(tmp_path), GOAL)
    assert least.winner.contender.name == "fediac a"
    assert "less than libra c (" in least.compared
    assert "fediac b" not in least.compared


def test_settings_are_compared_where_there_is_no_other_algorithm(
    tmp_path: Path,
) -> None:
    write_run(tmp_path / "a", "fediac")
    scale(write_run(tmp_path / "b", "fediac", tuning="none"), payload=2.0)
    least, *_ = judge(contenders_in(tmp_path), GOAL)
    assert least.compared.startswith("50 % less than fediac b (")
    assert least.compared.endswith("), the best other setting")


def test_the_fastest_is_another_where_it_is(tmp_path: Path) -> None:
    write_run(tmp_path / "fediac", "fediac")
    scale(write_run(tmp_path / "libra", "libra"), time=0.01)
    least, fast, slow = judge(contenders_in(tmp_path), GOAL)
    assert least.winner.contender.label == "fediac"
    assert [each.title for each in (fast, slow)] == [
        "Fastest to 63 %, fast switch",
        "Fastest to 63 %, slow switch",
    ]
    assert fast.winner.contender.label == "libra"
    time_s = first_hit(tmp_path / "libra")["time_s"]["fast"]  # type: ignore[index]  # a table of the line
    assert fast.number == seconds(time_s)
    assert "less time than fediac (" in fast.compared


def test_several_seeds_have_their_range(tmp_path: Path) -> None:
    for seed in (1, 2):
        scale(write_run(tmp_path / str(seed), "libra", seed=seed), payload=seed)
    least, *_ = judge(contenders_in(tmp_path), GOAL)
    hit = first_hit(tmp_path / "1")["payload_mib"]
    assert least.number == mib(1.5 * hit)
    assert least.spread == f"2 seeds, {digits(hit)} to {digits(2 * hit)}"
    assert least.compared == ""


def test_nobody_at_the_target_is_no_verdict(tmp_path: Path) -> None:
    write_comparison(tmp_path)
    assert judge(contenders_in(tmp_path), Target(0.99, "")) == []


@pytest.mark.parametrize(
    ("share", "words"), [(0.64, "64 %"), (0.0123, "1 %"), (0.00512, "0.51 %")]
)
def test_shares_are_as_short_as_they_may_be(share: float, words: str) -> None:
    assert about_percent(share) == words
