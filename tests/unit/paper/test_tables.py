from dataclasses import replace
from typing import Any

import pytest

from fediac.paper.tables import as_documents, list_rows, render_markdown
from fediac.paper.targets import describe_rounds, spread
from tests.unit.paper.made_up import make_run
from tests.unit.paper.table_runs import (
    MISSED,
    UP,
    blocks_of,
    compared,
    show,
    swept,
)


def test_rows_tell_rounds_traffic_and_time_to_the_target() -> None:
    rows = as_documents(list_rows(compared(), "slow"))
    assert [row["algorithm"] for row in rows] == [
        "fediac",
        "fediac-tuned",
        "switchml",
        "omnireduce",
    ]
    assert rows[0] == {
        "scenario": "cifar10-iid",
        "switch": "slow",
        "algorithm": "fediac",
        "seed": 1,
        "target": 0.63,
        "reached": True,
        "gave_up": False,
        "rounds": 3,
        "payload_mib": 300.0,
        "time_s": 33.0,
        "spent_mib": 300.0,
        "spent_s": 33.0,
    }
    assert rows[3] == rows[0] | {
        "algorithm": "omnireduce",
        "reached": False,
        "gave_up": True,
        "rounds": 100,
        "payload_mib": None,
        "time_s": None,
        "spent_mib": 100.0,
        "spent_s": 1100.0,
    }


def test_the_cheapest_setting_of_a_sweep_has_a_row_of_its_own() -> None:
    block = blocks_of(swept())[0]
    assert [line.entrant for line in block.lines] == [
        "fediac",
        "fediac-tuned",
        "fediac-topk-a4",
        "fediac-topk-a6",
        "switchml",
        "libra",
        "libra-k0.1",
        "omnireduce",
    ]


def test_the_fastest_setting_of_a_sweep_has_a_row_too() -> None:
    runs = [
        *compared(),
        make_run((0.1, *UP), entrant="libra-k0.1", round_mib=60.0),
        make_run(UP, entrant="libra-k0.5", round_mib=90.0),
        make_run(UP, entrant="libra-k5", round_mib=300.0),
    ]
    block = blocks_of(runs)[0]
    assert [line.entrant for line in block.lines if "libra" in line.entrant] == [
        "libra-k0.1",
        "libra-k0.5",
    ]


@pytest.mark.parametrize(
    ("scenarios", "words"),
    [
        (["cifar10-iid"], "the paper's, but for SwitchML's 8 bits; "),
        (["digits"], "the paper's; "),
        (
            ["cifar10-iid", "digits"],
            "the paper's, but for SwitchML's 8 bits (CIFAR-10, IID); ",
        ),
    ],
)
def test_a_table_says_where_baselines_have_other_settings_than_the_papers(
    scenarios: list[str], words: str
) -> None:
    runs = [
        make_run([0.9] * 3, entrant="fedavg", scenario=scenario)
        for scenario in scenarios
    ]
    text = render_markdown(blocks_of(runs), "fast")
    assert f"its scenario's file, which are {words}swept: less" in text


def test_several_seeds_have_a_mean_and_a_range() -> None:
    runs = [
        make_run(UP, round_mib=100.0, seed=1),
        make_run(UP[1:], round_mib=100.0, seed=2),
        make_run(UP, entrant="switchml", round_mib=500.0, seed=1),
        make_run(MISSED, entrant="switchml", round_mib=500.0, seed=2),
    ]
    (block,) = blocks_of(runs)
    text = show(block, width=120)
    assert "2.5 (2 to 3)" in text
    assert "250.0 (200.0 to 300.0)" in text
    assert "25.0 s (20.0 s to 30.0 s)" in text
    assert "1 of 2 not in 100 " in text


def test_numbers_that_are_all_the_same_have_no_range() -> None:
    assert spread([2.0, 2.0], "{:.1f}") == "2.0"
    assert spread([1.0, 2.0], "{:.1f}") == "1.5 (1.0 to 2.0)"


def test_many_rounds_are_written_out() -> None:
    (block,) = blocks_of([make_run(UP, seed=1), make_run(UP[1:], seed=2)])
    rows = [
        replace(row, rounds=number)
        for row, number in zip(block.lines[0].rows, (1234, 999), strict=True)
    ]
    assert describe_rounds(rows) == "1,116 (999 to 1,234)"
    assert describe_rounds(rows[1:]) == "999"


def test_a_table_fits_a_terminal_and_stands_beside_the_paper() -> None:
    (block,) = blocks_of(compared())
    text = show(block)
    assert max(map(len, text.splitlines())) <= 80
    assert text.startswith("CIFAR-10, IID: 63 %, fast switch\n")
    cells = [line.replace("│", " ").split() for line in text.splitlines()]
    row = ["fediac", "1", "3", "300.0", "30.0", "s", "70.0", "%", "70.0", "%"]
    assert row in cells
    assert ["omnireduce", "1", "not", "in", "100", *"————"] in cells
    paper = (
        "In the paper, CIFAR-10 IID to 63 %: FediAC 1,732 MB, SwitchML 5,756 MB "
        "(69.91 % less)"
    )
    assert paper in " ".join(text.split())


def test_the_slow_switch_stands_beside_the_papers_second_table() -> None:
    text = render_markdown(blocks_of(compared(), "slow"), "slow")
    assert text.startswith("# Table II: traffic to the target accuracy, slow switch\n")
    assert (
        "| CIFAR-10, IID | 63 % | fediac | 1 | 3 | 300.0 | 33.0 s | 70.0 % (switchml) "
        "| 70.0 % (switchml) | CIFAR-10 IID to 63 %: FediAC 1,763 MB, SwitchML 5,756 "
        "MB (69.37 % less) |\n"
    ) in text
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in lines} == {11}


@pytest.mark.parametrize(
    ("accuracies", "target"), [([0.5, 0.8, 0.7], 0.78), ([0.5, 0.6], None)]
)
def test_fedavg_of_the_same_seed_fixes_the_target_of_digits(
    accuracies: list[float], target: float | None
) -> None:
    own: dict[str, Any] = {"scenario": "digits"}
    runs = [
        make_run([*accuracies], entrant="fedavg", **own),
        make_run([0.9, 0.9, 0.9], entrant="fedavg", seed=2, **own),
        make_run([0.7, 0.79], **own),
    ]
    rows = [row for row in list_rows(runs, "fast") if row.seed == 1]
    if target is None:
        assert rows == []
    else:
        assert {row.target for row in rows} == {target}
        assert [row.rounds for row in rows] == [2, 2]


def test_targets_of_all_seeds_have_a_mean() -> None:
    runs = [
        make_run([best] * 3, scenario="digits", entrant="fedavg", seed=seed)
        for seed, best in enumerate((0.8, 0.8, 0.86), start=1)
    ]
    (block,) = blocks_of(runs)
    text = show(block, width=120)
    assert text.startswith("Digits by writer: 80 % (78 % to 84 %), fast switch\n")


def test_a_stand_in_names_the_row_that_it_stands_beside() -> None:
    runs = [
        make_run([0.7] * 50, scenario="unipen62", entrant="fedavg"),
        make_run([0.7], scenario="unipen62"),
    ]
    (block,) = blocks_of(runs)
    text = " ".join(show(block).split())
    assert text.startswith("UNIPEN, 62 classes by writer: 68 %, fast switch ")
    assert "In the paper, FEMNIST to 79 %: FediAC 528 MB, libra 897 MB" in text
