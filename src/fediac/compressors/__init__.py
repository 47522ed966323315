"""One algorithm a file, all behind the interface in ``protocol``."""

from fediac.compressors.catalog import CATALOG, find
from fediac.compressors.fedavg import FedAvg
from fediac.compressors.fediac import FediAC
from fediac.compressors.libra import Libra, choose_hot
from fediac.compressors.omnireduce import OmniReduce
from fediac.compressors.protocol import Compressor, Facts, Outcome, Round, State, ask
from fediac.compressors.switchml import SwitchML
from fediac.compressors.topk import TopK

__all__ = [
    "CATALOG",
    "Compressor",
    "Facts",
    "FedAvg",
    "FediAC",
    "Libra",
    "OmniReduce",
    "Outcome",
    "Round",
    "State",
    "SwitchML",
    "TopK",
    "ask",
    "choose_hot",
    "find",
]
