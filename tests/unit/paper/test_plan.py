import pytest

from fediac.cli import paper as cli
from fediac.errors import ConfigError
from fediac.paper.plan import (
    PlannedRun,
    Product,
    Scope,
    Until,
    make_plan,
)
from fediac.paper.scenarios import NAMES
from fediac.runs.settings import StopSettings
from tests.support import refuses

TIME = Until(simulated_s=500.0)


def names(runs: list[PlannedRun]) -> list[str]:
    return [run.entrant.name for run in runs]


def test_both_tables_take_the_same_runs_to_the_target() -> None:
    scope = Scope(only=("cifar10-iid",), seeds=(1, 2))
    first, second = (make_plan([table], scope) for table in list(Product)[:2])
    assert first == second
    assert len(first) == 12
    assert {run.seed for run in first} == {1, 2}
    assert {run.untils for run in first} == {(Until(rounds=100, is_to_target=True),)}


def test_a_run_that_two_products_need_is_planned_once() -> None:
    scope = Scope(only=("cifar10-iid",))
    plan = make_plan([Product.TABLE1, Product.TABLE2, Product.FIG_ACCURACY], scope)
    assert len(plan) == 6
    goals = (Until(rounds=100, is_to_target=True), TIME)
    assert {run.untils for run in plan} == {goals}


@pytest.mark.parametrize("products", [["table1"], ["fig-accuracy", "table1"]])
def test_fedavg_fixes_the_target_before_others_are_to_reach_it(
    products: list[str],
) -> None:
    scope = Scope(only=("cifar10-iid", "unipen62"), entrants=("fediac", "fedavg"))
    plan = make_plan([Product(name) for name in products], scope)
    assert [(run.scenario.name, run.entrant.name) for run in plan] == [
        ("cifar10-iid", "fediac"),
        ("cifar10-iid", "fedavg"),
        ("unipen62", "fedavg"),
        ("unipen62", "fediac"),
    ]
    assert Until(rounds=50) in plan[2].untils


def test_fedavg_runs_even_if_it_was_not_asked_for_where_it_fixes_the_target() -> None:
    plan = make_plan([Product.TABLE1], Scope(only=("unipen62",), entrants=("libra",)))
    assert names(plan) == ["fedavg", "libra"]
    assert plan[0].untils == (Until(rounds=50),)


def test_the_noniid_figure_compares_fediac_and_libra() -> None:
    plan = make_plan([Product.FIG_NONIID], Scope())
    assert {run.scenario.name for run in plan} == {"cifar10-noniid"}
    points = [(run.settings.algorithm, run.settings.data.beta) for run in plan]
    betas = (0.3, 0.5, 1.0, 5.0)
    assert points == [(name, beta) for name in ("fediac", "libra") for beta in betas]
    assert {run.untils for run in plan} == {(TIME,)}


def test_the_scale_figure_has_four_thresholds_for_four_numbers_of_clients() -> None:
    plan = make_plan([Product.FIG_SCALE], Scope())
    assert len({run.key for run in plan}) == len(plan) == 32
    numbers = [run.settings.clients.n_clients for run in plan[:16]]
    assert numbers == [n for n in (20, 30, 40, 50) for _ in range(4)]


def test_equal_thresholds_of_few_clients_are_run_once() -> None:
    plan = make_plan([Product.FIG_SCALE], Scope(is_quick=True))
    # 5, 10, 15 and 20 % of 8 are 1, 1, 2 and 2; of 16 they are 1, 2, 3 and 4.
    assert names(plan) == [
        "fediac-a1",
        "fediac-tuned",
        "fediac-n16-a5",
        "fediac-n16-a10",
        "fediac-n16-a15",
        "fediac-n16-a20",
    ]


def test_sweeps_run_every_candidate_once() -> None:
    plan = make_plan([Product.SWEEPS], Scope(only=("cifar10-iid",)))
    assert len(plan) == 73
    assert {"fediac-tuned", "switchml", "libra", "omnireduce"} < set(names(plan))


def test_theory_needs_no_stored_run() -> None:
    assert make_plan([Product.FIG_THEORY], Scope()) == []


def test_help_names_every_product_and_every_scenario() -> None:
    assert list(Product) == list(cli.PRODUCTS)
    assert sorted(NAMES) == sorted(cli.SCENARIOS)


@pytest.mark.parametrize("product", list(Product))
def test_quick_is_always_the_embedded_digits(product: Product) -> None:
    scope = Scope(is_quick=True)
    assert [each.name for each in scope.scenarios(product)] == ["digits"]


def test_entrants_are_chosen_by_name() -> None:
    scope = Scope(only=("cifar10-iid",), entrants=("libra", "fediac"))
    assert names(make_plan([Product.TABLE1], scope)) == ["fediac", "libra"]


def test_an_entrant_of_one_product_is_none_of_another() -> None:
    scope = Scope(only=("cifar10-iid",), entrants=("fediac-n30-a10",))
    plan = make_plan([Product.TABLE1, Product.FIG_SCALE], scope)
    assert names(plan) == ["fediac-n30-a10"]


def test_a_setting_that_is_the_scenarios_own_may_be_called_by_either_name() -> None:
    scope = Scope(
        only=("cifar10-iid", "cifar10-noniid"),
        entrants=("fediac-a3", "switchml-bits8", "libra"),
    )
    plan = make_plan([Product.SWEEPS], scope)
    assert [run.label for run in plan] == [
        "cifar10-iid fediac-tuned seed 1",
        "cifar10-iid switchml seed 1",
        "cifar10-iid libra seed 1",
        "cifar10-noniid fediac-a3 seed 1",
        "cifar10-noniid switchml seed 1",
        "cifar10-noniid libra seed 1",
    ]


def test_an_unknown_entrant_or_scenario_is_refused() -> None:
    message = "unknown entrant 'libr'; did you mean 'libra'?"
    with refuses(message, ConfigError):
        make_plan([Product.FIG_NONIID], Scope(entrants=("libr",)))
    with refuses("unknown scenario 'digit'; did you mean 'digits'?", ConfigError):
        make_plan([Product.TABLE1], Scope(only=("digit",)))


def test_ends_become_stops() -> None:
    to_target = Until(rounds=100, is_to_target=True)
    assert to_target.stop(0.6) == StopSettings(rounds=100, target=0.6)
    assert TIME.stop(0.6) == StopSettings(simulated_s=500.0)
    assert to_target.describe(0.63) == "63 % or 100 rounds"
    assert to_target.describe(None) == "the target or 100 rounds"
    assert TIME.describe(0.63) == "500 s"
