"""What tables, pages and folders call an algorithm or a metric, without its module."""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from fediac.errors import ConfigError

# A run's folder is called like this, and Windows keeps some names for devices.
_DEVICES = r"(?!(?:con|prn|aux|nul|(?:com|lpt)\d)(?:\.|$))"
_FOLDER = re.compile(_DEVICES + r"[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?", re.I)

ACCURACY = "accuracy"
"""The metric of every run that was given none."""

_OURS: Mapping[str, str] = MappingProxyType({"fediac.training.task.r_squared": "R²"})
"""Metric of the package -> what people call it."""


def is_folder_name(name: str) -> bool:
    """Return whether every system takes this as the name of a folder."""
    return bool(_FOLDER.fullmatch(name))


def is_own(algorithm: str) -> bool:
    """Return whether this names a user's own algorithm."""
    return ":" in algorithm


def short_name(algorithm: str) -> str:
    """Return what tables, pages and folders call an algorithm."""
    return algorithm.rpartition(":")[2]


def metric_name(described: object) -> str:
    """Return what tables, pages and progress call a run's metric.

    Args:
        described: The metric as a run's folder has it, ``module.function`` or a call;
            None: there is none.
    """
    if not isinstance(described, str):
        return ACCURACY
    if described in _OURS:
        return _OURS[described]
    name = described.partition("(")[0].rpartition(".")[2]
    return name if name.isidentifier() else "metric"  # a lambda has no name


def by_short_name(algorithms: Iterable[str]) -> dict[str, str]:
    """Return short name -> algorithm, each algorithm once.

    Raises:
        ConfigError: Two would have one folder; some systems do not tell case apart.
    """
    found: dict[str, str] = {}
    for algorithm in dict.fromkeys(algorithms):
        for name, other in found.items():
            if name.casefold() == short_name(algorithm).casefold():
                raise ConfigError(
                    "algorithms must have different names after the colon, got "
                    f"{other!r} and {algorithm!r}"
                )
        found[short_name(algorithm)] = algorithm
    return found
