import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from fediac.errors import ConfigError, RunError
from fediac.paper.figures.curves import draw_accuracy, draw_noniid, draw_scale
from fediac.paper.figures.numbers import (
    accuracy_numbers,
    noniid_numbers,
    scale_numbers,
)
from fediac.runs.stored import Run
from tests.unit.paper.figures.pictures import SVG, smallest_text
from tests.unit.paper.made_up import make_run, with_times

Numbers = list[dict[str, Any]]
Draw = Callable[[list[Run], Path], Numbers]
Count = Callable[[list[Run]], Numbers]

CLOCK = "Fast switch; times with the slow one differ by at most 10 %."
MAIN = ("fediac", "fediac-tuned", "switchml", "libra", "omnireduce", "fedavg")
FIVE = (
    "cifar10-iid",
    "cifar10-noniid",
    "unipen62",
    "cifar100-iid",
    "cifar100-noniid",
)


def comparison(*scenarios: str, seeds: tuple[int, ...] = (1,)) -> list[Run]:
    return [
        make_run(
            [0.2 + 0.1 * place + 0.01 * seed, 0.5, 0.6, 0.65],
            scenario=scenario,
            entrant=entrant,
            seed=seed,
            round_s=10.0 + place,
        )
        for scenario in scenarios
        for place, entrant in enumerate(MAIN)
        for seed in seeds
    ]


def betas(scenario: str = "cifar10-noniid") -> list[Run]:
    return [
        make_run(
            [0.3, 0.3 + 0.05 * beta],
            scenario=scenario,
            entrant=f"{name}-beta{beta:g}",
            round_s=250.0,
            data={"partition": "dirichlet", "beta": beta},
        )
        for name in ("fediac", "libra")
        for beta in (0.3, 1.0, 5.0)
    ]


def sizes() -> list[Run]:
    return [
        make_run(
            [0.3, 0.5 + 0.01 * n / percent],
            scenario=scenario,
            round_s=300.0,
            clients={"n_clients": n},
            fediac={"threshold": f"{percent}%"},
        )
        for n in (20, 50)
        for percent in (5, 20)
        for scenario in ("cifar10-iid", "cifar10-noniid")
    ]


def draw_40_s(runs: list[Run], path: Path) -> Numbers:
    return draw_accuracy(runs, path, until_s=40.0)


def count_40_s(runs: list[Run]) -> Numbers:
    return accuracy_numbers(runs, until_s=40.0)


FIGURES: list[tuple[Draw, Count, list[Run]]] = [
    (draw_40_s, count_40_s, comparison("cifar10-iid", seeds=(1, 2))),
    (draw_noniid, noniid_numbers, betas()),
    (draw_scale, scale_numbers, sizes()),
]


def read_words(path: Path) -> list[str]:
    """Return all text of a picture, which is there as text."""
    return ["".join(each.itertext()) for each in _texts(path)]


def note_of(path: Path) -> str:
    """Return the words below the panels, known by their size and colour."""
    lines = [
        each
        for each in _texts(path)
        if "#555555" in each.get("style", "") and "".join(each.itertext())[-1:] != "%"
    ]
    return " ".join("".join(each.itertext()) for each in lines)


def _texts(path: Path) -> list[ElementTree.Element]:
    return list(ElementTree.parse(path).iter(f"{SVG}text"))


@pytest.mark.parametrize(("draw", "count", "runs"), FIGURES)
def test_a_picture_and_its_numbers_are_the_same_every_time(
    tmp_path: Path, draw: Draw, count: Count, runs: list[Run]
) -> None:
    path = tmp_path / "figure.svg"
    numbers = draw(runs, path)
    assert numbers == count(runs)
    assert json.loads(path.with_suffix(".json").read_text()) == numbers
    first = path.read_bytes()
    draw(runs, path)
    assert path.read_bytes() == first
    assert b"dc:date" not in first


@pytest.mark.parametrize("ending", ["png", "pdf"])
def test_other_formats_are_written_too(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"figure.{ending}"
    draw_noniid(betas(), path)
    assert path.read_bytes()[:5] in (b"\x89PNG\r", b"%PDF-")


def test_a_picture_says_in_words_what_it_shows(tmp_path: Path) -> None:
    path = tmp_path / "figure.svg"
    draw_noniid(betas(), path)
    root = ElementTree.parse(path).getroot()
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == "title desc"
    title, description = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None
    assert description is not None
    assert (title.get("id"), description.get("id")) == ("title", "desc")
    assert title.text == "Final test accuracy against beta"
    assert description.text == (
        "Final test accuracy against beta. The numbers are in figure.json."
    )


def test_five_scenarios_are_one_row_as_wide_as_a_page(tmp_path: Path) -> None:
    path = tmp_path / "figure.svg"
    draw_accuracy(comparison(*FIVE), path, until_s=40.0)
    words = read_words(path)
    assert words.count("CIFAR-10,") == 2
    assert words.count("CIFAR-100,") == 2
    assert words.count("62 classes by writer") == 1
    assert words.count("simulated time, s") == 1
    assert words.count("test accuracy, %") == 1
    assert words.count("63 %") == 1
    root = ElementTree.parse(path).getroot()
    assert root.attrib["width"] == "504pt"  # 7 inches
    assert smallest_text(root) >= 7.0
    tops = {each.split()[2] for each in _panels(root)}
    assert len(tops) == 1
    assert [words.count(label) for label in ("FediAC", "SwitchML", "OmniReduce")] == [
        1,
        1,
        1,
    ]


def _panels(root: ElementTree.Element) -> list[str]:
    """Return the outlines of the panels' backgrounds."""
    axes = [
        each for each in root.iter(f"{SVG}g") if each.get("id", "").startswith("axes_")
    ]
    return [each[0][0].attrib["d"] for each in axes]


def test_the_best_votes_have_a_line_and_are_named(tmp_path: Path) -> None:
    path = tmp_path / "figure.svg"
    runs = [
        make_run([0.3, 0.64]),
        make_run([0.3, 0.5, 0.64], entrant="fediac-shared-k2", round_mib=10.0),
        make_run([0.3, 0.5, 0.64], entrant="fediac-shared-k1", round_mib=20.0),
        make_run([0.3, 0.5, 0.5], entrant="fediac-topk-a4", round_mib=1.0),
    ]
    numbers = draw_accuracy(runs, path, until_s=20.0)
    fast = [row["entrant"] for row in numbers if row["switch"] == "fast"]
    assert fast == ["fediac", "fediac-shared-k2"]
    assert "FediAC, best votes" in read_words(path)
    assert "Best votes: CIFAR-10, IID: 16 a vote, k = 2 %." in note_of(path)


def test_time_is_logarithmic(tmp_path: Path) -> None:
    path = tmp_path / "figure.svg"
    draw_accuracy([make_run([0.1] * 9 + [0.64])], path, until_s=100.0)
    assert {"10", "20", "50", "100"} <= set(read_words(path))


def test_lines_that_end_early_are_named(tmp_path: Path) -> None:
    path = tmp_path / "figure.svg"
    runs = [
        make_run([0.3, 0.4, 0.5, 0.6]),
        make_run([0.3, 0.4], entrant="libra"),
        make_run([0.3, 0.4], entrant="fedavg"),
        make_run([0.3, 0.4, 0.5], entrant="switchml", round_s=9.5),
        make_run([0.3, 0.4, 0.5, 0.6], entrant="switchml", scenario="cifar10-noniid"),
    ]
    draw_accuracy(runs, path, until_s=30.0)
    assert note_of(path) == (
        f"{CLOCK} One seed each. A cross: stopped before 30 s (SwitchML on "
        "CIFAR-10, IID (fast switch); libra and FedAvg everywhere)."
    )


def test_nothing_is_said_of_ends_where_all_lines_reach_the_axis(tmp_path: Path) -> None:
    path = tmp_path / "figure.svg"
    draw_accuracy(comparison("cifar10-iid", seeds=(1, 2, 3)), path, until_s=40.0)
    said = f"{CLOCK} Each line is the mean of 3 seeds, its band their range."
    assert note_of(path) == said


def test_a_switch_that_a_scenario_lacks_leaves_its_panel_empty(tmp_path: Path) -> None:
    path = tmp_path / "figure.svg"
    both = make_run([0.3, 0.4])
    other = make_run([0.3, 0.4], scenario="cifar10-noniid")
    rounds = tuple(with_times(r, {"fast": r.time_s["fast"]}) for r in other.rounds)
    only_fast = replace(other, rounds=rounds)
    draw_accuracy([both, only_fast], path, until_s=20.0)
    words = read_words(path)
    assert words.count("63 %") == 1
    assert words.count("64 %") == 1


def test_final_accuracies_of_several_seeds_have_bars(tmp_path: Path) -> None:
    path = tmp_path / "figure.svg"
    data = {"partition": "dirichlet"}
    one = make_run([0.3, 0.4], round_s=200.0, data=data)
    draw_noniid([one], path, until_s=400.0)
    n_bars = path.read_text().count("LineCollection")
    two = make_run([0.3, 0.4], seed=2, round_s=200.0, data=data)
    draw_noniid([one, two], path, until_s=400.0)
    # One on each of the two switches.
    assert path.read_text().count("LineCollection") == n_bars + 2
    assert note_of(path) == (
        "Accuracy of the last round that ended in time. Each point is the mean of 2 "
        "seeds, its bar their range."
    )


def test_a_line_without_a_round_in_time_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "figure.svg"
    runs = [make_run([0.3, 0.4]), make_run([0.3], entrant="libra", round_s=90.0)]
    draw_accuracy(runs, path, until_s=20.0)
    assert "libra" not in read_words(path)


def test_final_accuracy_says_when_it_was(tmp_path: Path) -> None:
    path = tmp_path / "figure.svg"
    draw_noniid(betas(), path)
    words = read_words(path)
    assert "CIFAR-10, non-IID: fast switch, after 500 s" in words
    assert "CIFAR-10, non-IID: slow switch, after 500 s" in words
    assert note_of(path) == (
        "Accuracy of the last round that ended in time. One seed each."
    )


def test_a_time_that_runs_did_not_reach_is_replaced_and_said(tmp_path: Path) -> None:
    path = tmp_path / "figure.svg"
    short = make_run(
        [0.3],
        scenario="cifar10-noniid",
        entrant="libra",
        seed=2,
        data={"partition": "dirichlet"},
    )
    draw_noniid([*betas(), short], path)
    words = read_words(path)
    assert "CIFAR-10, non-IID: fast switch, after 10 s" in words
    assert "CIFAR-10, non-IID: slow switch, after 11 s" in words
    assert note_of(path) == (
        "Accuracy of the last round that ended in time. The time is that of the "
        "shortest run, not 500 s. One seed each. A point is missing where no round "
        "ended in time."
    )


@pytest.mark.parametrize(
    ("round_s", "words"), [(0.8016, "after 0.8 s"), (1234.5, "after 1,234 s")]
)
def test_times_are_written_out(tmp_path: Path, round_s: float, words: str) -> None:
    path = tmp_path / "figure.svg"
    run = make_run([0.3], round_s=round_s, data={"partition": "dirichlet"})
    draw_noniid([run], path, until_s=5_000.0)
    assert f"CIFAR-10, IID: fast switch, {words}" in read_words(path)


def test_scenarios_of_a_figure_against_beta_have_rows(tmp_path: Path) -> None:
    path = tmp_path / "figure.svg"
    others = betas("digits-noniid")
    draw_noniid([*betas(), *others], path)
    words = read_words(path)
    for title in ("CIFAR-10, non-IID", "Digits, non-IID"):
        assert f"{title}: fast switch, after 500 s" in words
    assert words.count("final test accuracy, %") == 2


def test_scale_has_a_panel_for_each_scenario_and_a_line_for_each_size(
    tmp_path: Path,
) -> None:
    path = tmp_path / "figure.svg"
    draw_scale(sizes(), path)
    words = read_words(path)
    iid, other = (f"CIFAR-10, {name}, after 500 s" for name in ("IID", "non-IID"))
    assert words.index(iid) < words.index(other)
    assert [words.count(f"{n} clients") for n in (20, 50)] == [1, 1]
    assert note_of(path).startswith("Slow switch. Accuracy of the last round")


@pytest.mark.parametrize("draw", [draw_40_s, draw_noniid, draw_scale])
def test_nothing_to_show_is_an_error(tmp_path: Path, draw: Draw) -> None:
    path = tmp_path / "figure.svg"
    with pytest.raises(RunError) as caught:
        draw([], path)
    assert str(caught.value) == f"{path}: there are no runs that this figure shows"
    assert not path.exists()


def test_a_picture_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "figure.bmp"
    with pytest.raises(ConfigError) as caught:
        draw_noniid(betas(), path)
    assert str(caught.value) == f"{path}: a picture must end in .png, .pdf, .svg"


def test_a_folder_in_the_way_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "figure.svg"
    path.mkdir()
    with pytest.raises(ConfigError) as caught:
        draw_noniid(betas(), path)
    assert str(caught.value) == f"{path}: is a directory"
