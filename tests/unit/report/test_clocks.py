"""Switches are one clock where their times agree."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fediac.report.clocks import SAME, Clock, list_clocks
from fediac.report.contenders import list_contenders
from fediac.report.reading import read_runs
from tests.runs import edit_rounds, write_comparison


def clocks_after(folder: Path, edit: Callable[[dict[str, Any]], object]) -> list[Clock]:
    """Return the clocks of two runs after every round of one was edited."""
    write_comparison(folder, ["fediac", "topk"])
    for name in ("fediac", "topk"):
        edit_rounds(folder / name, _agree)
    edit_rounds(folder / "topk", lambda rounds: [edit(each) for each in rounds])
    return list_clocks(list_contenders(read_runs([folder])[0]))


def _agree(rounds: list[dict[str, Any]]) -> None:
    for each in rounds:
        each["time_s"]["slow"] = each["time_s"]["fast"] * (1.0 + 0.9 * SAME)


def test_switches_that_agree_are_shown_once(tmp_path: Path) -> None:
    (clock,) = clocks_after(tmp_path, lambda _: None)
    assert clock == Clock("fast and slow", "fast")
    assert clock.title == "fast and slow switches"


def test_one_run_that_differs_keeps_them_apart(tmp_path: Path) -> None:
    def differ(each: dict[str, Any]) -> None:
        each["time_s"]["slow"] *= 1.0 + SAME

    clocks = clocks_after(tmp_path, differ)
    assert [each.title for each in clocks] == ["fast switch", "slow switch"]


def test_a_switch_that_a_run_lacks_is_not_taken_for_another(tmp_path: Path) -> None:
    def drop(each: dict[str, Any]) -> None:
        for name in ("time_s", "round_s", "timing"):
            del each[name]["slow"]

    clocks = clocks_after(tmp_path, drop)
    assert [each.switch for each in clocks] == ["fast", "slow"]


@pytest.mark.parametrize("name", ["cifar10-iid", "unipen62"])
def test_stored_runs_agree(name: str) -> None:
    archive = Path(__file__).parents[3] / "results" / "runs" / f"{name}.zip"
    (clock,) = list_clocks(list_contenders(read_runs([archive])[0]))
    assert clock.name == "fast and slow"
