from pathlib import Path
from xml.etree import ElementTree

import pytest

from fediac.errors import ConfigError
from fediac.paper.figures.traffic import draw_traffic
from fediac.paper.tables import Block, list_rows, make_blocks
from fediac.plan.plots import LINES
from fediac.runs.stored import Run
from tests.unit.paper.figures.pictures import smallest_text
from tests.unit.paper.made_up import make_run

SVG = "{http://www.w3.org/2000/svg}"
UP = (0.3, 0.5, 0.64)
"""Reaches cifar10-iid's 63 % in round 3."""


def blocks_of(*runs: Run) -> list[Block]:
    return make_blocks(list_rows(runs, "fast"), [])


def draw(path: Path, *runs: Run) -> tuple[list[str], ElementTree.Element]:
    """Return the words of the picture, and the picture."""
    draw_traffic(blocks_of(*runs), path)
    root = ElementTree.parse(path).getroot()
    words = ["".join(each.itertext()).strip() for each in root.iter(f"{SVG}text")]
    return words, root


def test_least_traffic_is_on_top_and_who_is_not_there_below(tmp_path: Path) -> None:
    words, _ = draw(
        tmp_path / "traffic.svg",
        make_run(UP, entrant="fediac", round_mib=100.0),
        make_run((0.2, *UP), entrant="fediac-tuned", round_mib=20.5),
        make_run(UP[1:], entrant="switchml", round_mib=1000.0),
        make_run((0.4,), entrant="libra", round_mib=7.0),
    )
    names = ["FediAC, tuned width", "FediAC", "SwitchML", "libra"]
    assert [word for word in words if word in names] == names
    said = [word for word in words if word.endswith((" s", " in 1"))]
    assert said == [
        "82.0 MiB, 4 rounds, 40.0 s",
        "300 MiB, 3 rounds, 30.0 s",
        "2,000 MiB, 2 rounds, 20.0 s",
        "not yet in 1",
    ]
    assert "CIFAR-10, IID: to 63 %" in words


def test_several_seeds_have_their_mean_and_a_line_over_their_range(
    tmp_path: Path,
) -> None:
    runs = [
        make_run(UP, entrant="fediac", seed=seed, round_mib=mib)
        for seed, mib in ((1, 10.0), (2, 20.0))
    ]
    words, root = draw(tmp_path / "seeds.svg", *runs)
    assert "45.0 MiB, 3 rounds, 30.0 s" in words
    ranges = [
        each
        for each in root.iter(f"{SVG}g")
        if each.get("id", "").startswith("LineCollection")
    ]
    assert len(ranges) == 1
    assert not any(
        each.get("id", "").startswith("LineCollection")
        for each in draw(tmp_path / "one.svg", runs[0])[1].iter(f"{SVG}g")
    )


def test_little_traffic_has_ticks_that_tell_it_apart(tmp_path: Path) -> None:
    words, _ = draw(tmp_path / "small.svg", make_run(UP, round_mib=0.2))
    assert "0.5" in words
    words, _ = draw(tmp_path / "large.svg", make_run(UP, round_mib=4000.0))
    assert "10,000" in words


def test_the_axis_is_logarithmic(tmp_path: Path) -> None:
    runs = [
        make_run(UP, entrant=name, round_mib=mib)
        for name, mib in (("fediac", 1.0), ("libra", 10.0), ("switchml", 100.0))
    ]
    _, root = draw(tmp_path / "log.svg", *runs)
    # Only dots are filled with the colours of algorithms.
    colours = {LINES[name][0] for name in ("fediac", "libra", "switchml")}
    dots = [
        float(each.attrib["x"])
        for each in root.iter(f"{SVG}use")
        if any(colour in each.attrib.get("style", "") for colour in colours)
    ]
    assert len(dots) == 3
    assert dots[1] - dots[0] == pytest.approx(dots[2] - dots[1], rel=1e-3)


def test_all_text_is_seven_points_or_more_on_a_page(tmp_path: Path) -> None:
    _, root = draw(tmp_path / "page.svg", make_run(UP))
    assert root.attrib["width"] == "504pt"  # 7 inches
    assert smallest_text(root) >= 7.0


def test_every_scenario_has_a_panel(tmp_path: Path) -> None:
    names = ("cifar10-iid", "cifar10-noniid", "cifar100-iid", "cifar100-noniid")
    runs = [make_run(UP, scenario=name, entrant="switchml") for name in names]
    words, root = draw(tmp_path / "four.svg", *runs)
    assert words.count("SwitchML") == 4
    (title,) = root.iter(f"{SVG}title")
    assert title.text == "Traffic to the target accuracy"


def test_a_picture_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"traffic\.txt"):
        draw_traffic(blocks_of(make_run(UP)), tmp_path / "traffic.txt")
