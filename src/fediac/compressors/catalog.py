"""Name -> compressor: a plain table of the algorithms inside the package."""

from dataclasses import dataclass
from typing import Any

from fediac.compressors.fedavg import FedAvg
from fediac.compressors.fediac import FediAC
from fediac.compressors.libra import Libra
from fediac.compressors.omnireduce import OmniReduce
from fediac.compressors.switchml import SwitchML
from fediac.compressors.topk import TopK
from fediac.errors import ConfigError, hint_name


@dataclass(frozen=True, slots=True)
class Entry:
    """One algorithm: its class and one line about it."""

    compressor: Any
    summary: str


CATALOG: dict[str, Entry] = {
    "fediac": Entry(FediAC, "vote on entries, add b-bit levels of the agreed ones"),
    "switchml": Entry(SwitchML, "add b-bit levels of all entries in the switch"),
    "omnireduce": Entry(OmniReduce, "add the blocks that hold a top-k entry"),
    "libra": Entry(Libra, "top-k; hot entries in the switch, cold ones at a server"),
    "fedavg": Entry(FedAvg, "all entries as floats at a parameter server"),
    "topk": Entry(TopK, "top-k entries with indices at a parameter server"),
}


def find(name: str) -> Entry:
    """Return the catalog's entry for ``name``.

    Raises:
        ConfigError: There is none; the message names the nearest, or all.
    """
    if name in CATALOG:
        return CATALOG[name]
    raise ConfigError(f"unknown algorithm {name!r}{hint_name(name, CATALOG)}")
