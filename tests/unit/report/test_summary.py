"""The report's words: true for every kind of outcome."""

from pathlib import Path
from typing import Any

import pytest

from fediac.number_words import digits, mib, percent, seconds
from fediac.report.reading import read_runs
from fediac.report.summary import (
    Headline,
    cautions,
    headlines,
    subtitle,
    summarize,
    title,
)
from fediac.report.target import Target
from fediac.runs.stored import Run
from tests.runs import edit_rounds, read_rounds, write_comparison, write_run

GOAL = Target(0.63, "")


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    return read_runs([write_comparison(tmp_path)])[0]


def _first(run: Run, accuracy: float) -> dict[str, float]:
    rounds = read_rounds(run.folder)
    return next(each for each in rounds if each["accuracy"] >= accuracy)


def test_winner_second_best_and_loser_are_named(runs: list[Run]) -> None:
    text = " ".join(summarize(runs, GOAL))
    by_name = {run.label: run for run in runs}
    best, second = _first(by_name["fediac"], 0.63), _first(by_name["libra"], 0.63)
    less = percent(1.0 - best["payload_mib"] / second["payload_mib"])
    assert text.startswith(
        "fediac reached 63 % accuracy with the least traffic: "
        f"{mib(best['payload_mib'])} of payload ({mib(best['wire_mib'])} on the wire) "
        f"in {best['round']} rounds, {less} less than the second best, libra "
        f"({mib(second['payload_mib'])}). It also was there first: after "
    )
    assert "topk never reached it. Its best was 60.34 % in round 30." in text


def test_run_that_was_faster_is_named_for_each_switch(runs: list[Run]) -> None:
    def hurry(rounds: list[dict[str, dict[str, float]]]) -> None:
        for number, each in enumerate(rounds, start=1):
            each["time_s"]["slow"] = 0.5 * number

    by_name = {run.label: run for run in runs}
    edit_rounds(by_name["libra"].folder, hurry)
    again, _ = read_runs([run.folder for run in runs])
    text = " ".join(summarize(again, GOAL))
    number = _first(by_name["libra"], 0.63)["round"]
    earlier = f"was there earlier, after {seconds(0.5 * number)}."
    assert f"With the slow switch libra {earlier}" in text
    assert "With the fast switch libra" not in text
    assert "there first" not in text


def test_only_run_that_reached_has_no_second_best(runs: list[Run]) -> None:
    pair = [run for run in runs if run.label in {"fediac", "topk"}]
    text = " ".join(summarize(pair, GOAL))
    assert text.startswith("Only fediac reached 63 % accuracy: ")
    assert "second best" not in text
    assert not any("less" in each.number for each in headlines(pair, GOAL))


def test_single_run_says_there_is_nothing_to_compare(runs: list[Run]) -> None:
    text = " ".join(summarize(runs[:1], GOAL))
    assert text.startswith("fediac reached 63 % accuracy: ")
    assert text.endswith("There is only this run, so nothing to compare it with.")


def _repeat(folder: Path, algorithm: str, *, seed: int) -> Path:
    """Write a run that sends more with every seed, and takes less time."""

    def edit(rounds: list[dict[str, Any]]) -> None:
        for each in rounds:
            each["payload_mib"] *= seed
            each["time_s"] = dict.fromkeys(each["time_s"], each["round"] / seed)

    run = write_run(folder / f"seed{seed}", algorithm, seed=seed)
    edit_rounds(run, edit)
    return run


def test_repeats_with_other_seeds_are_told_together(tmp_path: Path) -> None:
    for seed in (1, 2):
        _repeat(tmp_path, "libra", seed=seed)
    runs, _ = read_runs([tmp_path])
    hit = _first(runs[0], 0.63)
    payload = f"{digits(hit['payload_mib'])} to {mib(2 * hit['payload_mib'])}"
    times = f"{digits(hit['round'] / 2)} to {seconds(hit['round'])}"
    assert " ".join(summarize(runs, GOAL)) == (
        "libra reached 63 % accuracy, in 2 runs that differ only in the seed: "
        f"{payload} of payload ({mib(hit['wire_mib'])} on the wire) in {hit['round']} "
        f"rounds. They took {times} with the fast switch and {times} with the slow "
        "switch, in simulated time."
    )
    assert headlines(runs, GOAL) == [
        Headline(payload, "payload, libra to 63 %"),
        Headline(times, "to 63 %, fast switch"),
        Headline(times, "to 63 %, slow switch"),
        Headline(f"{hit['round']} rounds", "to 63 %"),
    ]
    assert title(runs) == "libra, 2 runs: made-up, test-cnn"
    assert cautions(runs, []) == []


def test_only_repeats_that_reached_are_told_with_the_loser(tmp_path: Path) -> None:
    folders = [_repeat(tmp_path, "libra", seed=seed) for seed in (1, 2)]
    folders.append(write_run(tmp_path / "topk", "topk"))
    text = " ".join(summarize(read_runs(folders)[0], GOAL))
    assert text.startswith("Only libra reached 63 % accuracy, in 2 runs that differ ")
    assert "topk never reached it." in text


def test_repeats_of_the_best_are_not_said_to_be_earlier(tmp_path: Path) -> None:
    folders = [_repeat(tmp_path, "fediac", seed=seed) for seed in (1, 2)]
    folders.append(write_run(tmp_path / "late", "libra"))
    text = " ".join(summarize(read_runs(folders)[0], GOAL))
    assert text.startswith("fediac seed1 reached 63 % accuracy with the least traffic")
    assert "less than the second best, libra late (" in text
    assert "earlier" not in text
    assert "there first" not in text


def test_target_nobody_reached_is_admitted(runs: list[Run]) -> None:
    text = " ".join(summarize(runs, Target(0.99, "")))
    assert text.startswith(
        "None of the 6 runs reached 99 % accuracy. The nearest was fediac with 69.8 % "
    )
    alone = " ".join(summarize(runs[:1], Target(0.99, "")))
    assert alone.startswith(
        "The run did not reach 99 % accuracy. Its best was 69.8 % in round 24, after "
    )
    assert headlines(runs, Target(0.99, ""))[0].number == "69.8 %"


def test_without_target_nothing_is_compared(runs: list[Run]) -> None:
    sentences = summarize(runs[:1], None)
    assert sentences[0].startswith("fediac had its best accuracy, 69.8 %, in round 24")
    assert sentences[-1] == "No target accuracy is set, so none is compared."


def test_title_and_subtitle_say_what_was_run(runs: list[Run]) -> None:
    assert title(runs) == "6 runs compared: made-up, test-cnn"
    assert title(runs[:1]) == "fediac: made-up, test-cnn"
    assert subtitle(runs) == (
        "20 clients · 11,173,962 parameters · 12 to 30 rounds · seed 1"
    )


def test_cautions_name_settings_that_should_not_differ(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "fediac", n_rounds=2)
    write_run(tmp_path / "b", "libra", n_rounds=2, has_summary=False, seed=2)
    runs, _ = read_runs([tmp_path])
    notes = cautions(runs, ["topk: no round is finished; left out."])
    assert notes[0] == "topk: no round is finished; left out."
    assert notes[1].startswith("libra: no summary.json: ")
    assert notes[2] == (
        "The runs differ in more than the algorithm (seed): compare them with care."
    )
    assert cautions(runs[:1], []) == []
