from pathlib import Path
from typing import Any

import pytest

from fediac.paper.dry_run import estimate_rounds, list_steps
from fediac.paper.plan import PlannedRun, Product, Scope, Until, make_plan
from fediac.paper.stored import index_runs, read_stored
from tests.unit.paper.planned_runs import TWO, run_to
from tests.unit.paper.tiny_scenario import make_scenario, plan_run


def test_rounds_that_are_counted_need_no_estimate(tmp_path: Path) -> None:
    run = plan_run(make_scenario(tmp_path), TWO)
    assert estimate_rounds(run, Until(rounds=7)) == 7
    assert estimate_rounds(run, Until(rounds=7, simulated_s=0.0001)) == 1


def test_switchml_gets_about_nine_rounds_into_the_papers_time() -> None:
    scope = Scope(only=("cifar10-iid",), entrants=("switchml", "fediac"))
    fediac, switchml = make_plan([Product.FIG_ACCURACY], scope)
    n_switchml, n_fediac = (
        estimate_rounds(run, run.untils[0]) for run in (switchml, fediac)
    )
    assert n_switchml is not None
    assert n_fediac is not None
    # 11,174 packets at 200 to 2,800 packets/s; the paper's traffic is that of 9 rounds.
    assert 500.0 / (11_174 / 200) <= n_switchml <= 500.0 / (11_174 / 2_800)
    assert n_fediac > n_switchml


def test_votes_that_entries_share_leave_time_for_more_rounds() -> None:
    scope = Scope(only=("cifar10-iid",), entrants=("fediac-topk-a3",))
    (topk,) = make_plan([Product.SWEEPS], scope)
    scope = Scope(only=("cifar10-iid",), entrants=("fediac-shared-k5",))
    (shared,) = make_plan([Product.SWEEPS], scope)
    until = Until(simulated_s=500.0)
    n_topk, n_shared = (estimate_rounds(run, until) for run in (topk, shared))
    assert n_topk is not None
    assert n_shared is not None
    # Either sends 7.5 % of all entries, with 12 bits; the votes are a bit or a 16th.
    assert n_shared > 1.4 * n_topk


def steps_of(plan: list[PlannedRun], results: Path) -> list[dict[str, Any]]:
    return list_steps(plan, index_runs(read_stored(results)), results)


def test_a_run_that_goes_on_has_fewer_rounds_left(tmp_path: Path) -> None:
    scenario = make_scenario(tmp_path / "data")
    run_to(tmp_path / "results", plan_run(scenario, TWO), keeps_models=True)
    plan = [plan_run(scenario, Until(rounds=5))]
    (step,) = steps_of(plan, tmp_path / "results")
    assert (step["step"], step["stored_rounds"], step["rounds"]) == ("goes on", 2, 3)


@pytest.mark.parametrize(("n_rounds", "step"), [(2, "is stored"), (3, "runs again")])
def test_steps_tell_what_is_stored(tmp_path: Path, n_rounds: int, step: str) -> None:
    scenario = make_scenario(tmp_path / "data")
    run_to(tmp_path / "results", plan_run(scenario, TWO))
    plan = [plan_run(scenario, Until(rounds=n_rounds))]
    assert steps_of(plan, tmp_path / "results") == [
        {
            "scenario": "digits",
            "entrant": "fediac",
            "seed": 1,
            "step": step,
            "until": f"{n_rounds} rounds",
            "stored_rounds": 2,
            "rounds": 0 if step == "is stored" else 3,
            "is_limit": False,
        }
    ]
