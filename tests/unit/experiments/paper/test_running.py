import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fediac.errors import RunError, UpdateError
from fediac.experiments.files import lock_folder
from fediac.experiments.paper import running
from fediac.experiments.paper.entrants import FEDAVG, Entrant
from fediac.experiments.paper.plan import PlannedRun, Until
from fediac.experiments.paper.running import measure_theory, run_plan
from fediac.experiments.paper.scenarios import PaperSettings, Scenario
from fediac.experiments.paper.steps import (
    Manner,
    Step,
    Task,
    find_task,
    folder_of,
    needs_running,
)
from fediac.experiments.paper.stored import read_one, read_stored
from fediac.experiments.paper.theory_product import measurement_file
from fediac.experiments.paper.theory_stored import load_measurement
from fediac.experiments.records import CHECKPOINT
from fediac.experiments.run import Unwatched, run_experiment
from fediac.experiments.run_folder import MODEL
from fediac.experiments.settings import RunSettings
from tests.support import refuses
from tests.tiny import read_lines
from tests.unit.experiments.paper.tiny_scenario import (
    make_manner,
    make_scenario,
    plan_run,
)

TWO, FOUR = Until(rounds=2), Until(rounds=4)


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    return make_scenario(tmp_path / "data")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"


def files(run: PlannedRun, results: Path) -> set[str]:
    return {path.name for path in folder_of(run, results).iterdir()}


def run_to(results: Path, run: PlannedRun, *, keeps_models: bool = False) -> list[str]:
    """Run, and return the steps that were said to be taken."""
    manner, lines = make_manner(results, keeps_models=keeps_models)
    assert run_plan([run], manner) == []
    taken = [step.value for line in lines for step in Step if f"1 {step} to" in line]
    assert len(taken) == len(run.untils)
    return taken


class StopAfter(Unwatched):
    """A user who presses Ctrl-C in the round after this one, or what else ends it."""

    def __init__(self, n_rounds: int, error: BaseException | None = None) -> None:
        self._left = n_rounds
        self._error = error or KeyboardInterrupt()

    def round_done(self, record: dict[str, Any]) -> None:  # noqa: ARG002 - of watchers
        self._left -= 1

    def client_done(self) -> None:
        if not self._left:
            raise self._error


def test_a_new_run_leaves_what_it_measured_and_no_model(
    scenario: Scenario, results: Path
) -> None:
    run = plan_run(scenario, TWO)
    assert run_to(results, run) == ["runs"]
    assert files(run, results) == {"config.toml", "rounds.jsonl", "summary.json"}
    (stored,) = read_stored(results)
    assert (stored.scenario, stored.entrant, stored.seed) == run.key
    assert len(stored.records) == 2
    assert stored.settings.data.folder == scenario.settings.data.folder


def test_a_run_that_goes_far_enough_is_reused(
    scenario: Scenario, results: Path
) -> None:
    run_to(results, plan_run(scenario, FOUR))
    before = read_lines(folder_of(plan_run(scenario, FOUR), results))
    assert run_to(results, plan_run(scenario, TWO)) == ["is stored"]
    assert read_lines(folder_of(plan_run(scenario, TWO), results)) == before


def test_an_unfinished_run_that_goes_far_enough_is_reused(
    scenario: Scenario, results: Path
) -> None:
    run = plan_run(scenario, TWO)
    run_to(results, plan_run(scenario, FOUR))
    (folder_of(run, results) / "summary.json").unlink()
    assert run_to(results, run) == ["is stored"]


def test_a_shorter_run_goes_on_from_its_checkpoint(
    scenario: Scenario, results: Path, tmp_path: Path
) -> None:
    run = plan_run(scenario, FOUR)
    run_to(results, plan_run(scenario, TWO), keeps_models=True)
    assert {CHECKPOINT, MODEL} < files(run, results)
    assert run_to(results, run) == ["goes on"]
    assert not {CHECKPOINT, MODEL} & files(run, results)
    run_to(tmp_path / "whole", run)
    lines = read_lines(folder_of(run, results))
    assert lines == read_lines(folder_of(run, tmp_path / "whole"))


def test_a_shorter_run_without_a_checkpoint_runs_again(
    scenario: Scenario, results: Path
) -> None:
    run_to(results, plan_run(scenario, TWO))
    run = plan_run(scenario, FOUR)
    assert run_to(results, run) == ["runs again"]
    assert len(read_lines(folder_of(run, results))) == 4
    assert [path.name for path in folder_of(run, results).parent.iterdir()] == ["seed1"]


def test_the_old_run_stays_until_the_new_one_is_done(
    scenario: Scenario, results: Path
) -> None:
    run_to(results, plan_run(scenario, TWO))
    run = plan_run(scenario, FOUR)
    folder = folder_of(run, results)
    before = read_lines(folder)
    manner, _ = make_manner(results)
    with pytest.raises(KeyboardInterrupt):
        run_plan([run], manner, StopAfter(3))
    assert read_lines(folder) == before
    again = folder.with_name("seed1.again")
    assert len(read_lines(again)) == 3
    # The new one goes on where it was, it does not begin again.
    manner, _ = make_manner(results)
    run_plan([run], manner, StopAfter(2))
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
        assert run_plan([run], make_manner(results)[0]) == [busy]
    assert folder.exists()
    run_to(results, plan_run(scenario, TWO))
    before = read_lines(folder)
    with lock_folder(folder):  # as one that has no checkpoint yet
        assert run_plan([run], make_manner(results)[0]) == [busy]
    assert read_lines(folder) == before
    assert run_to(results, run) == ["runs again"]
    replaced(run, results)


def test_models_that_were_kept_stay_when_nothing_is_run(
    scenario: Scenario, results: Path
) -> None:
    run = plan_run(scenario, TWO)
    run_to(results, run, keeps_models=True)
    assert run_to(results, run) == ["is stored"]
    assert {CHECKPOINT, MODEL} < files(run, results)


def test_nobody_runs_to_a_target_that_is_not_fixed(
    scenario: Scenario, results: Path
) -> None:
    paper = PaperSettings(
        title="Tiny", dim=475, rounds=4, below_fedavg=0.02, fedavg_rounds=2
    )
    run = plan_run(replace(scenario, paper=paper), Until(rounds=4, is_to_target=True))
    assert run_plan([run], make_manner(results)[0]) == [
        "digits fediac seed 1: the target is not known before fedavg has had 2 rounds"
    ]
    assert not folder_of(run, results).exists()


def test_an_interrupted_run_goes_on(scenario: Scenario, results: Path) -> None:
    run = plan_run(scenario, FOUR)
    manner, _ = make_manner(results)
    with pytest.raises(KeyboardInterrupt):
        run_plan([run], manner, StopAfter(1))
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
        run_plan([run], make_manner(results)[0], StopAfter(1))
    tasks: list[Task] = []

    def find_and_lose(*args: Any) -> Task:
        tasks.append(find_task(*args))
        if len(tasks) == 2:  # the first one was found before anything ran
            monkeypatch.setattr(running, "find_task", find_task)
            assert run_to(results, run) == ["goes on"]
        return tasks[-1]

    monkeypatch.setattr(running, "find_task", find_and_lose)
    assert run_plan([run], make_manner(results)[0]) == [
        f"digits fediac seed 1: {folder}: another process has just completed this run; "
        "give the same command again"
    ]
    assert len(read_lines(folder)) == 4
    assert run_to(results, run) == ["is stored"]


def test_several_ends_of_one_run_are_reached_one_after_the_other(
    scenario: Scenario, results: Path
) -> None:
    run = plan_run(scenario, TWO, Until(simulated_s=0.5), FOUR)
    assert run_to(results, run) == ["runs", "goes on", "is stored"]
    lines = read_lines(folder_of(run, results))
    assert min(lines[-1]["time_s"].values()) >= 0.5
    assert not {CHECKPOINT, MODEL} & files(run, results)


def test_a_run_to_the_target_ends_there(scenario: Scenario, results: Path) -> None:
    scenario = replace(scenario, paper=replace(scenario.paper, target=0.01))
    run = plan_run(scenario, Until(rounds=4, is_to_target=True))
    run_to(results, run)
    assert len(read_lines(folder_of(run, results))) == 1


def test_fedavg_fixes_the_target_and_later_rounds_do_not_change_it(
    scenario: Scenario, results: Path
) -> None:
    paper = PaperSettings(
        title="Tiny", dim=475, rounds=4, below_fedavg=0.02, fedavg_rounds=2
    )
    scenario = replace(scenario, paper=paper)
    to_target = Until(rounds=4, is_to_target=True)
    others = plan_run(scenario, to_target)
    assert find_task(others, to_target, results).target is None
    fedavg = plan_run(scenario, TWO, entrant=FEDAVG)
    run_to(results, fedavg)
    first = read_lines(folder_of(fedavg, results))
    best = max(line["accuracy"] for line in first)
    expected = pytest.approx(best - 0.02)
    assert find_task(others, to_target, results).target == expected
    run_to(results, replace(fedavg, untils=(FOUR,)))
    assert find_task(others, to_target, results).target == expected


def test_other_settings_under_the_same_name_are_refused_before_anything_runs(
    scenario: Scenario, results: Path, tmp_path: Path
) -> None:
    run = plan_run(scenario, TWO)
    run_to(results, run)
    other = make_scenario(tmp_path / "data", train={"lr": 0.2})
    new = plan_run(other, TWO, entrant=Entrant("switchml", "switchml"))
    manner, lines = make_manner(results)
    with refuses(
        f"{folder_of(run, results)}: train.lr of the stored run is 0.1, that of "
        "scenario digits is 0.2; move it away, or give another --out",
        RunError,
    ):
        run_plan([new, plan_run(other, TWO)], manner)
    assert lines == []
    assert not folder_of(new, results).exists()


@pytest.mark.parametrize("kind", [RunError, ValueError, RuntimeError, MemoryError])
def test_a_run_that_fails_does_not_stop_the_others(
    scenario: Scenario,
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[Exception],
) -> None:
    real = run_experiment

    def diverge(settings: RunSettings, folder: Path, **others: Any) -> Any:
        if settings.algorithm == "libra":
            raise kind("update of client 3 has 7 entries that are not finite")
        return real(settings, folder, **others)

    monkeypatch.setattr(running, "run_experiment", diverge)
    plan: Sequence[PlannedRun] = [
        plan_run(scenario, TWO, entrant=Entrant("libra", "libra")),
        plan_run(scenario, TWO),
    ]
    manner, lines = make_manner(results)
    (failure,) = run_plan(plan, manner)
    assert failure == (
        "digits libra seed 1: update of client 3 has 7 entries that are not finite"
    )
    assert lines[1] == f"[1/2] digits libra seed 1 failed: {failure[21:]}"
    assert [run.entrant for run in read_stored(results)] == ["fediac"]


DIVERGED = UpdateError("update of client 3 has 7 entries that are not finite")


def test_a_run_that_diverged_is_not_run_again(
    scenario: Scenario, results: Path
) -> None:
    run = plan_run(scenario, TWO, FOUR)
    folder = folder_of(run, results)
    why = "digits fediac seed 1: update of client 3 has 7 entries that are not finite"
    manner, lines = make_manner(results)
    assert run_plan([run], manner, StopAfter(3, DIVERGED)) == [why]
    assert len(read_lines(folder)) == 3
    assert not {CHECKPOINT, MODEL} & files(run, results)
    lines.clear()
    assert not needs_running(run, results)
    assert run_plan([run], manner) == [
        f"{why} (as before; delete {folder} to try again)"
    ]
    assert [line.split(" to ")[0] for line in lines] == [
        "[1/1] digits fediac seed 1 is stored",
        "[1/1] digits fediac seed 1 failed: update of client 3 has 7 entries that are "
        f"not finite (as before; delete {folder}",
    ]
    shutil.rmtree(folder)
    assert run_to(results, run) == ["runs", "goes on"]


def test_a_run_that_diverged_in_its_first_round_begins_anew(
    scenario: Scenario, results: Path
) -> None:
    run = plan_run(scenario, TWO)
    assert len(run_plan([run], make_manner(results)[0], StopAfter(0, DIVERGED))) == 1
    assert run_to(results, run) == ["runs"]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (PermissionError(13, "Permission denied", "runs"), "runs: permission denied"),
        (MemoryError(), "MemoryError"),
        (RuntimeError("CUDA out of memory.\nTried to"), "CUDA out of memory."),
    ],
)
def test_a_failure_is_one_line(
    scenario: Scenario,
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    reason: str,
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(running, "run_experiment", fail)
    failures = run_plan([plan_run(scenario, TWO)], make_manner(results)[0])
    assert failures == [f"digits fediac seed 1: {reason}"]


def test_a_measurement_that_fails_does_not_stop_the_others(
    scenario: Scenario, results: Path
) -> None:
    tuned = replace(scenario, settings=replace(scenario.settings, tuning="server"))
    manner, lines = make_manner(results)
    reason = (
        "tuning must be local or none to check the theory, got server: its first round "
        "has no votes"
    )
    assert measure_theory([(tuned, 3), (scenario, 4)], [1], manner) == [
        f"digits theory seed 3: {reason}"
    ]
    assert lines == [
        "digits theory seed 3 runs to round 1",
        f"digits theory seed 3 failed: {reason}",
        "digits theory seed 4 runs to round 1",
        "digits theory seed 4 is done",
    ]
    stored = load_measurement(measurement_file(results, "digits", 4))
    assert stored.settings.seed == 4


def test_the_device_is_the_one_asked_for(scenario: Scenario, results: Path) -> None:
    run = plan_run(scenario, TWO)
    automatic = replace(
        scenario.settings, train=replace(scenario.settings.train, device="auto")
    )
    manner = Manner(results, "cpu", keeps_models=False, say=lambda _: None)
    assert manner.on_device(automatic).train.device == "cpu"
    unasked = replace(manner, device=None)
    assert unasked.on_device(automatic).train.device == "auto"
    assert run_plan([run], manner) == []


def test_missing_results_need_everything(scenario: Scenario, results: Path) -> None:
    run = plan_run(scenario, TWO)
    assert find_task(run, TWO, results).step is Step.START
    run_to(results, run)
    assert find_task(run, TWO, results).step is Step.REUSE
    shutil.rmtree(results)
    assert find_task(run, TWO, results).step is Step.START


def test_a_measurement_of_other_rounds_keeps_those_before(
    scenario: Scenario, results: Path
) -> None:
    manner, lines = make_manner(results)
    assert measure_theory([(scenario, 1)], [2], manner) == []
    assert measure_theory([(scenario, 1)], [1], manner) == []
    stored = load_measurement(measurement_file(results, "digits", 1))
    assert [each.round_number for each in stored.rounds] == [1, 2]
    assert lines[2] == "digits theory seed 1 runs to round 2"
