"""Algorithms on the same updates and the same switch, side by side."""

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import Progress

from fediac.compressors import CATALOG, Compressor, LearnsHot
from fediac.console import (
    FAILED,
    FittedTable,
    count,
    open_console,
    write_json,
)
from fediac.core.ledger import MIB, Ledger
from fediac.core.types import Indices
from fediac.errors import AlgorithmError, LocalProtocolError, UpdateError
from fediac.names import by_short_name, is_own, short_name
from fediac.number_words import digits, mib
from fediac.plan.expected_traffic import check_clients
from fediac.plan.networks import NetworkDescription, make_network
from fediac.plan.synthetic import synthetic_updates
from fediac.plugins import make_own, require_finite
from fediac.sim import simulate_round
from fediac.switch import Switch
from fediac.transports import WIRE
from fediac.transports.vectors import aggregate_vectors

Vector = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class RoundRow:
    """One algorithm's round.

    Attributes:
        upload_bytes: Payload that all clients sent.
        download_bytes: Payload that all clients got, each its own copy.
        wire_bytes: Both, as real packets with their headers.
        chosen: Entries one client sent.
        aggregations: Slots the switch completed.
        register_bytes: The most of the switch's memory in use at a time.
        relative_error: ‖mean − true mean‖ / ‖true mean‖ of this one round; what is
            missing is in the residuals and comes later.
        round_s: Time of the whole round on the paper's network, by simulation, without
            local training.
        seconds: Time of it here, all clients and the switch.
    """

    algorithm: str
    upload_bytes: float
    download_bytes: float
    wire_bytes: int
    chosen: int
    bits: int
    aggregations: int
    register_bytes: int
    relative_error: float
    round_s: float
    seconds: float


def run_one_round(
    algorithms: Sequence[str], *, dim: int, n_clients: int, seed: int, as_json: bool
) -> None:
    """Aggregate synthetic updates with several algorithms and print a table.

    A user's own that fails does not keep the others from running.

    Args:
        algorithms: Names in the catalog, or ``module:name``.
        dim: Entries in an update.
        n_clients: Clients in the round.
        seed: Seed for updates and algorithms.
        as_json: Print one JSON document instead.
    """
    check_clients(n_clients)
    names = list(by_short_name(algorithms).values())
    own = {
        name: make_own(name, dim=dim, n_clients=n_clients)
        for name in names
        if is_own(name)
    }
    steps = n_clients + 1 + len(names)
    with _open_bar(steps, is_quiet=as_json) as (say, advance):
        say("making updates")
        updates = []
        for update in synthetic_updates(dim, n_clients, seed=seed):
            updates.append(update)
            advance()
        switch = Switch()
        made = {name: CATALOG[name](n_clients) for name in names if not is_own(name)}
        for name, compressor in made.items():
            if isinstance(compressor, LearnsHot):
                say(f"finding {name}'s hot entries")
                hot = _find_hot(compressor, dim, n_clients, switch, seed)
                made[name] = replace(made[name], hot=hot)
        advance()
        rows, failed = [], {}
        for name in names:
            say(f"aggregating with {short_name(name)}")
            compressor = (own | made)[name]
            try:
                rows.append(_run_one(name, compressor, updates, switch, seed))
            except (UpdateError, AlgorithmError, LocalProtocolError) as error:
                failed[name] = str(error)
            advance()
    if as_json:
        document: dict[str, Any] = {"dim": dim, "n_clients": n_clients, "seed": seed}
        write_json(document | {"rows": [asdict(row) for row in rows], "failed": failed})
    else:
        _show(rows, failed, dim, n_clients)
    if failed:
        sys.exit(FAILED)


@contextmanager
def _open_bar(
    n_steps: int, *, is_quiet: bool
) -> Iterator[tuple[Callable[[str], None], Callable[[], None]]]:
    """Show a bar inside the block.

    Yields:
        What says which step it is, and what says that one is done.
    """
    console = Console(stderr=True)
    is_quiet = is_quiet or not console.is_terminal
    with Progress(console=console, transient=True, disable=is_quiet) as progress:
        task = progress.add_task("", total=n_steps)
        yield (
            lambda words: progress.update(task, description=words),
            lambda: progress.advance(task),
        )


def _find_hot(
    algorithm: LearnsHot, dim: int, n_clients: int, switch: Switch, seed: int
) -> Indices:
    """Return hot entries, chosen by clients that are not in the round.

    A run finds them by training beforehand; like in the paper, that is not billed.
    """
    samples = synthetic_updates(
        dim, algorithm.hot_rounds, seed=seed, first_client=n_clients
    )
    return algorithm.find_hot(samples, switch.indexed_capacity(n_clients))


def _run_one(
    name: str,
    compressor: Compressor,
    updates: Sequence[Vector],
    switch: Switch,
    seed: int,
) -> RoundRow:
    start = time.perf_counter()
    result = aggregate_vectors(
        updates, compressor, switch=switch, seed=seed, round_number=1
    )
    seconds = time.perf_counter() - start
    require_finite(name, result.mean)
    ledger = result.ledger
    return RoundRow(
        algorithm=name,
        upload_bytes=ledger.select(direction="up").traffic().payload_bits / 8,
        download_bytes=ledger.select(direction="down").traffic().payload_bits / 8,
        wire_bytes=ledger.traffic(WIRE).n_bytes,
        chosen=result.facts.chosen,
        bits=result.facts.bits,
        aggregations=result.facts.aggregations,
        register_bytes=result.facts.register_bytes,
        relative_error=_relative_error(result.mean, updates),
        round_s=_simulate(ledger, len(updates), seed),
        seconds=seconds,
    )


def _simulate(ledger: Ledger, n_clients: int, seed: int) -> float:
    """Return how long a round takes on the paper's network, with the fast switch."""
    network = make_network(
        NetworkDescription(compute_s=0.0), n_clients=n_clients, threshold=1, seed=seed
    )
    return simulate_round(ledger, network, seed=seed, round_number=1).round_s


def _relative_error(mean: Vector, updates: Sequence[Vector]) -> float:
    """Return how far ``mean`` is from the exact mean, a million entries at a time."""
    squared_error = squared_norm = 0.0
    for start in range(0, len(mean), 1 << 20):
        part = slice(start, start + (1 << 20))
        exact = np.mean([update[part] for update in updates], axis=0, dtype=np.float64)
        squared_error += float(np.sum((mean[part] - exact) ** 2))
        squared_norm += float(np.sum(exact**2))
    return math.sqrt(squared_error / squared_norm)


_COLUMNS: Mapping[str, Callable[[RoundRow], str]] = {
    "algorithm": lambda row: short_name(row.algorithm),
    "up MiB": lambda row: digits(row.upload_bytes / MIB),
    "down MiB": lambda row: digits(row.download_bytes / MIB),
    "wire MiB": lambda row: digits(row.wire_bytes / MIB),
    "entries chosen": lambda row: f"{row.chosen:,}",
    "bits": lambda row: str(row.bits) if row.bits else "float",
    "aggregations": lambda row: f"{row.aggregations:,}",
    "register KiB": lambda row: f"{row.register_bytes / 1024:,.0f}",
    "relative error": lambda row: f"{row.relative_error:.3f}",
    "round s": lambda row: f"{row.round_s:,.3g}",
    "real s": lambda row: f"{row.seconds:.2f}",
}
"""Heading of the table -> what is below it."""


def _show(
    rows: Sequence[RoundRow], failed: Mapping[str, str], dim: int, n_clients: int
) -> None:
    console = open_console()
    console.print(
        f"One round: {count(n_clients, 'client')}, {count(dim, 'parameter')}, "
        "a switch with 1 MiB of registers (synthetic power-law updates)"
    )
    if rows:
        cells = [[write(row) for write in _COLUMNS.values()] for row in rows]
        console.print(FittedTable(list(_COLUMNS), cells))
    for name, why in failed.items():
        console.print(f"failed: {short_name(name)}: {why}", soft_wrap=True)
    total = {row.algorithm: row.upload_bytes + row.download_bytes for row in rows}
    if {"fediac", "switchml"} <= total.keys():
        console.print(_conclude(total))


def _conclude(total: Mapping[str, float]) -> str:
    """Return the table's conclusion, in a sentence.

    Args:
        total: Algorithm -> bytes up and down.
    """
    ours, theirs = total["fediac"], total["switchml"]
    if ours == theirs:
        compared = "as much as SwitchML"
    else:
        ratio, word = max((theirs / ours, "less"), (ours / theirs, "more"))
        compared = f"{ratio:.1f} times {word} than SwitchML ({mib(theirs / MIB)})"
    return (
        f"FediAC moves {mib(ours / MIB)} in this round, {compared}. "
        "What a round does not send stays in the clients' residuals for the next."
    )
