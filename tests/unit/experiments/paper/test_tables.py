from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from fediac.experiments.paper.rows import describe_rounds, spread
from fediac.experiments.paper.stored import StoredRun
from fediac.experiments.paper.tables import (
    Block,
    as_documents,
    list_rows,
    list_tried,
    make_blocks,
    render_block,
    render_markdown,
)
from tests.unit.experiments.paper.tiny_scenario import make_run

UP = (0.3, 0.5, 0.64, 0.7)
"""Reaches cifar10-iid's 63 % in round 3."""

MISSED = [0.5] * 100
"""Has not reached it when its scenario gives up."""


def compared() -> list[StoredRun]:
    return [
        make_run(UP, entrant="fediac", round_mib=100.0),
        make_run((0.2, *UP), entrant="fediac-bound", round_mib=90.0),
        make_run(UP[1:], entrant="switchml", round_mib=500.0),
        make_run(MISSED, entrant="omnireduce", round_mib=1.0),
        make_run((0.9,), entrant="fediac-n20-a20", round_mib=1.0),
    ]


def blocks_of(runs: Sequence[StoredRun], switch: str = "fast") -> list[Block]:
    return make_blocks(list_rows(runs, switch), list_tried(runs, switch))


def show(block: Block, *, width: int = 80) -> str:
    console = Console(width=width, highlight=False)
    with console.capture() as capture:
        console.print(render_block(block))
    return capture.get()


def savings(runs: Sequence[StoredRun]) -> dict[str, float | None]:
    (block,) = blocks_of(runs)
    return {line.entrant: line.saving for line in block.lines}


def test_rows_tell_rounds_traffic_and_time_to_the_target() -> None:
    rows = as_documents(list_rows(compared(), "slow"))
    assert [row["algorithm"] for row in rows] == [
        "fediac",
        "fediac-bound",
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


def test_fediac_saves_against_the_best_baseline_that_got_there() -> None:
    assert savings(compared()) == {
        "fediac": 1.0 - 300.0 / 1000.0,
        "fediac-bound": 1.0 - 360.0 / 1000.0,
        "switchml": None,
        "omnireduce": None,
    }


def swept() -> list[StoredRun]:
    return [
        *compared(),
        make_run(UP, entrant="fediac-topk-a4", round_mib=60.0),
        make_run(UP, entrant="fediac-topk-a5", round_mib=70.0),
        make_run(UP[:2], entrant="fediac-topk-a6", round_mib=1.0),
        make_run(UP, entrant="libra", round_mib=400.0),
        make_run(UP, entrant="libra-k0.1", round_mib=80.0),
        make_run(UP, entrant="switchml-bits12", round_mib=700.0),
        make_run(UP, entrant="libra-k0.1", round_mib=1.0, scenario="cifar10-noniid"),
    ]


def test_the_cheapest_setting_of_a_sweep_has_a_row_of_its_own() -> None:
    block = blocks_of(swept())[0]
    assert [line.entrant for line in block.lines] == [
        "fediac",
        "fediac-bound",
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


def test_savings_are_against_the_scenarios_settings_and_against_the_swept() -> None:
    block = blocks_of(swept())[0]
    found = {line.entrant: (line.saving, line.swept) for line in block.lines}
    assert found == {
        "fediac": (1.0 - 300.0 / 1000.0, 1.0 - 300.0 / 240.0),
        "fediac-bound": (1.0 - 360.0 / 1000.0, 1.0 - 360.0 / 240.0),
        "fediac-topk-a4": (1.0 - 180.0 / 1000.0, 1.0 - 180.0 / 240.0),
        "fediac-topk-a6": (None, None),
        **dict.fromkeys(("switchml", "libra", "libra-k0.1", "omnireduce"), (None,) * 2),
    }
    assert ["fediac", "1", "3", "300.0", "30.0", "s", "70.0", "%", "-25.0", "%"] in [
        line.replace("│", " ").split() for line in show(block).splitlines()
    ]


def test_a_setting_that_may_still_get_there_has_a_row_and_no_saving_is_known() -> None:
    runs = [
        make_run(UP, round_mib=100.0),
        make_run(UP, entrant="libra", round_mib=400.0),
        make_run(UP[:2], entrant="libra-k0.1", round_mib=20.0),
    ]
    (block,) = blocks_of(runs)
    found = {line.entrant: (line.saving, line.swept) for line in block.lines}
    assert found["fediac"] == (0.75, None)
    assert list(found) == ["fediac", "libra", "libra-k0.1"]
    runs[2] = make_run(MISSED, entrant="libra-k0.1", round_mib=20.0)
    (block,) = blocks_of(runs)
    found = {line.entrant: (line.saving, line.swept) for line in block.lines}
    assert found == {"fediac": (0.75, 0.75), "libra": (None, None)}


def test_a_setting_with_one_seed_missing_is_not_forgotten() -> None:
    runs = [
        *(make_run(UP, seed=seed) for seed in (1, 2)),
        *(make_run(UP, entrant="libra", round_mib=400.0, seed=s) for s in (1, 2)),
        make_run(UP, entrant="libra-k0.1", round_mib=50.0),
        make_run(UP, entrant="libra-k0.5", round_mib=300.0, seed=2),
    ]
    (block,) = blocks_of(runs)
    assert [line.entrant for line in block.lines] == ["fediac", "libra", "libra-k0.1"]
    assert block.lines[0].swept == 1.0 - 100.0 / 50.0
    runs.append(make_run(UP[:1], entrant="libra-k0.1", round_mib=50.0, seed=2))
    (block,) = blocks_of(runs)
    assert block.lines[0].swept is None


def test_the_best_with_the_seeds_that_all_have_is_not_forgotten() -> None:
    runs = [
        make_run(UP, round_mib=50.0),
        make_run(UP, entrant="libra-k0.1", round_mib=100.0 / 3.0),
        *(make_run(UP, entrant="libra-k0.1", round_mib=100.0, seed=s) for s in (2, 3)),
        make_run(UP, entrant="libra-k0.5", round_mib=200.0 / 3.0),
    ]
    (block,) = blocks_of(runs)
    found = {line.entrant: line.swept for line in block.lines}
    assert list(found) == ["fediac", "libra-k0.1", "libra-k0.5"]
    assert found["fediac"] == pytest.approx(-0.5)


def test_savings_are_against_settings_without_a_row_too() -> None:
    runs = [
        make_run(UP, round_mib=50.0, seed=2),
        make_run((0.1, *UP), entrant="libra-k0.1", round_mib=10.0),
        make_run((0.1, *UP), entrant="libra-k0.1", round_mib=200.0, seed=2),
        make_run((0.1, *UP), entrant="libra-k0.5", round_mib=90.0),
        make_run((0.1, *UP), entrant="libra-k0.5", round_mib=75.0, seed=2),
        make_run(UP, entrant="libra-k5", round_mib=5.0),
    ]
    (block,) = blocks_of(runs)
    assert [line.entrant for line in block.lines] == ["fediac", "libra-k5"]
    assert block.lines[0].swept == 0.5


def test_who_cannot_go_on_is_not_waited_for() -> None:
    runs = [
        make_run(UP, round_mib=100.0),
        make_run(UP, entrant="switchml", round_mib=500.0),
        make_run(UP[:2], entrant="libra", round_mib=1.0),
    ]
    assert savings(runs)["fediac"] is None
    runs[2] = replace(runs[2], failed="update of client 3 is not finite")
    assert savings(runs)["fediac"] == 0.8
    assert "not in 2 " in show(blocks_of(runs)[0])


def test_rounds_beyond_those_of_the_scenario_change_nothing() -> None:
    runs = [
        make_run(UP, round_mib=100.0),
        make_run(UP, entrant="switchml", round_mib=500.0),
        make_run([*MISSED, 0.9], entrant="libra", round_mib=1.0),
    ]
    (block,) = blocks_of(runs)
    assert block.lines[0].saving == 0.8
    (row,) = block.lines[2].rows
    assert (row.reached, row.gave_up, row.rounds, row.spent_mib) == (
        False,
        True,
        100,
        100.0,
    )


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


def test_nothing_is_saved_against_nobody_or_by_who_did_not_get_there() -> None:
    assert savings([make_run(UP)]) == {"fediac": None}
    runs = [make_run(UP[:2]), make_run(UP, entrant="libra")]
    assert savings(runs) == {"fediac": None, "libra": None}


def test_a_baseline_that_missed_with_one_seed_is_not_the_best() -> None:
    runs = [
        *(make_run(UP, seed=seed) for seed in (1, 2)),
        make_run(UP, entrant="libra", round_mib=200.0),
        make_run(MISSED, entrant="libra", round_mib=200.0, seed=2),
        *(make_run(UP, entrant="switchml", round_mib=400.0, seed=s) for s in (1, 2)),
    ]
    assert savings(runs)["fediac"] == 1.0 - 100.0 / 400.0


def test_a_seed_that_only_a_baseline_has_does_not_count() -> None:
    runs = [
        make_run(UP),
        make_run(UP, entrant="libra", round_mib=200.0),
        make_run(MISSED, entrant="libra", round_mib=200.0, seed=2),
        make_run(UP, entrant="switchml", round_mib=400.0),
    ]
    assert savings(runs)["fediac"] == 1.0 - 100.0 / 200.0


def test_a_saving_is_over_the_seeds_that_both_have() -> None:
    runs = [
        make_run(UP, round_mib=100.0),
        make_run(UP, round_mib=900.0, seed=2),
        make_run(UP, entrant="libra", round_mib=200.0),
    ]
    assert savings(runs)["fediac"] == 1.0 - 100.0 / 200.0
    assert savings(runs[1:])["fediac"] is None


@pytest.mark.parametrize(("round_mib", "saving"), [(149.0, None), (151.0, 0.0)])
def test_nothing_is_saved_while_a_cheaper_baseline_may_get_there(
    round_mib: float, saving: float | None
) -> None:
    runs = [
        make_run(UP, round_mib=100.0),
        make_run(UP, entrant="switchml", round_mib=100.0),
        make_run(UP[:2], entrant="libra", round_mib=round_mib),
    ]
    assert savings(runs)["fediac"] == saving
    (block,) = blocks_of(runs)
    cells = [line.replace("│", " ").split() for line in show(block).splitlines()]
    assert ["libra", "1", "not", "yet", "in", "2", *"————"] in cells


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
        "In the paper, CIFAR-10_IID to 63 %: FediAC 1,732 MB, SwitchML 5,756 MB "
        "(69.91 % less)"
    )
    assert paper in " ".join(text.split())


def test_the_slow_switch_stands_beside_the_papers_second_table() -> None:
    text = render_markdown(blocks_of(compared(), "slow"), "slow")
    assert text.startswith("# Table II: traffic to the target accuracy, slow switch\n")
    assert (
        "| CIFAR-10, IID | 63 % | fediac | 1 | 3 | 300.0 | 33.0 s | 70.0 % | 70.0 % | "
        "CIFAR-10_IID to 63 %: FediAC 1,763 MB, SwitchML 5,756 MB (69.37 % less) |\n"
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
