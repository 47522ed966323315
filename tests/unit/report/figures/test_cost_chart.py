"""Time against traffic: everybody's place, who is in colour, whom nobody beats."""

from pathlib import Path

import pytest

from fediac.report.contenders import Contender, list_contenders
from fediac.report.figures.charts import PointChart
from fediac.report.figures.cost_chart import choose_shown, cost_figure
from fediac.report.reading import read_runs
from fediac.report.target import Target
from tests.runs import read_rounds, write_comparison, write_run
from tests.unit.report.test_target import scale

GOAL = Target(0.63, "")


def contenders_in(folder: Path) -> list[Contender]:
    return list_contenders(read_runs([folder])[0])


def chart_of(contenders: list[Contender], target: Target = GOAL) -> PointChart:
    figure = cost_figure(contenders, target)
    assert figure is not None
    chart = figure.variants[0].chart
    assert isinstance(chart, PointChart)
    return chart


def place_runs(
    folder: Path, places: dict[str, tuple[str, float, float]]
) -> list[Contender]:
    """Write runs that take so many times a usual run's traffic and time."""
    for name, (algorithm, payload, time) in places.items():
        scale(write_run(folder / name, algorithm), payload=payload, time=time)
    return contenders_in(folder)


def test_points_are_where_the_target_was_reached(tmp_path: Path) -> None:
    write_comparison(tmp_path)
    contenders = contenders_in(tmp_path)
    chart = chart_of(contenders)
    assert len(chart.points) == 5
    for point in chart.points:
        label = contenders[point.contender].label
        hit = next(r for r in read_rounds(tmp_path / label) if r["accuracy"] >= 0.63)
        assert point.at == (hit["time_s"]["fast"], hit["payload_mib"])
        assert point.low == point.high == point.at
    assert "topk" not in chart.description


def test_several_seeds_are_a_mean_in_a_range(tmp_path: Path) -> None:
    for seed in (1, 2):
        scale(write_run(tmp_path / str(seed), "libra", seed=seed), payload=seed)
    (point,) = chart_of(contenders_in(tmp_path)).points
    assert point.at[1] == pytest.approx(1.5 * point.low[1])
    assert point.high[1] == pytest.approx(2.0 * point.low[1])


def test_nobody_on_the_stairs_is_beaten_in_both(tmp_path: Path) -> None:
    places = {
        "lean": ("fediac", 1.0, 4.0),
        "between": ("fediac", 2.0, 2.0),
        "beaten": ("fediac", 3.0, 3.0),
        "fast": ("fediac", 4.0, 1.0),
    }
    contenders = place_runs(tmp_path, places)
    chart = chart_of(contenders)
    at = {contenders[each.contender].label: each.at for each in chart.points}
    assert chart.front == [at["fast"], at["between"], at["lean"]]
    assert chart.path().count("V") == 3


def test_the_best_of_each_algorithm_and_the_winners_are_in_colour(
    tmp_path: Path,
) -> None:
    places = {
        "lean": ("fediac", 1.0, 4.0),
        "middle": ("fediac", 2.0, 3.0),
        "quick": ("fediac", 3.0, 0.1),
        "libra-a": ("libra", 5.0, 1.0),
        "libra-b": ("libra", 4.0, 1.0),
        "never": ("topk", 0.1, 0.1),
    }
    contenders = place_runs(tmp_path, places)
    shown = {contenders[each].label for each in choose_shown(contenders, GOAL)}
    assert shown == {"lean", "quick", "libra-b", "never"}


def test_settings_of_a_single_algorithm_are_all_in_colour(tmp_path: Path) -> None:
    contenders = place_runs(
        tmp_path, dict.fromkeys(("a", "b", "c"), ("fediac", 1.0, 1.0))
    )
    assert choose_shown(contenders, GOAL) == {0, 1, 2}
    assert choose_shown(contenders, None) == {0, 1, 2}


def test_without_a_target_the_most_accurate_are_in_colour(tmp_path: Path) -> None:
    write_run(tmp_path / "short", "fediac", n_rounds=3)
    write_run(tmp_path / "long", "fediac", n_rounds=9)
    write_run(tmp_path / "other", "libra", n_rounds=2)
    contenders = contenders_in(tmp_path)
    shown = {contenders[each].label for each in choose_shown(contenders, None)}
    assert shown == {"long", "other"}


def test_nobody_at_the_target_is_no_figure(tmp_path: Path) -> None:
    write_comparison(tmp_path)
    assert cost_figure(contenders_in(tmp_path), Target(0.99, "")) is None


def test_what_cost_nothing_has_no_place_on_logarithmic_axes(tmp_path: Path) -> None:
    contenders = place_runs(
        tmp_path, {"free": ("fediac", 0.0, 1.0), "other": ("libra", 1.0, 1.0)}
    )
    (point,) = chart_of(contenders).points
    assert contenders[point.contender].label == "libra"
