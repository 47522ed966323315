"""What a run was given in Python, which no settings file can say."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from array_api_compat import is_numpy_array, is_torch_array
from torch import nn

from fediac.compressors import CATALOG, Compressor, LearnsHot
from fediac.compressors.settings import show_settings
from fediac.names import metric_name
from fediac.runs.settings.algorithm_tables import default_tables
from fediac.runs.settled import NOTHING, Settled
from fediac.sim.network import Network
from fediac.training.task import PLAIN, Task

N_DIGITS = 16
"""Digits of a hash in a description."""


@dataclass(frozen=True, slots=True)
class Given:
    """Parts of a run that came as Python objects.

    Attributes:
        compressor: The algorithm of every round.
        network: What rounds are timed on; None: as the settings say.
        task: What is done with the model's outputs.
        hashes: Name -> hash of what the run learns from and begins with; None for
            a run that is kept nowhere.
    """

    compressor: Compressor
    network: Network | None = None
    task: Task = PLAIN
    hashes: Mapping[str, str] | None = None

    def make_compressor(self, settled: Settled = NOTHING) -> Compressor:
        """Return the algorithm of the next round, when so much is settled."""
        if settled.hot is None or not isinstance(self.compressor, LearnsHot):
            return self.compressor
        own: Any = self.compressor  # a dataclass, like all that learn
        learned: Compressor = replace(own, hot=settled.hot)
        return learned

    @property
    def metric(self) -> str:
        """What people read over the numbers of its metric."""
        metric = self.task.metric
        return metric_name(None if metric is None else describe(metric))

    def describe(self) -> dict[str, str]:
        """Return what tells this run from one that was given something else.

        Functions go by their names: what they do may change without a word.
        """
        parts = {
            "compressor": self.compressor,
            "network": self.network,
            "loss": self.task.loss,
            "optimizer": self.task.optimizer,
            "metric": self.task.metric,
        }
        words = {
            name: describe(each) for name, each in parts.items() if each is not None
        }
        return words | dict(self.hashes or {})


def name_algorithm(compressor: Compressor) -> str:
    """Return what settings call an algorithm: its name in the catalog or its class."""
    kind = type(compressor)
    names = {each: name for name, each in CATALOG.items()}
    return names.get(kind) or f"{kind.__module__}:{kind.__name__}"


def settings_table(compressor: Compressor) -> tuple[tuple[str, Any], ...]:
    """Return all algorithms' tables, with an algorithm's settings in its own."""
    tables = dict(default_tables())
    name = name_algorithm(compressor)
    if name in tables:
        values = {
            key: value.item() if hasattr(value, "item") else value
            for key, value in show_settings(compressor).items()
        }
        tables[name] = replace(tables[name], **values)
    return tuple(tables.items())


def hash_model(module: nn.Module) -> str:
    """Return a hash of a model's parameters and buffers, with their names."""
    digest = hashlib.sha256()
    for name, each in module.state_dict().items():
        digest.update(f"{name} {tuple(each.shape)} {each.dtype}".encode())
        digest.update(np.ascontiguousarray(each.detach().cpu().numpy()).data)
    return digest.hexdigest()


def describe(value: Any) -> str:  # noqa: ANN401 - anything
    """Return a value in words that are the same in another process."""
    if is_numpy_array(value) or is_torch_array(value):
        array = np.ascontiguousarray(value.cpu() if is_torch_array(value) else value)
        return f"{array.dtype} {array.shape} {_short_hash(array)}"
    if is_dataclass(value) and not isinstance(value, type):
        settings = {each.name: getattr(value, each.name) for each in fields(value)}
        return _call(type(value).__qualname__, (), settings)
    if isinstance(value, partial):
        return _call(describe(value.func), value.args, value.keywords)
    if isinstance(value, Mapping):
        return _call("", (), {str(key): each for key, each in value.items()})
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(describe, value))}]"
    if isinstance(value, nn.Module | str | int | float | None):
        return " ".join(repr(value).split())
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"


def _call(name: str, given: Iterable[Any], named: Mapping[str, Any]) -> str:
    inside = [*map(describe, given)]
    inside += [f"{key}={describe(each)}" for key, each in named.items()]
    return f"{name}({', '.join(inside)})"


def _short_hash(array: np.ndarray[Any, Any]) -> str:
    return hashlib.sha256(array.data).hexdigest()[:N_DIGITS]
