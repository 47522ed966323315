from collections.abc import Sequence
from dataclasses import replace

import pytest

from fediac.paper.tables import Block, render_markdown
from fediac.paper.targets import Saving
from fediac.runs.stored import Run
from tests.unit.paper.made_up import make_run
from tests.unit.paper.table_runs import (
    MISSED,
    UP,
    blocks_of,
    compared,
    show,
    swept,
)


def savings(runs: Sequence[Run]) -> dict[str, float | None]:
    (block,) = blocks_of(runs)
    return {line.entrant: exactly(line.saving) for line in block.lines}


def exactly(saving: Saving | None) -> float | None:
    assert saving is None or not saving.at_least
    return None if saving is None else saving.share


def both_savings(block: Block) -> dict[str, tuple[float | None, float | None]]:
    return {
        line.entrant: (exactly(line.saving), exactly(line.swept))
        for line in block.lines
    }


def test_fediac_saves_against_the_best_baseline_that_got_there() -> None:
    assert savings(compared()) == {
        "fediac": 1.0 - 300.0 / 1000.0,
        "fediac-tuned": 1.0 - 360.0 / 1000.0,
        "switchml": None,
        "omnireduce": None,
    }


def test_savings_are_against_the_scenarios_settings_and_against_the_swept() -> None:
    block = blocks_of(swept())[0]
    found = both_savings(block)
    assert found == {
        "fediac": (1.0 - 300.0 / 1000.0, 1.0 - 300.0 / 240.0),
        "fediac-tuned": (1.0 - 360.0 / 1000.0, 1.0 - 360.0 / 240.0),
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
    found = both_savings(block)
    assert found["fediac"] == (0.75, None)
    assert list(found) == ["fediac", "libra", "libra-k0.1"]
    runs[2] = make_run(MISSED, entrant="libra-k0.1", round_mib=20.0)
    (block,) = blocks_of(runs)
    found = both_savings(block)
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
    assert exactly(block.lines[0].swept) == 1.0 - 100.0 / 50.0
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
    found = {name: swept for name, (_, swept) in both_savings(block).items()}
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
    assert exactly(block.lines[0].swept) == 0.5


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
    assert exactly(block.lines[0].saving) == 0.8
    (row,) = block.lines[2].rows
    assert (row.reached, row.gave_up, row.rounds, row.spent_mib) == (
        False,
        True,
        100,
        100.0,
    )


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


def test_who_spent_less_than_one_that_may_still_get_there_saves_at_least_that() -> None:
    runs = [
        make_run(UP, round_mib=100.0),
        make_run(UP, entrant="fediac-tuned", round_mib=140.0),
        make_run(UP, entrant="switchml", round_mib=500.0),
        make_run(UP[:2], entrant="libra", round_mib=200.0),
    ]
    (block,) = blocks_of(runs)
    ours, other, *_ = block.lines
    assert ours.saving == ours.swept == Saving(0.25, "libra", at_least=True)
    assert other.saving is other.swept is None
    (line,) = (
        line
        for line in render_markdown([block], "fast").splitlines()
        if "| fediac |" in line
    )
    assert "| at least 25.0 % (libra) | at least 25.0 % (libra) |" in line


def test_a_terminal_says_whom_savings_are_against() -> None:
    said = " ".join(show(blocks_of(swept())[0]).split())
    assert (
        "Saving: less than the best with its scenario's settings, switchml; swept: "
        "less than the best of all tried, libra-k0.1." in said
    )
    assert "Saving:" not in show(blocks_of([make_run(UP)])[0])
