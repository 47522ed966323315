"""Name -> compressor: a plain table of the algorithms inside the package."""

from typing import Any

from fediac.compressors.fedavg import FedAvg
from fediac.compressors.fediac import FediAC
from fediac.compressors.forecast import sends_to_server
from fediac.compressors.libra import Libra
from fediac.compressors.omnireduce import OmniReduce
from fediac.compressors.switchml import SwitchML
from fediac.compressors.topk import TopK
from fediac.errors import ConfigError, hint_name

CATALOG: dict[str, type[Any]] = {
    "fediac": FediAC,
    "switchml": SwitchML,
    "omnireduce": OmniReduce,
    "libra": Libra,
    "fedavg": FedAvg,
    "topk": TopK,
}

_N_CLIENTS, _DIM = 2, 4096
"""Any would do: what a round asks depends on neither."""


def title_of(name: str) -> str:
    """Return what pictures call an algorithm: its ``TITLE``, or its class's name."""
    algorithm = CATALOG.get(name)
    if algorithm is None:
        return name
    title: str = getattr(algorithm, "TITLE", algorithm.__name__)
    return title


def served_by_switch() -> tuple[str, ...]:
    """Return the names of those whose rounds need a switch alone, and no far server."""
    return tuple(
        name
        for name, kind in CATALOG.items()
        if not sends_to_server(kind(_N_CLIENTS), _DIM)
    )


def find(name: str) -> type[Any]:
    """Return the class of the algorithm called ``name``.

    Raises:
        ConfigError: There is none; the message names the nearest, or all.
    """
    if name in CATALOG:
        return CATALOG[name]
    raise ConfigError(f"unknown algorithm {name!r}{hint_name(name, CATALOG)}")
