"""``fediac motivation``: round time against model size, for every algorithm.

The paper's motivation (Sec. I and III): a switch adds fast, but packets reach it over
slow links, so what counts is how much is sent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from fediac.compressors import CATALOG
from fediac.compressors.forecast import measured_of, tally_threshold
from fediac.console import (
    FittedTable,
    count,
    open_console,
    say_written,
    write_json,
)
from fediac.core.bounds import register_fills
from fediac.errors import ArgumentError
from fediac.number_words import digits, seconds
from fediac.plan.expected_traffic import (
    ExpectedRound,
    check_clients,
    expected_ledger,
    list_expected,
)
from fediac.plan.networks import (
    NetworkDescription,
    describe_network,
    make_network,
)
from fediac.plan.pictures import check_plot
from fediac.plan.plots import plot_sizes
from fediac.sim import RoundTiming, simulate_round

SIZES = tuple(round(10.0 ** (half / 2.0)) for half in range(10, 19))
"""10^5 to 10^9 parameters, two per decade."""


_SETTINGS = "every algorithm with its default settings: the best that the paper found"


@dataclass(frozen=True, slots=True)
class SizePoint:
    """A round of one algorithm at one model size."""

    algorithm: str
    dim: int
    payload_mib: float
    timing: RoundTiming


def time_sizes(
    sizes: Sequence[int],
    network: NetworkDescription,
    *,
    n_clients: int,
    seed: int,
) -> list[SizePoint]:
    """Return one round of every algorithm at every size, on the same network."""
    names = list_expected()
    points = []
    console = Console(stderr=True)
    is_hidden = not console.is_terminal
    with Progress(console=console, transient=True, disable=is_hidden) as progress:
        # Large models take most of the time: count entries, not rounds.
        task = progress.add_task("simulating", total=sum(sizes) * len(names))
        for dim in sizes:
            for name in names:
                size = count(dim, "parameter")
                progress.update(task, description=f"{name}, {size}")
                setting = ExpectedRound(name, CATALOG[name](n_clients), dim)
                ledger = expected_ledger(setting)
                links = make_network(
                    network,
                    n_clients=setting.n_clients,
                    threshold=tally_threshold(setting.compressor),
                    seed=seed,
                )
                timing = simulate_round(ledger, links, seed=seed, round_number=1)
                payload_mib = ledger.traffic().payload_mib
                points.append(SizePoint(name, dim, payload_mib, timing))
                progress.advance(task, dim)
    return points


def run_motivation(
    network: NetworkDescription,
    *,
    n_clients: int,
    seed: int,
    plot: Path | None,
    as_json: bool,
    sizes: Sequence[int] = SIZES,
) -> None:
    """Time every algorithm at every size; print a table and draw it if asked."""
    if not sizes:
        raise ArgumentError("sizes", "must name at least 1 size, got none")
    check_clients(n_clients)
    if plot is not None:
        check_plot(plot)
    points = time_sizes(sizes, network, n_clients=n_clients, seed=seed)
    if plot is not None:
        lines: dict[str, list[tuple[int, float]]] = {}
        for point in points:
            line = lines.setdefault(point.algorithm, [])
            line.append((point.dim, point.timing.round_s))
        title = _title(network, n_clients)
        plot_sizes(lines, path=plot, title=title, note=_SETTINGS)
        say_written(plot)
    if as_json:
        documents = [_document(point) for point in points]
        write_json({"n_clients": n_clients, "seed": seed, "points": documents})
    else:
        _show(points, sizes, _title(network, n_clients), n_clients)


def _title(network: NetworkDescription, n_clients: int) -> str:
    return (
        f"A round of {count(n_clients, 'client')}, {describe_network(network)}, "
        f"{network.compute_s:g} s of local compute"
    )


def _document(point: SizePoint) -> dict[str, Any]:
    return {
        "algorithm": point.algorithm,
        "dim": point.dim,
        "round_s": point.timing.round_s,
        "payload_mib": point.payload_mib,
        "bottleneck": point.timing.bottleneck,
    }


def _show(
    points: Sequence[SizePoint], sizes: Sequence[int], title: str, n_clients: int
) -> None:
    console = open_console()
    console.print(f"{title}: seconds a round")
    console.print()
    names = list_expected()
    found = {(each.algorithm, each.dim): each.timing.round_s for each in points}
    rows = [
        (
            f"{dim:,}",
            *(digits(found[name, dim]) for name in names),
            f"{register_fills(dim):,}",
        )
        for dim in sizes
    ]
    headings = ("parameters", *names, "dense register fills")
    console.print(FittedTable(headings, rows, has_lines=False))
    console.print()
    largest = sizes[-1]
    by_time = sorted((found[name, largest], name) for name in names)
    (shortest, first), (longest, last) = by_time[0], by_time[-1]
    console.print(
        f"At {count(largest, 'parameter')} a round takes {seconds(shortest)} with "
        f"{first} and {seconds(longest)} with {last}."
    )
    console.print("A round of one algorithm does not teach as much as one of another.")
    made = {name: measured_of(CATALOG[name](n_clients)) for name in names}
    shares = [f"{m[0]} to {m[1]} % of {name}'s" for name, m in made.items() if m]
    console.print(
        "Choices are taken to be spread evenly: of such payloads real rounds took "
        f"{', '.join(shares)}."
    )
