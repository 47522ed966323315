from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fediac.archives import write_archive
from fediac.errors import RunError, UpdateError
from fediac.paper import running
from fediac.paper.entrants import Entrant
from fediac.paper.plan import PlannedRun
from fediac.paper.running import measure_theory, run_plan
from fediac.paper.scenarios import Scenario
from fediac.paper.stored import index_runs, read_stored, run_archive
from fediac.paper.tasks import needs_running
from fediac.paper.theory.product import measurement_file
from fediac.paper.theory.stored import load_measurement
from fediac.runs.loop import run_experiment
from fediac.runs.settings import RunSettings
from tests.tiny import read_lines
from tests.unit.paper.planned_runs import (
    FOUR,
    TWO,
    StopAfter,
    archived,
    files,
    run_to,
)
from tests.unit.paper.tiny_scenario import make_run_options, plan_run


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
    run_options, lines = make_run_options(results)
    (failure,) = run_plan(plan, run_options)
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
    why = "digits fediac seed 1: update of client 3 has 7 entries that are not finite"
    run_options, lines = make_run_options(results)
    assert run_plan([run], run_options, StopAfter(3, DIVERGED)) == [why]
    assert len(read_lines(archived(run, results))) == 3
    assert files(run, results) == set()
    lines.clear()
    assert not needs_running(run, index_runs(read_stored(results)), results)
    archive = run_archive(results, "digits")
    again = f"(as before; to try again: zip -d {archive} 'fediac/seed1/*')"
    assert run_plan([run], run_options) == [f"{why} {again}"]
    assert [line.split(" to ")[0] for line in lines] == [
        "[1/1] digits fediac seed 1 is stored",
        "[1/1] digits fediac seed 1 failed: update of client 3 has 7 entries that are "
        "not finite (as before;",
    ]
    write_archive(archive, {})
    assert run_to(results, run) == ["runs", "goes on"]


def test_a_longer_run_that_diverged_leaves_the_shorter_one_and_says_why(
    scenario: Scenario, results: Path
) -> None:
    run_to(results, plan_run(scenario, TWO))
    run = plan_run(scenario, FOUR)
    place = archived(run, results)
    before = read_lines(place)
    failures = run_plan([run], make_run_options(results)[0], StopAfter(1, DIVERGED))
    assert failures == [f"digits fediac seed 1: {DIVERGED}"]
    assert read_lines(place) == before
    (stored,) = read_stored(results)
    assert (stored.folder, stored.failed) == (place, str(DIVERGED))
    assert files(run, results) == set()


def test_a_run_that_diverged_in_its_first_round_begins_anew(
    scenario: Scenario, results: Path
) -> None:
    run = plan_run(scenario, TWO)
    assert (
        len(run_plan([run], make_run_options(results)[0], StopAfter(0, DIVERGED))) == 1
    )
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
    failures = run_plan([plan_run(scenario, TWO)], make_run_options(results)[0])
    assert failures == [f"digits fediac seed 1: {reason}"]


def test_a_measurement_that_fails_does_not_stop_the_others(
    scenario: Scenario, results: Path
) -> None:
    tuned = replace(scenario, settings=replace(scenario.settings, tuning="server"))
    run_options, lines = make_run_options(results)
    reason = (
        "tuning must be local or none to check the theory, got server: its first round "
        "has no votes"
    )
    assert measure_theory([(tuned, 3), (scenario, 4)], [1], run_options) == [
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
