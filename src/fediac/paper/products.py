"""Tables, figures and pages, written from all runs that are stored."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import RenderableType

from fediac.console import own_version
from fediac.errors import RunError
from fediac.files import write_whole
from fediac.paper import sweeps, tables
from fediac.paper.entrants import FEDAVG, Entrant, is_ours
from fediac.paper.inventory import FILE, list_stored, render_inventory
from fediac.paper.plan import PlannedRun, Product, Scope, list_entrants
from fediac.paper.published import CLAIMS
from fediac.paper.scenarios import NAMES, Scenario, find_scenario
from fediac.paper.targets import find_target
from fediac.paper.tasks import check_same
from fediac.report.page import Report, render_page
from fediac.report.reading import tell_apart
from fediac.report.target import Target, choose_target
from fediac.runs.stored import Run

SWITCHES = {
    Product.TABLE1: "fast",
    Product.TABLE2: "slow",
    Product.FIG_TRAFFIC: "fast",
}


@dataclass(frozen=True, slots=True)
class Output:
    """One table or figure.

    Attributes:
        shown: For a terminal, of what was asked for.
        numbers: For programs, of the same.
        files: What was written; tables are of everything that is stored.
        notes: What may not have been meant, a line each.
    """

    shown: tuple[RenderableType, ...]
    numbers: list[dict[str, Any]]
    files: tuple[Path, ...]
    notes: tuple[str, ...] = ()


def make_product(
    product: Product, scope: Scope, runs: Sequence[Run], results: Path
) -> Output:
    """Write a table or figure of all stored runs; return what was asked for of it.

    Args:
        product: A table or figure of runs.
        scope: What was asked for.
        runs: All that are stored in ``results``.
        results: Gets the files.

    Raises:
        RunError: Nothing is stored that it could show, or a run with other settings.
        ConfigError: A picture cannot be drawn here.
    """
    check_stored(product, scope, runs)
    if product in SWITCHES:
        return _make_table(product, scope, runs, results)
    if product is Product.SWEEPS:
        return _make_sweeps(scope, runs, results)
    if product is Product.PAGES:
        return _make_pages(scope, runs, results)
    if product is Product.RUNS:
        return _make_inventory(runs, results)
    return _make_figure(product, scope, runs, results)


def check_stored(product: Product, scope: Scope, runs: Sequence[Run]) -> None:
    """Refuse stored runs that a product cannot be made of.

    Raises:
        RunError: A run is of another version of its scenario and must not stand beside
            others.
    """
    names = {run.scenario for run in runs}
    for scenario in (find_scenario(name) for name in NAMES if name in names):
        shown = [FEDAVG, *list_entrants(product, scenario, scope.extent)]
        if product in (
            *SWITCHES,
            Product.FIG_ACCURACY,
            Product.PAGES,
        ):  # the best of a sweep is there too
            shown += list_entrants(Product.SWEEPS, scenario, scope.extent)
        entrants = {entrant.name: entrant for entrant in shown}
        for run in runs:
            if run.scenario == scenario.name and run.entrant in entrants:
                planned = PlannedRun(scenario, entrants[run.entrant], run.seed, ())
                check_same(run.settings, planned, run.folder)


def _make_table(
    product: Product, scope: Scope, runs: Sequence[Run], results: Path
) -> Output:
    switch = SWITCHES[product]
    rows, tried = tables.list_rows(runs, switch), tables.list_tried(runs, switch)
    blocks = tables.make_blocks(rows, tried)
    names = {scenario.name for scenario in scope.scenarios(product)}
    asked = [row for row in rows if row.scenario in names]
    notes = _say_untargeted(runs, names)
    if notes and not asked:
        raise RunError(f"{results}: {'; '.join(notes)}")
    _check_some(asked, product, runs, results)
    if product is Product.FIG_TRAFFIC:
        files = _draw_table(blocks, results / f"{product}.svg")
    else:
        files = _write_both(
            results / product,
            tables.render_markdown(blocks, switch),
            tables.as_documents(rows),
        )
    shown = tuple(
        tables.render_block(each) for each in blocks if each.scenario.name in names
    )
    notes += _say_lacking(product, scope, runs)
    return Output(shown, tables.as_documents(asked), files, tuple(notes))


def _say_untargeted(runs: Sequence[Run], names: Collection[str]) -> list[str]:
    """Return which seeds a table leaves out because their target is not known."""
    places = dict.fromkeys((run.scenario, run.seed) for run in runs)
    return [
        f"left out: {name} seed {seed}, whose target is not known before {FEDAVG.name} "
        f"has had {find_scenario(name).paper.fedavg_rounds} rounds"
        for name, seed in places
        if name in names and find_target(find_scenario(name), seed, runs) is None
    ]


def _draw_table(blocks: Sequence[tables.Block], picture: Path) -> tuple[Path, ...]:
    from fediac.paper.figures.traffic import draw_traffic

    draw_traffic(blocks, picture)
    return picture, picture.with_suffix(".json")


def _make_sweeps(scope: Scope, runs: Sequence[Run], results: Path) -> Output:
    found = sweeps.list_candidates(runs)
    names = {scenario.name for scenario in scope.scenarios(Product.SWEEPS)}
    asked = [each for each in found if each.scenario in names]
    _check_some(asked, Product.SWEEPS, runs, results)
    files = _write_both(
        results / Product.SWEEPS,
        sweeps.render_markdown(found),
        sweeps.as_documents(found),
    )
    shown = tuple(sweeps.render_tables(asked))
    return Output(shown, sweeps.as_documents(asked), files)


def _write_both(
    stem: Path, markdown: str, documents: list[dict[str, Any]]
) -> tuple[Path, ...]:
    page, data = stem.with_suffix(".md"), stem.with_suffix(".json")
    page.parent.mkdir(parents=True, exist_ok=True)
    write_whole(page, markdown)
    write_whole(data, json.dumps(documents, indent=2) + "\n")
    return page, data


def _make_figure(
    product: Product, scope: Scope, runs: Sequence[Run], results: Path
) -> Output:
    from fediac.paper.figures import curves, panels
    from fediac.paper.figures import tables as figure_tables

    ways: dict[Product, tuple[Callable[..., Any], Callable[..., Any]]] = {
        Product.FIG_ACCURACY: (
            curves.draw_accuracy,
            figure_tables.tabulate_accuracy,
        ),
        Product.FIG_NONIID: (curves.draw_noniid, figure_tables.tabulate_noniid),
        Product.FIG_SCALE: (curves.draw_scale, figure_tables.tabulate_scale),
    }
    draw, tabulate = ways[product]
    asked = {scenario.name for scenario in scope.scenarios(product)}
    # Accuracies of all scenarios stand side by side, as tables have them.
    shown = set(NAMES) if product is Product.FIG_ACCURACY else asked
    chosen = _choose(product, scope, runs, shown)
    own = [run for run in chosen if run.scenario in asked]
    _check_some(own, product, runs, results)
    picture, until_s = results / f"{product}.svg", scope.extent.until_s
    before = _list_shown(picture.with_suffix(".json"))
    numbers = draw(chosen, picture, until_s=until_s)
    if product is Product.FIG_ACCURACY:
        note = panels.describe_lines(numbers)
    else:
        note = panels.describe_finals(numbers, until_s=until_s)
    page = picture.with_suffix(".md")
    head = f"# {product}\n\nThe paper's claim: {CLAIMS[product]}.\n\n{note}\n\n"
    write_whole(page, head + tabulate(numbers).as_markdown())
    rows = [row for row in numbers if row["scenario"] in asked]
    files = (picture, picture.with_suffix(".json"), page)
    lost = sorted(before - _list_shown(picture.with_suffix(".json")))
    notes = [
        f"{product} no longer shows {each}, which was not asked for" for each in lost
    ]
    notes += _say_lacking(product, scope, own)
    return Output((tabulate(rows).as_fitted(), ""), rows, files, tuple(notes))


_MAX_NAMED = 4


def _say_lacking(product: Product, scope: Scope, own: Sequence[Run]) -> list[str]:
    """Return who is asked for and not stored: nothing shows what it lacks."""
    stored = {(run.scenario, run.entrant, run.seed) for run in own}
    begun = {run.scenario for run in own}
    lacking = [
        f"{scenario.name} {entrant.name} seed {seed}"
        for scenario in scope.scenarios(product)
        if scenario.name in begun or scope.only
        for entrant in list_entrants(product, scenario, scope.extent)
        if not scope.entrants or entrant.is_called(scope.entrants)
        for seed in scope.seeds
        if (scenario.name, entrant.name, seed) not in stored
    ]
    if not lacking:
        return []
    more = f" and {len(lacking) - _MAX_NAMED} more" * (len(lacking) > _MAX_NAMED)
    return [f"{product} lacks {', '.join(lacking[:_MAX_NAMED])}{more}: not stored"]


def _list_shown(numbers: Path) -> set[str]:
    """Return scenario and seed of all that a figure shows; of none before there is one.

    A figure shows what is asked for: asking for less replaces a fuller one, which may
    have been wanted.
    """
    try:
        rows = json.loads(numbers.read_bytes())
        return {f"{row['scenario']} seed {s}" for row in rows for s in row["seeds"]}
    except (OSError, ValueError, TypeError, KeyError):
        return set()


def _choose(
    product: Product, scope: Scope, runs: Sequence[Run], names: Collection[str]
) -> list[Run]:
    """Return the runs of a figure: its entrants, with the seeds that are asked for.

    One short run more, of another seed, would cut the whole figure to its length.
    """
    wanted = {
        (name, entrant.name, seed)
        for name in names
        for entrant in _list_shown_entrants(product, find_scenario(name), scope)
        for seed in scope.seeds
    }
    return [run for run in runs if (run.scenario, run.entrant, run.seed) in wanted]


def _list_shown_entrants(
    product: Product, scenario: Scenario, scope: Scope
) -> list[Entrant]:
    """Return who may be in a figure; the accuracy figure has FediAC's best votes, too.

    They are run by sweeps: which ones are the best is known when all are stored.
    """
    own = list_entrants(product, scenario, scope.extent)
    if product is not Product.FIG_ACCURACY:
        return own
    swept = list_entrants(Product.SWEEPS, scenario, scope.extent)
    return [*own, *(each for each in swept if is_ours(each.name))]


def _check_some(
    found: Sequence[object],
    product: Product,
    runs: Sequence[Run],
    results: Path,
) -> None:
    if not found:
        names = {run.scenario for run in runs}
        own = ", ".join(name for name in NAMES if name in names)
        hint = f"; its runs are of {own} (see --only)" if own else ""
        raise RunError(f"{results}: holds no run that {product} could show{hint}")


def _make_pages(scope: Scope, runs: Sequence[Run], results: Path) -> Output:
    """Write a page on each scenario: all of its table, with every stored seed."""
    files = []
    for scenario in scope.scenarios(Product.PAGES):
        names = [each.name for each in tables.list_compared(scenario, runs)]
        own = [r for r in runs if r.scenario == scenario.name and r.entrant in names]
        if not own:
            continue
        order = sorted(own, key=lambda run: (names.index(run.entrant), run.seed))
        targets = {run.seed: find_target(scenario, run.seed, own) for run in own}
        known = [run for run in order if targets[run.seed] is not None]
        shown = tell_apart(known or order)
        target = _page_target(shown, targets)
        page = results / f"report-{scenario.name}.html"
        write_whole(page, render_page(Report(shown, target, [], own_version())))
        files.append(page)
    _check_some(files, Product.PAGES, runs, results)
    return Output((), [], tuple(files))


def _page_target(
    runs: Sequence[Run], targets: Mapping[int, float | None]
) -> Target | None:
    """Return what a page compares at: as in the tables, each seed at its own target."""
    known = {seed: each for seed, each in targets.items() if each is not None}
    if not known:
        return choose_target(runs, None)
    if len(set(known.values())) == 1:
        return Target(next(iter(known.values())), "The target is the scenario's.")
    origin = "Each seed has its own target; this is their mean."
    return Target(fmean(known.values()), origin, known)


def _make_inventory(runs: Sequence[Run], results: Path) -> Output:
    """Write the list of all stored runs, what they cost and where they came from."""
    _check_some(runs, Product.RUNS, runs, results)
    rows, page = list_stored(runs), results / FILE
    write_whole(page, render_inventory(rows))
    return Output((), rows, (page,))
