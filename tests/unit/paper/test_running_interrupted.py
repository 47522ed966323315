from pathlib import Path
from typing import Any

import pytest

from fediac.archives import replace_folder
from fediac.files import lock_folder
from fediac.paper import running, stored
from fediac.paper.running import run_plan
from fediac.paper.scenarios import Scenario
from fediac.paper.stored import run_archive
from fediac.paper.tasks import Task, find_task, folder_of
from fediac.runs.folder import drop_model
from tests.tiny import read_lines
from tests.unit.paper.planned_runs import (
    FOUR,
    TWO,
    StopAfter,
    archived,
    count_rounds,
    files,
    run_to,
)
from tests.unit.paper.tiny_scenario import make_run_options, make_scenario, plan_run


def test_the_old_run_stays_until_the_new_one_is_done(
    scenario: Scenario, results: Path
) -> None:
    run_to(results, plan_run(scenario, TWO))
    run = plan_run(scenario, FOUR)
    before = run_archive(results, "digits").read_bytes()
    run_options, _ = make_run_options(results)
    with pytest.raises(KeyboardInterrupt):
        run_plan([run], run_options, StopAfter(3))
    assert run_archive(results, "digits").read_bytes() == before
    assert len(read_lines(folder_of(run, results))) == 3
    # The new one goes on where it was, it does not begin again.
    run_options, _ = make_run_options(results)
    run_plan([run], run_options, StopAfter(2))
    assert len(read_lines(archived(run, results))) == 4
    assert files(run, results) == set()


@pytest.mark.parametrize("is_archived", [False, True])
def test_a_run_that_was_killed_when_it_was_put_away_is_put_away(
    scenario: Scenario,
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_archived: bool,
) -> None:
    run = plan_run(scenario, TWO)

    def stop(*args: Any) -> None:
        if is_archived:
            replace_folder(*args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(stored, "replace_folder", stop)
        with pytest.raises(KeyboardInterrupt):
            run_plan([run], make_run_options(results)[0])
    assert count_rounds(folder_of(run, results)) == 2
    assert run_to(results, run) == ["is stored"]
    assert files(run, results) == set()
    assert count_rounds(archived(run, results)) == 2


def test_a_run_of_other_settings_is_not_put_away(
    scenario: Scenario, results: Path, tmp_path: Path
) -> None:
    run = plan_run(scenario, TWO)
    run_to(results, run)
    other = plan_run(make_scenario(tmp_path / "data", train={"lr": 0.2}), TWO)
    run_to(tmp_path / "elsewhere", other, keeps_models=True)
    folder = folder_of(run, results)
    folder_of(other, tmp_path / "elsewhere").rename(make_parent(folder))
    drop_model(folder)
    assert run_plan([run], make_run_options(results)[0]) == [
        f"digits fediac seed 1: {folder}: train.lr of the stored run is 0.2, that of "
        "scenario digits is 0.1; move it away, or give another --out"
    ]
    assert count_rounds(folder) == 2


def make_parent(folder: Path) -> Path:
    folder.parent.mkdir(parents=True)
    return folder


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
    with lock_folder(folder):  # as one that has no checkpoint yet
        assert run_plan([run], make_run_options(results)[0]) == [busy]
    assert count_rounds(archived(run, results)) == 2
    assert run_to(results, run) == ["runs again"]
    assert count_rounds(archived(run, results)) == 4


def test_an_interrupted_run_goes_on(scenario: Scenario, results: Path) -> None:
    run = plan_run(scenario, FOUR)
    run_options, _ = make_run_options(results)
    with pytest.raises(KeyboardInterrupt):
        run_plan([run], run_options, StopAfter(1))
    assert run_to(results, run) == ["goes on"]
    assert len(read_lines(archived(run, results))) == 4


def test_a_run_killed_before_its_first_round_begins_anew(
    scenario: Scenario, results: Path
) -> None:
    run = plan_run(scenario, TWO)
    folder_of(run, results).mkdir(parents=True)
    (folder_of(run, results) / "config.toml").write_text("seed = 7\n")
    (folder_of(run, results) / "notes.txt").write_text("mine\n")
    assert run_to(results, run) == ["runs"]
    assert count_rounds(archived(run, results)) == 2
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
    assert len(read_lines(archived(run, results))) == 4
    assert run_to(results, run) == ["is stored"]
