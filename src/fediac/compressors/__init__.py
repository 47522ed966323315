"""One algorithm per file, all with the interface in ``protocol``."""

from fediac.compressors.catalog import CATALOG, find
from fediac.compressors.fedavg import FedAvg
from fediac.compressors.fediac import FediAC
from fediac.compressors.feedback import ErrorFeedback
from fediac.compressors.libra import Libra, choose_hot
from fediac.compressors.omnireduce import OmniReduce
from fediac.compressors.protocol import (
    Compressor,
    Facts,
    LearnsHot,
    Outcome,
    Round,
    State,
    ask,
)
from fediac.compressors.switchml import SwitchML
from fediac.compressors.topk import TopK
from fediac.compressors.weighted import Weighted
from fediac.compressors.wrapper import Wrapper

__all__ = [
    "CATALOG",
    "Compressor",
    "ErrorFeedback",
    "Facts",
    "FedAvg",
    "FediAC",
    "LearnsHot",
    "Libra",
    "OmniReduce",
    "Outcome",
    "Round",
    "State",
    "SwitchML",
    "TopK",
    "Weighted",
    "Wrapper",
    "ask",
    "choose_hot",
    "find",
]
