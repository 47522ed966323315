"""The figure on theory: drawn from what was measured for each scenario and seed."""

from dataclasses import asdict
from pathlib import Path

from fediac.errors import RunError
from fediac.experiments.paper.plan import Product, Scope
from fediac.experiments.paper.products import Made
from fediac.experiments.paper.scenarios import Scenario
from fediac.experiments.paper.theory_figure import draw_theory
from fediac.experiments.paper.theory_stored import load_measurement

FOLDER = "theory"


def measurement_file(results: Path, scenario: str, seed: int) -> Path:
    """Return where a folder of results keeps one measurement."""
    return results / FOLDER / scenario / f"seed{seed}.json"


def list_missing(scope: Scope, results: Path) -> list[tuple[Scenario, int]]:
    """Return the scenarios and seeds that are not measured yet."""
    return [
        (scenario, seed)
        for scenario in scope.scenarios(Product.FIG_THEORY)
        for seed in scope.seeds
        if not measurement_file(results, scenario.name, seed).exists()
    ]


def make_theory(scope: Scope, results: Path) -> Made:
    """Draw what is measured, a picture for each scenario and seed.

    Raises:
        RunError: Nothing is measured, or a file is damaged.
        ConfigError: A picture cannot be drawn here.
    """
    shown, numbers, files = [], [], []
    for scenario in scope.scenarios(Product.FIG_THEORY):
        for seed in scope.seeds:
            path = measurement_file(results, scenario.name, seed)
            if not path.exists():
                continue
            measurement = load_measurement(path)
            ending = "" if seed == 1 else f"-seed{seed}"
            picture = results / f"{Product.FIG_THEORY}-{scenario.name}{ending}.svg"
            draw_theory(measurement, picture)
            files.append(picture)
            numbers.append(
                {"scenario": scenario.name, "seed": seed, **asdict(measurement)}
            )
            looked = ", ".join(str(each.round_number) for each in measurement.rounds)
            shown.append(f"{picture}: rounds {looked} of {scenario.paper.title}")
    if not files:
        raise RunError(f"{results}: holds no measurement for {Product.FIG_THEORY}")
    return Made(tuple(shown), numbers, tuple(files))
