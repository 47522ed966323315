"""The arguments of ``fediac paper``, checked."""

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from fediac.errors import ConfigError, hint_name
from fediac.paper.command import Request
from fediac.paper.plan import (
    QUICK_SCENARIO,
    TIMED,
    Product,
    Scope,
    make_plan,
)
from fediac.paper.scenarios import NAMES, find_scenario
from fediac.paper.tasks import Device

RESULTS = Path("results")
QUICK_RESULTS = Path("runs/paper-quick")


def parse_scope(
    only: Sequence[str],
    entrants: str | None,
    seeds: Sequence[int],
    *,
    until_s: float | None = None,
    is_quick: bool = False,
) -> Scope:
    """Return how much is asked for.

    Raises:
        ConfigError: There is no such time.
    """
    if until_s is not None and not 0.0 < until_s < math.inf:
        raise ConfigError(f"--until must be finite and above 0, got {until_s:g}")
    names = [] if entrants is None else [each.strip() for each in entrants.split(",")]
    if entrants is not None and not any(names):
        raise ConfigError(f"--entrants must name at least one, got {entrants!r}")
    if is_quick:
        _check_quick(only)
    return Scope(
        only=tuple(dict.fromkeys(only)),
        entrants=tuple(name for name in names if name),
        seeds=tuple(seeds),
        is_quick=is_quick,
        until_s=until_s,
    )


def _check_quick(only: Sequence[str]) -> None:
    """Refuse scenarios that take more than minutes on a CPU."""
    quick = find_scenario(QUICK_SCENARIO).settings.data.name
    small = [name for name in NAMES if find_scenario(name).settings.data.name == quick]
    for name in only:
        if name in NAMES and name not in small:
            raise ConfigError(
                f"--only must be one of {', '.join(small)} with --quick, got {name!r}"
            )


def make_request(
    what: Sequence[str],
    scope: Scope,
    *,
    out: Path | None = None,
    device: str | None = None,
    **others: Any,  # noqa: ANN401 - the request's own fields, checked by it
) -> Request:
    """Return what is asked for, if there is such a thing.

    Raises:
        ConfigError: A product, scenario, entrant or device is unknown.
    """
    products = tuple(dict.fromkeys(_product(name) for name in what))
    if scope.entrants and products == (Product.FIG_THEORY,):
        raise ConfigError(
            f"--entrants must not be given for {Product.FIG_THEORY}, which is of "
            f"FediAC alone, got {', '.join(scope.entrants)}"
        )
    _check_until(products, scope)
    make_plan(products, scope)
    if device is not None and device not in get_args(Device):
        raise ConfigError(f"--device must be auto, cpu or cuda, got {device!r}")
    return Request(
        products=products,
        scope=scope,
        out=out or (QUICK_RESULTS if scope.is_quick else RESULTS),
        device=device,  # type: ignore[arg-type] # checked above
        words=tuple(sys.argv[1:]),
        **others,
    )


def _check_until(products: Sequence[Product], scope: Scope) -> None:
    """Refuse a time that nothing asked for would have."""
    if scope.until_s is None:
        return
    if not set(products) & TIMED:
        names = ", ".join(each for each in Product if each in TIMED)
        raise ConfigError(
            f"--until must be given with one of {names}, got {scope.until_s:g} with "
            f"{', '.join(products)}"
        )


def _product(name: str) -> Product:
    if name not in list(Product):
        raise ConfigError(f"unknown product {name!r}{hint_name(name, list(Product))}")
    return Product(name)
