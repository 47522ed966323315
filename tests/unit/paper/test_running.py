import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from fediac.archives import read_archive
from fediac.errors import RunError
from fediac.paper.entrants import FEDAVG, Entrant
from fediac.paper.plan import Until
from fediac.paper.running import measure_theory, run_plan
from fediac.paper.scenarios import PaperSettings, Scenario
from fediac.paper.stored import read_stored, run_archive
from fediac.paper.tasks import RunOptions, Step, folder_of
from fediac.paper.theory.product import measurement_file
from fediac.paper.theory.stored import load_measurement
from fediac.runs import versions
from fediac.runs.folder import MODEL
from fediac.runs.provenance import WENT_ON, read_writers
from fediac.runs.records import CHECKPOINT, CONFIG
from tests.support import refuses
from tests.tiny import read_lines
from tests.unit.paper.planned_runs import (
    FOUR,
    TWO,
    StopAfter,
    archived,
    count_rounds,
    files,
    next_task,
    run_to,
)
from tests.unit.paper.tiny_scenario import (
    make_run_options,
    make_scenario,
    plan_run,
)


def test_a_new_run_leaves_what_it_measured_and_no_model(
    scenario: Scenario, results: Path
) -> None:
    run = plan_run(scenario, TWO)
    assert run_to(results, run) == ["runs"]
    assert files(run, results) == set()
    names = read_archive(run_archive(results, "digits"))
    files_of_a_run = ("config.toml", "rounds.jsonl", "summary.json")
    assert list(names) == [f"fediac/seed1/{name}" for name in files_of_a_run]
    (stored,) = read_stored(results)
    assert (stored.scenario, stored.entrant, stored.seed) == run.key
    assert len(stored.rounds) == 2
    assert stored.settings.data.folder == scenario.settings.data.folder


def test_a_run_that_goes_far_enough_is_reused(
    scenario: Scenario, results: Path
) -> None:
    run_to(results, plan_run(scenario, FOUR))
    before = run_archive(results, "digits").read_bytes()
    assert run_to(results, plan_run(scenario, TWO)) == ["is stored"]
    assert run_archive(results, "digits").read_bytes() == before


def test_an_unfinished_run_that_goes_far_enough_is_reused(
    scenario: Scenario, results: Path
) -> None:
    run = plan_run(scenario, TWO)
    with pytest.raises(KeyboardInterrupt):
        run_plan([plan_run(scenario, FOUR)], make_run_options(results)[0], StopAfter(3))
    assert run_to(results, run) == ["is stored"]
    assert CHECKPOINT in files(run, results)


def test_a_shorter_run_goes_on_from_its_checkpoint(
    scenario: Scenario, results: Path, tmp_path: Path
) -> None:
    run = plan_run(scenario, FOUR)
    run_to(results, plan_run(scenario, TWO), keeps_models=True)
    assert {CHECKPOINT, MODEL} < files(run, results)
    assert count_rounds(archived(run, results)) == 2
    assert run_to(results, run) == ["goes on"]
    assert files(run, results) == set()
    run_to(tmp_path / "whole", run)
    lines = read_lines(archived(run, results))
    assert lines == read_lines(archived(run, tmp_path / "whole"))


def test_a_shorter_run_goes_on_elsewhere_only_if_told_to(
    scenario: Scenario, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = plan_run(scenario, FOUR)
    folder = folder_of(run, results)
    run_to(results, plan_run(scenario, TWO), keeps_models=True)
    (writer,) = read_writers(folder / CONFIG)
    monkeypatch.setattr(versions, "name_machine", lambda _: "Another CPU")
    differs = f"machine was {writer['machine']!r}, got 'Another CPU'"
    run_options, _ = make_run_options(results)
    assert run_plan([run], run_options) == [
        f"{run.label}: {folder / CONFIG}: {differs}; going on would give other last "
        "bits; add --allow-other-kernels to go on all the same"
    ]
    assert len(read_lines(folder)) == 2
    assert run_plan([run], replace(run_options, allows_other_kernels=True)) == []
    place = archived(run, results)
    assert len(read_lines(place)) == 4
    assert read_writers(place / CONFIG)[-1][WENT_ON] == f"after 2 rounds: {differs}"


def test_a_shorter_run_without_a_checkpoint_runs_again(
    scenario: Scenario, results: Path
) -> None:
    run_to(results, plan_run(scenario, TWO))
    run = plan_run(scenario, FOUR)
    assert run_to(results, run) == ["runs again"]
    assert len(read_lines(archived(run, results))) == 4
    assert files(run, results) == set()


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
    assert run_plan([run], make_run_options(results)[0]) == [
        "digits fediac seed 1: the target is not known before fedavg has had 2 rounds"
    ]
    assert not folder_of(run, results).exists()


def test_several_ends_of_one_run_are_reached_one_after_the_other(
    scenario: Scenario, results: Path
) -> None:
    run = plan_run(scenario, TWO, Until(simulated_s=0.5), FOUR)
    assert run_to(results, run) == ["runs", "goes on", "is stored"]
    lines = read_lines(archived(run, results))
    assert min(lines[-1]["time_s"].values()) >= 0.5
    assert not {CHECKPOINT, MODEL} & files(run, results)


def test_a_run_to_the_target_ends_there(scenario: Scenario, results: Path) -> None:
    scenario = replace(scenario, paper=replace(scenario.paper, target=0.01))
    run = plan_run(scenario, Until(rounds=4, is_to_target=True))
    run_to(results, run)
    assert len(read_lines(archived(run, results))) == 1


def test_fedavg_fixes_the_target_and_later_rounds_do_not_change_it(
    scenario: Scenario, results: Path
) -> None:
    paper = PaperSettings(
        title="Tiny", dim=475, rounds=4, below_fedavg=0.02, fedavg_rounds=2
    )
    scenario = replace(scenario, paper=paper)
    to_target = Until(rounds=4, is_to_target=True)
    others = plan_run(scenario, to_target)
    assert next_task(others, to_target, results).target is None
    fedavg = plan_run(scenario, TWO, entrant=FEDAVG)
    run_to(results, fedavg)
    first = read_lines(archived(fedavg, results))
    best = max(line["accuracy"] for line in first)
    expected = pytest.approx(best - 0.02)
    assert next_task(others, to_target, results).target == expected
    run_to(results, replace(fedavg, untils=(FOUR,)))
    assert next_task(others, to_target, results).target == expected


def test_other_settings_under_the_same_name_are_refused_before_anything_runs(
    scenario: Scenario, results: Path, tmp_path: Path
) -> None:
    run = plan_run(scenario, TWO)
    run_to(results, run)
    other = make_scenario(tmp_path / "data", train={"lr": 0.2})
    new = plan_run(other, TWO, entrant=Entrant("switchml", "switchml"))
    run_options, lines = make_run_options(results)
    with refuses(
        f"{archived(run, results)}: train.lr of the stored run is 0.1, that of "
        "scenario digits is 0.2; move it away, or give another --out",
        RunError,
    ):
        run_plan([new, plan_run(other, TWO)], run_options)
    assert lines == []
    assert not folder_of(new, results).exists()


def test_the_device_is_the_one_asked_for(scenario: Scenario, results: Path) -> None:
    run = plan_run(scenario, TWO)
    automatic = replace(
        scenario.settings, train=replace(scenario.settings.train, device="auto")
    )
    run_options = RunOptions(results, "cpu", keeps_models=False, say=lambda _: None)
    assert run_options.on_device(automatic).train.device == "cpu"
    unasked = replace(run_options, device=None)
    assert unasked.on_device(automatic).train.device == "auto"
    assert run_plan([run], run_options) == []


def test_missing_results_need_everything(scenario: Scenario, results: Path) -> None:
    run = plan_run(scenario, TWO)
    assert next_task(run, TWO, results).step is Step.START
    run_to(results, run)
    assert next_task(run, TWO, results).step is Step.REUSE
    shutil.rmtree(results)
    assert next_task(run, TWO, results).step is Step.START


def test_a_measurement_of_other_rounds_keeps_those_before(
    scenario: Scenario, results: Path
) -> None:
    run_options, lines = make_run_options(results)
    assert measure_theory([(scenario, 1)], [2], run_options) == []
    assert measure_theory([(scenario, 1)], [1], run_options) == []
    stored = load_measurement(measurement_file(results, "digits", 1))
    assert [each.round_number for each in stored.rounds] == [1, 2]
    assert lines[2] == "digits theory seed 1 runs to round 2"
