from collections.abc import Sequence

import pytest
from rich.console import Console

from fediac.paper.sweeps import (
    as_documents,
    list_candidates,
    render_markdown,
    render_tables,
)
from fediac.runs.stored import Run
from tests.unit.paper.made_up import make_run

UP = (0.3, 0.5, 0.64, 0.7)
"""Reaches cifar10-iid's 63 % in round 3."""

MISSED = [0.3] * 100
"""Has not reached it when its scenario gives up."""


def tried() -> list[Run]:
    return [
        make_run(UP, entrant="fediac-tuned", round_mib=100.0),
        make_run(UP, entrant="fediac-a2", round_mib=120.0),
        make_run(UP[1:], entrant="fediac-a1", round_mib=180.0),
        make_run(MISSED, entrant="fediac-a4", round_mib=5.0),
        make_run(UP, entrant="switchml", round_mib=500.0),
    ]


def best(runs: Sequence[Run]) -> list[str]:
    return [each.entrant for each in list_candidates(runs) if each.least_traffic]


def test_every_setting_of_a_family_is_listed_and_the_best_marked() -> None:
    found = list_candidates(tried())
    assert [(each.entrant, each.setting) for each in found] == [
        ("fediac-a1", "a = 1"),
        ("fediac-a2", "a = 2"),
        ("fediac-tuned", "a = 3"),
        ("fediac-a4", "a = 4"),
        ("switchml-bits6", "b = 6"),
        ("switchml-bits7", "b = 7"),
        ("switchml", "b = 8"),
        ("switchml-bits10", "b = 10"),
        ("switchml-bits12", "b = 12"),
        ("switchml-bits14", "b = 14"),
    ]
    assert [each.entrant for each in found if each.least_traffic] == ["fediac-tuned"]
    assert [each.entrant for each in found if each.fastest] == ["fediac-a1"]
    documents = as_documents(found)
    assert [each["reached"] for each in documents[:4]] == [True, True, True, False]
    assert documents[2] == {
        "scenario": "cifar10-iid",
        "family": "fediac",
        "entrant": "fediac-tuned",
        "setting": "a = 3",
        "least_traffic": True,
        "fastest": False,
        "reached": True,
        "seeds": [1],
        "target": [0.63],
        "rounds": [3],
        "payload_mib": [300.0],
        "time_s": [30.0],
    }
    assert documents[3]["payload_mib"] == [None]


def test_a_setting_alone_is_never_the_best() -> None:
    found = list_candidates([make_run(UP, entrant="fediac-a2")])
    assert [each.entrant for each in found if each.rows] == ["fediac-a2"]
    assert not any(each.reached for each in found if not each.rows)
    assert not any(each.least_traffic or each.fastest for each in found)


def test_settings_that_were_not_run_are_listed_as_such() -> None:
    runs = [make_run(UP, entrant=name) for name in ("fediac-tuned", "fediac-a2")]
    text = render_markdown(list_candidates(runs))
    cells = "not run | **300.0** in 3, *30.0 s* | 300.0 in 3, 30.0 s | not run"
    assert f"| CIFAR-10, IID | {cells} |\n" in text


def test_a_setting_that_misses_with_one_seed_is_not_the_best() -> None:
    runs = [
        make_run(UP, entrant="libra", round_mib=100.0),
        make_run(UP, entrant="libra-k5", round_mib=50.0),
        make_run(MISSED, entrant="libra-k5", round_mib=1.0, seed=2),
    ]
    assert best(runs) == ["libra"]


def test_settings_are_compared_with_the_seeds_that_all_have() -> None:
    runs = [
        make_run(UP, entrant="libra", round_mib=100.0),
        make_run(UP, entrant="libra", round_mib=10.0, seed=2),
        make_run(UP, entrant="libra-k5", round_mib=90.0),
    ]
    assert best(runs) == ["libra-k5"]
    assert best([runs[1], runs[2]]) == []


@pytest.mark.parametrize(("round_mib", "winner"), [(149.0, []), (151.0, ["libra"])])
def test_none_is_best_while_a_cheaper_one_may_get_there(
    round_mib: float, winner: list[str]
) -> None:
    runs = [
        make_run(UP, entrant="libra", round_mib=100.0),
        make_run(UP[:2], entrant="libra-k5", round_mib=round_mib),
    ]
    assert best(runs) == winner


def test_no_setting_is_best_where_none_gets_there() -> None:
    runs = [make_run(MISSED, entrant=name) for name in ("libra", "libra-k5")]
    found = list_candidates(runs)
    assert found
    assert not any(each.least_traffic or each.fastest for each in found)


def test_the_table_fits_a_terminal() -> None:
    console = Console(width=80, highlight=False)
    with console.capture() as capture:
        for table in render_tables(list_candidates(tried())):
            console.print(table)
    text = capture.get()
    assert max(map(len, text.splitlines())) <= 80
    cells = [line.replace("│", " ").split() for line in text.splitlines()]
    fast = ["20.0", "s", "time"]
    assert ["fediac", "a", "=", "1", "2", "360.0", *fast] in cells
    lean = ["30.0", "s", "traffic"]
    assert ["fediac", "a", "=", "3", "3", "300.0", *lean] in cells
    assert ["fediac", "a", "=", "4", "not", "in", "100", "—", "—"] in cells


def test_markdown_has_a_table_for_every_family() -> None:
    text = render_markdown(list_candidates(tried()))
    assert "## fediac\n\n| scenario | a = 1 | a = 2 | a = 3 | a = 4 |\n" in text
    cells = "360.0 in 2, *20.0 s* | 360.0 in 3, 30.0 s | **300.0** in 3, 30.0 s"
    assert f"| CIFAR-10, IID | {cells} | not in 100 |\n" in text
    heads = " | ".join(f"b = {bits}" for bits in (6, 7, 8, 10, 12, 14))
    assert f"## switchml\n\n| scenario | {heads} |\n" in text
    cells = "1,500.0 in 3, 30.0 s | not run | not run | not run"
    assert f"| CIFAR-10, IID | not run | not run | {cells} |\n" in text
