"""The report's words: true for every kind of outcome."""

from pathlib import Path

import pytest

from fediac.report.contenders import Contender, list_contenders
from fediac.report.reading import read_runs
from fediac.report.summary import cautions, subtitle, summarize, title
from fediac.report.target import Target
from fediac.report.verdict import judge
from tests.runs import give_metric, write_comparison, write_run
from tests.unit.report.test_target import scale

GOAL = Target(0.63, "")


@pytest.fixture
def six(tmp_path: Path) -> list[Contender]:
    return contenders_in(write_comparison(tmp_path))


def contenders_in(*folders: Path) -> list[Contender]:
    return list_contenders(read_runs(folders)[0])


def test_every_verdict_is_a_sentence_and_the_loser_is_named(
    six: list[Contender],
) -> None:
    sentences = summarize(six, GOAL)
    least, fast, slow = judge(six, GOAL)
    assert sentences[:3] == [
        f"{each.title}: fediac, {each.number} in {each.n_rounds}; {each.compared}."
        for each in (least, fast, slow)
    ]
    assert sentences[3:] == ["topk never reached it. Its best was 60.34 % in round 30."]


def test_a_single_run_says_there_is_nothing_to_compare(six: list[Contender]) -> None:
    first, *_, last = summarize(six[:1], GOAL)
    assert first.startswith("Least traffic to 63 %: fediac, ")
    assert "less" not in first
    assert last == "There is nothing here to compare it with."


def test_seeds_are_told_together(tmp_path: Path) -> None:
    for seed in (1, 2):
        scale(write_run(tmp_path / f"seed{seed}", "libra", seed=seed), payload=seed)
    seeds = contenders_in(tmp_path)
    least, *_ = judge(seeds, GOAL)
    first = f"Least traffic to 63 %: libra, {least.number} ({least.spread}) in "
    assert summarize(seeds, GOAL)[0].startswith(first)
    assert title(seeds) == "libra, 2 seeds: made-up, test-cnn"
    assert subtitle(seeds).endswith(" · seeds 1 and 2")
    assert cautions(seeds, []) == []


def test_who_got_there_with_some_seeds_is_named(tmp_path: Path) -> None:
    write_run(tmp_path / "seed1", "libra", seed=1)
    write_run(tmp_path / "seed2", "libra", seed=2, n_rounds=3)
    write_run(tmp_path / "fediac", "fediac")
    text = " ".join(summarize(contenders_in(tmp_path), GOAL))
    assert "libra reached it with 1 of 2 seeds, so it has no mean." in text
    assert "never" not in text


def test_target_nobody_reached_is_admitted(six: list[Contender]) -> None:
    text = " ".join(summarize(six, Target(0.99, "")))
    assert text.startswith(
        "None of the 6 reached 99 % accuracy. The nearest was fediac with 69.8 % in "
        "round 24, after "
    )
    alone = " ".join(summarize(six[:1], Target(0.99, "")))
    assert alone.startswith(
        "fediac did not reach 99 % accuracy. Its best was 69.8 % in round 24, after "
    )


def test_a_metric_of_ones_own_has_its_name(tmp_path: Path) -> None:
    give_metric(write_run(tmp_path / "fediac", "fediac"), "my_task.f1")
    alone = contenders_in(tmp_path)
    assert summarize(alone, Target(0.99, ""))[0] == "fediac did not reach 99 % f1."
    first, last = summarize(alone, None)
    assert first.startswith("fediac had its best f1, 69.8 %, in round 24")
    assert last == "No target f1 is set, so none is compared."


def test_without_target_nothing_is_compared(six: list[Contender]) -> None:
    sentences = summarize(six[:1], None)
    assert sentences[0].startswith("fediac had its best accuracy, 69.8 %, in round 24")
    assert sentences[-1] == "No target accuracy is set, so none is compared."


def test_title_and_subtitle_say_what_was_run(
    six: list[Contender], tmp_path: Path
) -> None:
    assert title(six) == "6 algorithms: made-up, test-cnn"
    assert title(six[:1]) == "fediac: made-up, test-cnn"
    assert subtitle(six) == (
        "20 clients · 11,173,962 parameters · 12 to 30 rounds · seed 1"
    )
    other = write_run(tmp_path / "other" / "given", "fediac", tuning="none")
    pair = contenders_in(tmp_path / "fediac", other)
    assert title(pair) == "fediac, 2 settings: made-up, test-cnn"
    three = contenders_in(tmp_path / "fediac", other, tmp_path / "libra")
    assert title(three) == "2 algorithms, 3 settings: made-up, test-cnn"


def test_cautions_name_settings_that_should_not_differ(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "fediac", n_rounds=2)
    write_run(tmp_path / "b", "libra", n_rounds=2, has_summary=False, seed=2)
    pair = contenders_in(tmp_path)
    notes = cautions(pair, ["topk: no round is finished; left out."])
    assert notes[0] == "topk: no round is finished; left out."
    assert notes[1].startswith("libra: no summary.json: ")
    assert notes[2] == (
        "The runs differ in more than the algorithm (seed): compare them with care."
    )
    assert cautions(pair[:1], []) == []


def test_seeds_that_only_some_have_are_no_reason_for_care(tmp_path: Path) -> None:
    for seed in (1, 2):
        write_run(tmp_path / f"fediac{seed}", "fediac", n_rounds=2, seed=seed)
    write_run(tmp_path / "libra", "libra", n_rounds=2, seed=2)
    assert cautions(contenders_in(tmp_path), []) == []
    write_run(tmp_path / "topk", "topk", n_rounds=2, seed=2, tuning="none")
    (note,) = cautions(contenders_in(tmp_path), [])
    assert "(tuning)" in note
