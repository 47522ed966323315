"""What each table or figure of the paper needs: which runs, and how far."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from fediac.console import count
from fediac.paper.entrants import (
    CANDIDATES,
    FEDAVG,
    MAIN,
    Entrant,
    check_names,
    decisive,
    find_known,
    vary_beta,
    vary_scale,
)
from fediac.paper.published import FIGURE_S
from fediac.paper.scenarios import (
    IN_THE_PAPER,
    NAMES,
    Scenario,
    find_scenario,
)
from fediac.runs.settings import RunSettings, StopSettings


class Product(StrEnum):
    """What ``fediac paper`` makes."""

    TABLE1 = "table1"
    TABLE2 = "table2"
    FIG_TRAFFIC = "fig-traffic"
    FIG_ACCURACY = "fig-accuracy"
    FIG_NONIID = "fig-noniid"
    FIG_SCALE = "fig-scale"
    SWEEPS = "sweeps"
    FIG_THEORY = "fig-theory"
    PAGES = "pages"
    RUNS = "runs"


TABLES = (Product.TABLE1, Product.TABLE2, Product.FIG_TRAFFIC)
"""Everybody's way to the target; the figure shows the first one."""

TIMED = frozenset((Product.FIG_ACCURACY, Product.FIG_NONIID, Product.FIG_SCALE))
"""Products whose runs end by the simulated clock."""

UNPLANNED = (Product.FIG_THEORY, Product.PAGES, Product.RUNS)
"""Products that no run is planned for: theory measures its own, others list runs."""

_SCENARIOS = {
    Product.TABLE1: IN_THE_PAPER,
    Product.TABLE2: IN_THE_PAPER,
    Product.FIG_TRAFFIC: IN_THE_PAPER,
    Product.FIG_ACCURACY: IN_THE_PAPER,
    Product.FIG_NONIID: ("cifar10-noniid",),
    Product.FIG_SCALE: ("cifar10-iid", "cifar10-noniid"),
    Product.SWEEPS: ("cifar10-iid", "cifar10-noniid"),
    Product.FIG_THEORY: ("cifar10-iid",),
    Product.PAGES: IN_THE_PAPER,
    Product.RUNS: IN_THE_PAPER,
}

QUICK_SCENARIO = "digits"


@dataclass(frozen=True, slots=True)
class Extent:
    """How large the figures are.

    Attributes:
        until_s: Simulated seconds of a run, on every switch.
        rounds: When a run for a figure ends at the latest.
        betas: Dirichlet parameters of the non-IID figure.
        numbers: Numbers of clients of the scale figure.
        theory_rounds: Rounds in which theory is compared with what happens.
    """

    until_s: float
    rounds: int | None
    betas: tuple[float, ...]
    numbers: tuple[int, ...]
    theory_rounds: tuple[int, ...]


FULL = Extent(FIGURE_S, None, (0.3, 0.5, 1.0, 5.0), (20, 30, 40, 50), (1, 5, 10, 20))
QUICK = Extent(1.0, None, (0.3, 5.0), (8, 16), (1, 2))


@dataclass(frozen=True, slots=True)
class Scope:
    """What was asked for.

    Attributes:
        only: Scenarios; empty: those of the paper.
        entrants: Names; empty: all.
        is_quick: Seconds on a CPU, with embedded data.
        until_s: Simulated seconds of a figure's runs; None: the paper's 500.
    """

    only: tuple[str, ...] = ()
    entrants: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (1,)
    is_quick: bool = False
    until_s: float | None = None

    @property
    def extent(self) -> Extent:
        """How large figures are."""
        extent = QUICK if self.is_quick else FULL
        if self.until_s is None:
            return extent
        return replace(extent, until_s=self.until_s, rounds=None)

    def scenarios(self, product: Product) -> list[Scenario]:
        """Return the scenarios of a table or figure.

        Raises:
            ConfigError: A name is unknown; the message names the nearest.
        """
        default = (QUICK_SCENARIO,) if self.is_quick else _SCENARIOS[product]
        return [find_scenario(name) for name in self.only or default]


@dataclass(frozen=True, slots=True)
class Until:
    """How far a run goes: to the first of these.

    Attributes:
        rounds: So many rounds.
        simulated_s: The clock of every switch.
        is_to_target: The scenario's target accuracy.
    """

    rounds: int | None = None
    simulated_s: float | None = None
    is_to_target: bool = False

    def stop(self, target: float | None) -> StopSettings:
        """Return this as a run's settings have it."""
        goal = target if self.is_to_target else None
        return StopSettings(
            rounds=self.rounds, simulated_s=self.simulated_s, target=goal
        )

    def describe(self, target: float | None) -> str:
        """Return this in a few words."""
        parts = []
        if self.is_to_target:
            parts.append("the target" if target is None else f"{100 * target:g} %")
        if self.simulated_s is not None:
            parts.append(f"{self.simulated_s:g} s")
        if self.rounds is not None:
            parts.append(count(self.rounds, "round"))
        return " or ".join(parts)


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run that a table or figure needs.

    Attributes:
        untils: How far; it must get to each of them.
    """

    scenario: Scenario
    entrant: Entrant
    seed: int
    untils: tuple[Until, ...]

    @property
    def key(self) -> tuple[str, str, int]:
        """What tells runs apart."""
        return self.scenario.name, self.entrant.name, self.seed

    @property
    def label(self) -> str:
        """Its name for people."""
        return f"{self.scenario.name} {self.entrant.name} seed {self.seed}"

    @property
    def settings(self) -> RunSettings:
        """What runs, but for its stop."""
        return replace(self.entrant.apply(self.scenario.settings), seed=self.seed)


def list_entrants(
    product: Product, scenario: Scenario, extent: Extent
) -> list[Entrant]:
    """Return who takes part in a table or figure, in its order."""
    if product in (Product.FIG_THEORY, Product.RUNS):
        return []
    if product in (*TABLES, Product.FIG_ACCURACY, Product.PAGES):
        return list(MAIN)
    if product is Product.SWEEPS:
        varied = [each for family in CANDIDATES.values() for each in family]
    elif product is Product.FIG_NONIID:
        varied = vary_beta(extent.betas)
    else:
        varied = vary_scale(extent.numbers)
    known = [find_known(each, scenario.settings) for each in varied]
    return _unlike(known, scenario)


def _unlike(entrants: Sequence[Entrant], scenario: Scenario) -> list[Entrant]:
    """Leave out entrants that would run what an earlier one runs.

    With few clients several shares of them are the same number.
    """
    kept: list[Entrant] = []
    seen: list[dict[str, Any]] = []
    for entrant in entrants:
        own = decisive(entrant.apply(scenario.settings))
        if own not in seen:
            seen.append(own)
            kept.append(entrant)
    return kept


def make_plan(products: Sequence[Product], scope: Scope) -> list[PlannedRun]:
    """Return the runs that the products need, each once, in the order to run them.

    Raises:
        ConfigError: A scenario or an entrant is unknown.
    """
    _check_entrants(products, scope)
    runs: dict[tuple[str, str, int], PlannedRun] = {}
    for product in products:
        for scenario in scope.scenarios(product):
            for seed in scope.seeds:
                for run in _needs(product, scenario, seed, scope):
                    known = runs.setdefault(run.key, run)
                    untils = dict.fromkeys((*known.untils, *run.untils))
                    runs[run.key] = replace(known, untils=tuple(untils))
    return _fedavg_first(list(runs.values()))


def _check_entrants(products: Sequence[Product], scope: Scope) -> None:
    """Refuse names of entrants that nothing asked for has."""
    everyone = [
        entrant
        for product in products
        for scenario in scope.scenarios(product)
        for entrant in list_entrants(product, scenario, scope.extent)
    ]
    swept = [
        entrant
        for product in products
        for scenario in scope.scenarios(product)
        for entrant in list_entrants(Product.SWEEPS, scenario, scope.extent)
    ]
    check_names(scope.entrants, everyone, swept)


def _fedavg_first(runs: list[PlannedRun]) -> list[PlannedRun]:
    """Order runs by scenario, those that fix its target before those to reach it."""
    places = {name: place for place, name in enumerate(NAMES)}
    return sorted(
        runs, key=lambda run: (places[run.scenario.name], not _fixes_target(run))
    )


def _fixes_target(run: PlannedRun) -> bool:
    return run.scenario.paper.fedavg_rounds is not None and run.entrant == FEDAVG


def _needs(
    product: Product, scenario: Scenario, seed: int, scope: Scope
) -> list[PlannedRun]:
    if product in UNPLANNED:
        return []
    paper, extent = scenario.paper, scope.extent
    is_to_target = product in (*TABLES, Product.SWEEPS)
    until = Until(simulated_s=extent.until_s, rounds=extent.rounds)
    if is_to_target:
        until = Until(rounds=paper.rounds, is_to_target=True)
    runs = []
    if is_to_target and paper.fedavg_rounds is not None:
        fixes = Until(rounds=paper.fedavg_rounds)
        runs.append(PlannedRun(scenario, FEDAVG, seed, (fixes,)))
    return runs + [
        PlannedRun(scenario, each, seed, (until,))
        for each in list_entrants(product, scenario, extent)
        if not scope.entrants or each.is_called(scope.entrants)
    ]
