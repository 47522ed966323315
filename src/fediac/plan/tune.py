"""``fediac tune``: which threshold and width suit given updates."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from fediac.compressors.fediac import AUTO, FediAC
from fediac.console import (
    FittedTable,
    count,
    open_console,
    write_json,
)
from fediac.core.ledger import MIB
from fediac.core.powerlaw import PowerLaw, fit_power_law
from fediac.core.shares import Share
from fediac.core.tuning import Candidate, median_law, rank_candidates
from fediac.errors import UpdateError
from fediac.number_words import mib, rough_percent
from fediac.plan.updates import count_clients, each_update

PAPER_CLIENTS = 20
"""Clients to assume when there is only one update."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """The power laws fitted to updates, and the ranked candidates.

    Attributes:
        fits: One law an update.
        law: Their medians, with the largest peak; what the ranking is for.
        candidates: Cheapest first, never empty.
    """

    dim: int
    n_clients: int
    n_votes: int
    fits: tuple[PowerLaw, ...]
    law: PowerLaw
    candidates: tuple[Candidate, ...]


def tune(
    paths: Sequence[Path],
    *,
    n_clients: int | None = None,
    n_votes: Share = AUTO,
    thresholds: Sequence[int] | None = None,
) -> Tuning:
    """Return the ranked candidates for updates in files or run folders.

    Args:
        paths: Files of one update or more, or a run's folder.
        n_clients: Clients in a round; None: those of the run, or one for each update.
        n_votes: Votes of one client, as `FediAC` has them.
        thresholds: Thresholds to try; None: up to a quarter of the clients.
    """
    fits, dim = _fit_all(paths)
    if n_clients is None:
        n_clients = count_clients(paths)
    if n_clients is None:
        n_clients = len(fits) if len(fits) > 1 else PAPER_CLIENTS
    n_votes = FediAC(n_clients, n_votes=n_votes).count_votes(dim)
    law = median_law(fits)
    candidates = rank_candidates(
        law, dim=dim, n_clients=n_clients, n_votes=n_votes, thresholds=thresholds
    )
    if not candidates:
        raise ValueError(
            f"no threshold tried keeps gamma below 1 for alpha = {law.alpha:.3g}; "
            "try lower thresholds or more votes"
        )
    return Tuning(dim, n_clients, n_votes, tuple(fits), law, tuple(candidates))


def show_tuning(tuning: Tuning, *, n_shown: int, as_json: bool) -> None:
    """Write the recommendation and the best candidates to standard output."""
    if as_json:
        write_json(_document(tuning, n_shown))
        return
    console = open_console()
    console.print(_recommendation(tuning))
    console.print(_call(tuning), soft_wrap=True)
    console.print()
    console.print(_fit_table(tuning))
    if tuning.law.misfit > 0.5:
        console.print(
            "The magnitudes are far from a power law (see misfit): "
            "take the predictions as rough."
        )
    console.print()
    console.print(_candidate_table(tuning, n_shown))


def _fit_all(paths: Sequence[Path]) -> tuple[list[PowerLaw], int]:
    fits, dim = [], 0
    for name, update in each_update(paths):
        dim = update.shape[0]
        try:
            fits.append(fit_power_law(update))
        except ValueError as error:
            raise UpdateError(f"{name}: {error}") from error
    return fits, dim


def _recommendation(tuning: Tuning) -> str:
    best = tuning.candidates[0]
    share = rough_percent(best.expected_chosen / tuning.dim)
    return (
        f"Use threshold {best.threshold} and {best.bits} bits: "
        f"with {count(tuning.n_clients, 'client')} that sends {share} of "
        f"{tuning.dim:,} entries, {mib(best.payload_bytes / MIB)} a round for all "
        "clients, "
        f"at a squared error of {best.gamma:.2f} (below 1 converges)."
    )


def _call(tuning: Tuning) -> str:
    """Return the recommendation as one writes it."""
    best = tuning.candidates[0]
    return (
        f"In Python: fediac.FediAC({tuning.n_clients}, n_votes={tuning.n_votes}, "
        f"threshold={best.threshold}, bits={best.bits})"
    )


def _spread(tuning: Tuning, name: str) -> dict[str, float]:
    values = [getattr(fit, name) for fit in tuning.fits]
    return {
        "median": statistics.median(values),
        "min": min(values),
        "max": max(values),
    }


def _document(tuning: Tuning, n_shown: int) -> dict[str, Any]:
    shown = [
        asdict(each) | {"cost_bytes": each.cost_bytes}
        for each in tuning.candidates[:n_shown]
    ]
    spreads = {
        name: _spread(tuning, name) for name in ("alpha", "phi", "peak", "misfit")
    }
    return {
        "n_updates": len(tuning.fits),
        "dim": tuning.dim,
        "n_clients": tuning.n_clients,
        "n_votes": tuning.n_votes,
        **spreads,
        "recommended": shown[0],
        "candidates": shown,
    }


def _fit_table(tuning: Tuning) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("fit", no_wrap=True)
    for header in ("median", "min", "max"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column(count(len(tuning.fits), "update"))
    factor = math.exp(tuning.law.misfit)
    meanings = {
        "alpha": "decay: rank l has phi * l^alpha",
        "phi": "magnitude of rank 1 by the law",
        "peak": "largest magnitude there is",
        "misfit": f"off the law by a factor of {factor:.3f}",
    }
    for name, meaning in meanings.items():
        spread = (f"{value:.3g}" for value in _spread(tuning, name).values())
        table.add_row(name, *spread, meaning)
    return table


def _candidate_table(tuning: Tuning, n_shown: int) -> FittedTable:
    headings = ("threshold", "bits", "entries sent", "a round", "gamma", "cost")
    rows = [
        (
            f"{each.threshold}",
            f"{each.bits}",
            rough_percent(each.expected_chosen / tuning.dim),
            mib(each.payload_bytes / MIB),
            f"{each.gamma:.4f}",
            mib(each.cost_bytes / MIB),
        )
        for each in tuning.candidates[:n_shown]
    ]
    return FittedTable(headings, rows, has_lines=False)
