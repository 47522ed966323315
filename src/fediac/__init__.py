"""In-network federated learning with voting-based consensus compression."""

from fediac.compressors import (
    FedAvg,
    FediAC,
    Libra,
    OmniReduce,
    State,
    SwitchML,
    TopK,
    choose_hot,
)
from fediac.core.ledger import PAYLOAD, Ledger
from fediac.switch import Switch
from fediac.transports import WIRE, Aggregate, aggregate

__all__ = [
    "PAYLOAD",
    "WIRE",
    "Aggregate",
    "FedAvg",
    "FediAC",
    "Ledger",
    "Libra",
    "OmniReduce",
    "State",
    "Switch",
    "SwitchML",
    "TopK",
    "aggregate",
    "choose_hot",
]
