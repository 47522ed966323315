"""``fediac paper``: run what is missing, write tables and figures, show them."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from fediac.console import FAILED, open_console, write_json
from fediac.errors import INTERRUPTED, DatasetError, RunError
from fediac.files import require_folder
from fediac.paper.data import can_download, check_data, data_folder
from fediac.paper.dry_run import list_steps, render_steps
from fediac.paper.plan import PlannedRun, Product, Scope, make_plan
from fediac.paper.products import (
    Output,
    check_stored,
    make_product,
)
from fediac.paper.scenarios import Scenario
from fediac.paper.stored import Key, index_runs, read_stored
from fediac.paper.tasks import Device, RunOptions, needs_running
from fediac.paper.theory.product import list_missing, make_theory
from fediac.plan.pictures import require_matplotlib
from fediac.runs.progress import ProgressBars
from fediac.runs.requirements import require_torch
from fediac.runs.stored import Run


@dataclass(frozen=True, slots=True)
class Request:
    """The arguments of the command.

    Attributes:
        out: The folder of results.
        data: The data folder; None: where it always is.
        device: Where to train; None: as the scenario says.
        allows_other_kernels: Go on with runs where the last bits will be others.
        may_download: Fetch data that are missing.
        may_run: Not only from what is stored.
        is_dry: Say what would be run, and do nothing.
        words: The command line, to be typed again.
    """

    products: tuple[Product, ...]
    scope: Scope
    out: Path
    data: Path | None = None
    device: Device | None = None
    keeps_models: bool = False
    allows_other_kernels: bool = False
    may_download: bool = False
    may_run: bool = True
    is_dry: bool = False
    as_json: bool = False
    words: tuple[str, ...] = ()

    def say(self, line: str) -> None:
        """Write a line about progress to standard error, unless JSON was asked for."""
        if not self.as_json:
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()


@dataclass(frozen=True, slots=True)
class Problems:
    """What a command could not do, a line each.

    Attributes:
        left_out: Scenarios without data.
        failed: Runs and products.
    """

    left_out: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def paper_command(request: Request) -> None:
    """Make the tables and figures that were asked for, running what is missing."""
    problems = Problems()
    require_folder(request.out)
    if request.is_dry:
        _show_steps(request)
        return
    stored = _check_folder(request)
    if request.may_run:
        with data_folder(request.data):
            problems = _run_missing(request, index_runs(stored))
        stored = read_stored(request.out)
    made = _make_all(request, stored, problems)
    for note in (note for each in made.values() for note in each.notes):
        request.say(note)
    _show(request, made, problems)
    if problems.failed:
        sys.exit(FAILED)


def _make_all(
    request: Request, stored: Sequence[Run], problems: Problems
) -> dict[Product, Output]:
    """Make what can be made; where that is not all, the rest has failed.

    Raises:
        RunError: There is nothing to show, and nothing else that went wrong.
    """
    made = {}
    for product in request.products:
        try:
            made[product] = _make(product, request, stored)
        except RunError as error:
            if len(request.products) == 1 and not problems.failed:
                raise
            problems.failed.append(f"{product}: {error}")
    return made


def _all_scenarios(request: Request) -> list[Scenario]:
    found = {
        scenario.name: scenario
        for product in request.products
        for scenario in request.scope.scenarios(product)
    }
    return list(found.values())


def _check_folder(request: Request) -> list[Run]:
    """Return what is stored, if nothing stops a table or picture of it afterwards."""
    if not request.may_run and not request.out.is_dir():
        raise RunError(f"{request.out}: there is no such folder of results")
    if any(product.startswith("fig-") for product in request.products):
        require_matplotlib()
    stored = read_stored(request.out)
    for product in request.products:
        if product is Product.FIG_THEORY:
            list_missing(request.scope, request.out)
        else:
            check_stored(product, request.scope, stored)
    return stored


def _lacking(request: Request, scenarios: Sequence[Scenario]) -> dict[str, str]:
    """Return the scenarios whose data are missing, after saying what they lack.

    A scenario that was named must be run; without a name, those of the paper's that
    can be run are enough.

    Raises:
        DatasetError: Data are missing for a scenario that was named, or for all.
    """
    problems = _find_problems(scenarios, may_download=request.may_download)
    is_named = bool(request.scope.only) or request.scope.is_quick
    if problems and (is_named or len(problems) == len(_all_scenarios(request))):
        raise next(iter(problems.values()))
    for problem in problems.values():
        request.say(f"left out: {problem}")
    return {name: str(problem) for name, problem in problems.items()}


def _list_running(
    plan: Sequence[PlannedRun],
    theory: Sequence[tuple[Scenario, int]],
    stored: Mapping[Key, Run],
    request: Request,
) -> list[Scenario]:
    """Return the scenarios that have something to run, and so need their data."""
    own = [run.scenario for run in plan if needs_running(run, stored, request.out)]
    own += [scenario for scenario, _ in theory]
    names = {scenario.name for scenario in own}
    return [each for each in _all_scenarios(request) if each.name in names]


def _find_problems(
    scenarios: Sequence[Scenario], *, may_download: bool
) -> dict[str, DatasetError]:
    """Return scenario -> what is missing of its data."""
    problems = {}
    for scenario in scenarios:
        try:
            check_data(scenario, may_download=may_download)
        except DatasetError as error:
            problems[scenario.name] = error
    return problems


def _run_missing(request: Request, stored: Mapping[Key, Run]) -> Problems:
    """Run what is missing; return what was left out and which runs failed."""
    plan, theory = make_plan(request.products, request.scope), _missing_theory(request)
    running = _list_running(plan, theory, stored, request)
    lacking = _lacking(request, running)
    problems = Problems(left_out=list(lacking.values()))
    plan = [run for run in plan if run.scenario.name not in lacking]
    theory = [each for each in theory if each[0].name not in lacking]
    if not plan and not theory:
        return problems
    require_torch()
    from fediac.paper.running import measure_theory, run_plan
    from fediac.runs.build import choose_device

    choose_device(request.device or "auto")
    request.out.mkdir(parents=True, exist_ok=True)  # nothing refuses any more
    run_options = RunOptions(
        results=request.out,
        device=request.device,
        keeps_models=request.keeps_models,
        say=request.say,
        allows_other_kernels=request.allows_other_kernels,
    )
    try:
        with ProgressBars(is_quiet=request.as_json) as bars:
            problems.failed.extend(run_plan(plan, run_options, bars))
            rounds = request.scope.extent.theory_rounds
            problems.failed.extend(measure_theory(theory, rounds, run_options, bars))
    except KeyboardInterrupt:
        _say_how_to_go_on(request)
    return problems


def _missing_theory(request: Request) -> list[tuple[Scenario, int]]:
    """Return the scenarios and seeds whose theory is asked for and not measured."""
    if Product.FIG_THEORY not in request.products:
        return []
    return list_missing(request.scope, request.out)


def _say_how_to_go_on(request: Request) -> NoReturn:
    but = ", but a measurement of fig-theory begins anew"
    sys.stderr.write(
        f"stopped; every round that was done is in {request.out}"
        f"{but if Product.FIG_THEORY in request.products else ''}; go on with\n"
        f"  {shlex.join(['fediac', *request.words])}\n"
    )
    sys.exit(INTERRUPTED)


def _make(product: Product, request: Request, stored: Sequence[Run]) -> Output:
    if product is Product.FIG_THEORY:
        return make_theory(request.scope, request.out)
    return make_product(product, request.scope, stored, request.out)


def _show(
    request: Request,
    made: Mapping[Product, Output],
    problems: Problems,
) -> None:
    files = [path for each in made.values() for path in each.files]
    if request.as_json:
        document: dict[str, Any] = {p.value: each.numbers for p, each in made.items()}
        notes = [note for each in made.values() for note in each.notes]
        document |= {"files": [str(path) for path in files], "notes": notes}
        document |= asdict(problems)
        write_json(document)
        return
    console = open_console()
    for each in made.values():
        for part in each.shown:
            console.print(part)
    lines = [f"wrote {', '.join(str(path) for path in files)}"] if files else []
    for line in lines + [f"failed: {each}" for each in problems.failed]:
        console.print(line, soft_wrap=True)


def _show_steps(request: Request) -> None:
    """Say what would be run, and which data it would not find."""
    plan, theory = make_plan(request.products, request.scope), _missing_theory(request)
    stored = index_runs(read_stored(request.out))
    steps = list_steps(plan, stored, request.out)
    labels = [f"{scenario.name} seed {seed}" for scenario, seed in theory]
    with data_folder(request.data):
        scenarios = [
            each
            for each in _list_running(plan, theory, stored, request)
            if not (request.may_download and can_download(each))
        ]
        problems = _find_problems(scenarios, may_download=False)
    missing = [str(each) for each in problems.values()]
    if request.as_json:
        write_json({"runs": steps, "theory": labels, "missing": missing})
        return
    console = open_console()
    if steps:
        console.print(render_steps(steps))
    if Product.FIG_THEORY in request.products and not theory:
        console.print(f"everything that {Product.FIG_THEORY} shows is stored")
    rounds = request.scope.extent.theory_rounds
    for label in labels:
        console.print(f"theory of {label} runs to round {rounds[-1]}")
    for line in missing:
        console.print(f"missing: {line}", soft_wrap=True)
