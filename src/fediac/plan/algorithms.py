"""Algorithms by name, with the settings that the paper found best for each."""

from collections.abc import Callable

import numpy as np

from fediac.compressors import (
    CATALOG,
    Compressor,
    FedAvg,
    FediAC,
    Libra,
    OmniReduce,
    SwitchML,
    TopK,
    find,
)
from fediac.console import open_console, write_json
from fediac.core.shares import parse_share
from fediac.core.types import Indices
from fediac.errors import ConfigError

PAPER_THRESHOLD = 3

_BEST: dict[str, Callable[[int, int, Indices], Compressor]] = {
    "fediac": lambda dim, n, _: FediAC(
        n, n_votes=_share("5%", dim), threshold=min(PAPER_THRESHOLD, n)
    ),
    "switchml": lambda _dim, n, _hot: SwitchML(n, bits=12),
    "omnireduce": lambda dim, n, _: OmniReduce(n, n_sent=_share("5%", dim)),
    "libra": lambda dim, n, hot: Libra(n, n_sent=_share("1%", dim), hot=hot),
    "fedavg": lambda _dim, n, _hot: FedAvg(n),
    "topk": lambda dim, n, _: TopK(n, n_sent=_share("1%", dim)),
}


def _share(text: str, dim: int) -> int:
    return parse_share(text, of=dim, name="share")


def make_compressor(
    name: str, *, dim: int, n_clients: int, hot: Indices | None = None
) -> Compressor:
    """Return the named algorithm with the paper's best settings (Sec. V-A).

    Args:
        name: A name in the catalog.
        dim: Entries in an update; shares of it are rounded up.
        n_clients: Clients in a round.
        hot: libra's hot entries; without them all are cold.

    Raises:
        ConfigError: The name is unknown; the message names the nearest.
    """
    find(name)
    if name not in _BEST:
        raise ConfigError(f"{name} has no line with its settings in {__name__}")
    return _BEST[name](dim, n_clients, np.zeros(0, np.int64) if hot is None else hot)


def list_algorithms(*, as_json: bool) -> None:
    """Print every algorithm's name and one line about it."""
    if as_json:
        algorithms = [{"name": k, "summary": v.summary} for k, v in CATALOG.items()]
        write_json({"algorithms": algorithms})
        return
    console = open_console()
    for name, entry in CATALOG.items():
        console.print(f"{name:<12}{entry.summary}")
    console.print("module:name your own class or function, in run, compare and round")
