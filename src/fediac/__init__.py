"""In-network federated learning with voting-based consensus compression."""

from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from fediac.training.experiment import Experiment

__all__ = [
    "PAYLOAD",
    "WIRE",
    "Aggregate",
    "Experiment",
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


def __getattr__(name: str) -> Any:  # noqa: ANN401 - as PEP 562 has it
    """Import what needs PyTorch when somebody asks for it."""
    if name == "Experiment":
        from fediac.training.experiment import Experiment

        return Experiment
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
