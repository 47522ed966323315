"""The figure on theory: drawn from what was measured for each scenario and seed."""

from pathlib import Path
from typing import Any

from rich.console import RenderableType

from fediac.errors import RunError
from fediac.files import write_whole
from fediac.paper.entrants import TUNED
from fediac.paper.figures.tables import tabulate_theory
from fediac.paper.plan import PlannedRun, Product, Scope
from fediac.paper.products import Output
from fediac.paper.scenarios import Scenario
from fediac.paper.tasks import check_same
from fediac.paper.theory.figure import draw_theory
from fediac.paper.theory.stored import Measurement, load_measurement

FOLDER = "theory"


def measurement_file(results: Path, scenario: str, seed: int) -> Path:
    """Return where a folder of results keeps one measurement."""
    return results / FOLDER / scenario / f"seed{seed}.json"


def list_missing(scope: Scope, results: Path) -> list[tuple[Scenario, int]]:
    """Return the scenarios and seeds whose rounds are not all measured yet.

    Raises:
        RunError: What is stored had other settings, or a file is damaged.
    """
    wanted = set(scope.extent.theory_rounds)
    return [
        (scenario, seed)
        for scenario in scope.scenarios(Product.FIG_THEORY)
        for seed in scope.seeds
        if not wanted <= stored_rounds(scenario, seed, results)
    ]


def stored_rounds(scenario: Scenario, seed: int, results: Path) -> set[int]:
    """Return the rounds that are measured.

    Raises:
        RunError: What is stored had other settings, or a file is damaged.
    """
    found = _load(scenario, seed, results)
    return set() if found is None else {each.round_number for each in found.rounds}


def plan_measurement(scenario: Scenario, seed: int) -> PlannedRun:
    """Return the run whose rounds are measured: FediAC with a tuned width."""
    return PlannedRun(scenario, TUNED, seed, ())


def make_theory(scope: Scope, results: Path) -> Output:
    """Draw what is measured, a picture for each scenario and seed.

    Raises:
        RunError: Nothing is measured, or with other settings, or a file is damaged.
        ConfigError: A picture cannot be drawn here.
    """
    shown: list[RenderableType] = []
    numbers: list[dict[str, Any]] = []
    files: list[Path] = []
    for scenario in scope.scenarios(Product.FIG_THEORY):
        for seed in scope.seeds:
            measurement = _load(scenario, seed, results)
            if measurement is None:
                continue
            ending = "" if seed == 1 else f"-seed{seed}"
            picture = results / f"{Product.FIG_THEORY}-{scenario.name}{ending}.svg"
            draw_theory(measurement, picture)
            table = tabulate_theory(measurement)
            title = f"{scenario.paper.title}, seed {seed}"
            page = picture.with_suffix(".md")
            text = table.as_markdown()
            write_whole(page, f"# {Product.FIG_THEORY}: {title}\n\n{text}")
            files += [picture, page]
            shown += [title, table.as_fitted(), ""]
            numbers.append(
                {
                    "scenario": scenario.name,
                    "seed": seed,
                    **measurement.as_document(),
                }
            )
    if not files:
        raise RunError(f"{results}: holds no measurement for {Product.FIG_THEORY}")
    return Output(tuple(shown), numbers, tuple(files))


def _load(scenario: Scenario, seed: int, results: Path) -> Measurement | None:
    """Return a measurement with the scenario's settings, None if there is none."""
    path = measurement_file(results, scenario.name, seed)
    if not path.exists():
        return None
    measurement = load_measurement(path)
    check_same(measurement.settings, plan_measurement(scenario, seed), path)
    return measurement
