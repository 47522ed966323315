"""In-network federated learning with voting-based consensus compression."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fediac import extend, partition
    from fediac.api.comparison import Comparison, compare
    from fediac.api.experiment import Experiment
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
    from fediac.remote.conductor import Bounds, Conductor
    from fediac.remote.coordinator import Coordinator
    from fediac.remote.participant import Participant
    from fediac.remote.switch import RemoteSwitch
    from fediac.remote.switch_client import SwitchClient
    from fediac.sessions.replay import Compressing
    from fediac.sim.network import Network
    from fediac.switch import Switch
    from fediac.training.datasets import Dataset, load_dataset
    from fediac.transports.aggregation import aggregate
    from fediac.transports.vectors import RoundResult
    from fediac.transports.views import WIRE
    from fediac.wire.tag import member_key

    __version__: str

__all__ = [
    "PAYLOAD",
    "WIRE",
    "Bounds",
    "Comparison",
    "Compressing",
    "Conductor",
    "Coordinator",
    "Dataset",
    "Experiment",
    "FedAvg",
    "FediAC",
    "Ledger",
    "Libra",
    "Network",
    "OmniReduce",
    "Participant",
    "RemoteSwitch",
    "RoundResult",
    "State",
    "Switch",
    "SwitchClient",
    "SwitchML",
    "TopK",
    "__version__",
    "aggregate",
    "choose_hot",
    "compare",
    "extend",
    "load_dataset",
    "member_key",
    "partition",
]

_MODULES = {
    "fediac.core.ledger": ("PAYLOAD", "Ledger"),
    "fediac.compressors": (
        "FedAvg",
        "FediAC",
        "Libra",
        "OmniReduce",
        "State",
        "SwitchML",
        "TopK",
        "choose_hot",
    ),
    "fediac.switch": ("Switch",),
    "fediac.remote.conductor": ("Bounds", "Conductor"),
    "fediac.remote.coordinator": ("Coordinator",),
    "fediac.remote.participant": ("Participant",),
    "fediac.remote.switch": ("RemoteSwitch",),
    "fediac.remote.switch_client": ("SwitchClient",),
    "fediac.transports": ("WIRE", "RoundResult", "aggregate"),
    "fediac.sessions.replay": ("Compressing",),
    "fediac.wire.tag": ("member_key",),
    "fediac.sim.network": ("Network",),
    "fediac.training.datasets": ("Dataset", "load_dataset"),
    "fediac.api.comparison": ("Comparison", "compare"),
    "fediac.api.experiment": ("Experiment",),
}
"""Where each public name comes from. Those of the last two need PyTorch."""

_SUBMODULES = ("extend", "partition")
"""Public modules of this package."""


def __getattr__(name: str) -> Any:  # noqa: ANN401 - as PEP 562 has it
    """Import a public name when it is first used: the command line starts fast."""
    if name == "__version__":
        from fediac.console import own_version

        return own_version()
    from importlib import import_module

    if name in _SUBMODULES:
        return import_module(f"{__name__}.{name}")
    for module, names in _MODULES.items():
        if name in names:
            value = getattr(import_module(module), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Include the names that `__getattr__` finds."""
    return sorted([*globals(), *__all__])
