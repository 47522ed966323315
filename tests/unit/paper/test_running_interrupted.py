from pathlib import Path
from typing import Any

import pytest

from fediac.files import lock_folder
from fediac.paper import running
from fediac.paper.plan import PlannedRun
from fediac.paper.running import run_plan
from fediac.paper.scenarios import Scenario
from fediac.paper.stored import read_one
from fediac.paper.to_do import Task, find_task, folder_of
from tests.tiny import read_lines
from tests.unit.paper.planned_runs import FOUR, TWO, StopAfter, run_to
from tests.unit.paper.tiny_scenario import make_run_options, plan_run


def test_the_old_run_stays_until_the_new_one_is_done(
    scenario: Scenario, results: Path
) -> None:
    run_to(results, plan_run(scenario, TWO))
    run = plan_run(scenario, FOUR)
    folder = folder_of(run, results)
    before = read_lines(folder)
    run_options, _ = make_run_options(results)
    with pytest.raises(KeyboardInterrupt):
        run_plan([run], run_options, StopAfter(3))
    assert read_lines(folder) == before
    again = folder.with_name("seed1.again")
    assert len(read_lines(again)) == 3
    # The new one goes on where it was, it does not begin again.
    run_options, _ = make_run_options(results)
    run_plan([run], run_options, StopAfter(2))
    assert len(read_lines(folder)) == 4
    assert not again.exists()


def replaced(run: PlannedRun, results: Path) -> None:
    """Check that four rounds stand where two were, and nothing beside them."""
    folder = folder_of(run, results)
    assert len(read_lines(folder)) == 4
    assert [path.name for path in folder.parent.iterdir()] == ["seed1"]


@pytest.mark.parametrize(
    ("old", "new"),
    [("seed1", "seed1.again"), ("seed1.old", "seed1.again"), ("seed1.old", "seed1")],
)
def test_a_run_that_was_being_replaced_when_it_was_killed_is_not_run_again(
    scenario: Scenario, results: Path, tmp_path: Path, old: str, new: str
) -> None:
    run = plan_run(scenario, FOUR)
    folder = folder_of(run, results)
    run_to(results, plan_run(scenario, TWO))
    folder.rename(folder.with_name(old))
    run_to(tmp_path / "elsewhere", run)
    folder_of(run, tmp_path / "elsewhere").rename(folder.with_name(new))
    assert run_to(results, run) == ["is stored"]
    replaced(run, results)


def test_a_run_beside_that_is_not_longer_replaces_nothing(
    scenario: Scenario, results: Path, tmp_path: Path
) -> None:
    run = plan_run(scenario, FOUR)
    folder = folder_of(run, results)
    run_to(results, run)
    before = read_lines(folder)
    run_to(tmp_path / "elsewhere", plan_run(scenario, TWO))
    folder_of(run, tmp_path / "elsewhere").rename(folder.with_name("seed1.again"))
    assert run_to(results, run) == ["is stored"]
    assert read_lines(folder) == before
    assert [path.name for path in folder.parent.iterdir()] == ["seed1"]


def test_the_old_run_comes_back_if_the_new_one_is_gone(
    scenario: Scenario, results: Path
) -> None:
    run = plan_run(scenario, TWO)
    run_to(results, run)
    folder = folder_of(run, results)
    folder.rename(folder.with_name("seed1.old"))
    assert run_to(results, run) == ["is stored"]
    assert [path.name for path in folder.parent.iterdir()] == ["seed1"]


def test_a_run_is_not_written_by_two_processes(
    scenario: Scenario, results: Path
) -> None:
    run = plan_run(scenario, FOUR)
    folder = folder_of(run, results)
    busy = (
        f"digits fediac seed 1: {folder}: another process is writing to it; wait until "
        "it is done"
    )
    with lock_folder(folder):  # as one that has no round yet
        assert run_plan([run], make_run_options(results)[0]) == [busy]
    assert folder.exists()
    run_to(results, plan_run(scenario, TWO))
    before = read_lines(folder)
    with lock_folder(folder):  # as one that has no checkpoint yet
        assert run_plan([run], make_run_options(results)[0]) == [busy]
    assert read_lines(folder) == before
    assert run_to(results, run) == ["runs again"]
    replaced(run, results)


def test_an_interrupted_run_goes_on(scenario: Scenario, results: Path) -> None:
    run = plan_run(scenario, FOUR)
    run_options, _ = make_run_options(results)
    with pytest.raises(KeyboardInterrupt):
        run_plan([run], run_options, StopAfter(1))
    assert run_to(results, run) == ["goes on"]
    assert len(read_lines(folder_of(run, results))) == 4


def test_a_run_killed_before_its_first_round_begins_anew(
    scenario: Scenario, results: Path
) -> None:
    run = plan_run(scenario, TWO)
    folder_of(run, results).mkdir(parents=True)
    (folder_of(run, results) / "config.toml").write_text("seed = 7\n")
    (folder_of(run, results) / "notes.txt").write_text("mine\n")
    assert run_to(results, run) == ["runs"]
    assert read_one(folder_of(run, results)) is not None
    assert (folder_of(run, results) / "notes.txt").read_text() == "mine\n"


def test_a_run_that_somebody_else_has_just_completed_is_not_thrown_away(
    scenario: Scenario, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = plan_run(scenario, FOUR)
    folder = folder_of(run, results)
    with pytest.raises(KeyboardInterrupt):
        run_plan([run], make_run_options(results)[0], StopAfter(1))
    tasks: list[Task] = []

    def find_and_lose(*args: Any) -> Task:
        tasks.append(find_task(*args))
        if len(tasks) == 2:  # the first one was found before anything ran
            monkeypatch.setattr(running, "find_task", find_task)
            assert run_to(results, run) == ["goes on"]
        return tasks[-1]

    monkeypatch.setattr(running, "find_task", find_and_lose)
    assert run_plan([run], make_run_options(results)[0]) == [
        f"digits fediac seed 1: {folder}: another process has just completed this run; "
        "give the same command again"
    ]
    assert len(read_lines(folder)) == 4
    assert run_to(results, run) == ["is stored"]
