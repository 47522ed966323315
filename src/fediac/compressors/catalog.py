"""Name -> compressor: a plain table of the algorithms inside the package."""

from typing import Any

from fediac.compressors.fedavg import FedAvg
from fediac.compressors.fediac import FediAC
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


def title_of(name: str) -> str:
    """Return what pictures call an algorithm: its ``TITLE``, or its class's name."""
    algorithm = CATALOG.get(name)
    if algorithm is None:
        return name
    title: str = getattr(algorithm, "TITLE", algorithm.__name__)
    return title


def find(name: str) -> type[Any]:
    """Return the class of the algorithm called ``name``.

    Raises:
        ConfigError: There is none; the message names the nearest, or all.
    """
    if name in CATALOG:
        return CATALOG[name]
    raise ConfigError(f"unknown algorithm {name!r}{hint_name(name, CATALOG)}")
