"""In-network federated learning with voting-based consensus compression."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from fediac.sim.network import Network
    from fediac.switch import Switch
    from fediac.training.local_settings import LocalSettings
    from fediac.transports.aggregate import Aggregate, aggregate
    from fediac.transports.views import WIRE

    __version__: str

__all__ = [
    "PAYLOAD",
    "WIRE",
    "Aggregate",
    "Experiment",
    "FedAvg",
    "FediAC",
    "Ledger",
    "Libra",
    "LocalSettings",
    "Network",
    "OmniReduce",
    "State",
    "Switch",
    "SwitchML",
    "TopK",
    "__version__",
    "aggregate",
    "choose_hot",
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
    "fediac.transports": ("WIRE", "Aggregate", "aggregate"),
    "fediac.sim.network": ("Network",),
    "fediac.training.local_settings": ("LocalSettings",),
    "fediac.api.experiment": ("Experiment",),
}
"""Where each public name comes from. The last needs PyTorch."""


def __getattr__(name: str) -> Any:  # noqa: ANN401 - as PEP 562 has it
    """Import a public name when it is first used: the command line starts fast."""
    if name == "__version__":
        from fediac.console import own_version

        return own_version()
    for module, names in _MODULES.items():
        if name in names:
            from importlib import import_module

            value = getattr(import_module(module), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Include the names that `__getattr__` finds."""
    return sorted([*globals(), *__all__])
