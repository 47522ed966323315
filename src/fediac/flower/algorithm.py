"""What compresses, with which settings: the same on the server and on clients."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fediac.compressors import Compressor, find
from fediac.compressors.settings import presets_of, setting_fields
from fediac.errors import ConfigError, RemoteProtocolError, hint_name
from fediac.names import is_own
from fediac.plugins import make_own

_SUPPLIED = ("hot",)
"""What a user may give beside the settings: libra's hot entries."""


@dataclass(frozen=True, slots=True)
class Algorithm:
    """An algorithm and the settings it was given.

    Attributes:
        name: In the catalog, or ``module:name`` of a user's own.
        settings: Those that are not its defaults; ``preset`` is one by a word.
    """

    name: str = "fediac"
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if is_own(self.name):
            if self.settings:
                first = next(iter(self.settings))
                raise ConfigError(
                    f"{self.name} has its settings in its own file, got {first!r}"
                )
            return
        kind = find(self.name)
        known = [each.name for each in setting_fields(kind)]
        presets = presets_of(kind)
        for given, value in self.settings.items():
            if given == "preset" and presets:
                if value not in presets:
                    hint = hint_name(str(value), presets)
                    raise ConfigError(f"{self.name} has no preset {value!r}{hint}")
            elif given not in known and not self._is_supplied(kind, given):
                hint = hint_name(given, [*known, *(["preset"] if presets else [])])
                raise ConfigError(f"{self.name} has no setting {given!r}{hint}")

    @staticmethod
    def _is_supplied(kind: type[Any], given: str) -> bool:
        return given in _SUPPLIED and given in kind.__dataclass_fields__

    def make(self, *, n_clients: int, dim: int) -> Compressor:
        """Return the compressor of a round.

        Raises:
            FediacError: It cannot have these settings, clients or entries.
        """
        if is_own(self.name):
            return make_own(self.name, n_clients=n_clients, dim=dim)
        kind = find(self.name)
        given = dict(self.settings)
        preset = given.pop("preset", None)
        values = {**presets_of(kind)[preset].settings, **given} if preset else given
        for name in _SUPPLIED:
            if name in values:
                values[name] = np.asarray(values[name], dtype=np.int64)
        compressor: Compressor = kind(n_clients, **values)
        return compressor

    def shown(self) -> dict[str, Any]:
        """Return all settings, defaults too, as both sides must have them."""
        if is_own(self.name):
            return {}
        kind = find(self.name)
        given = dict(self.settings)
        preset = given.pop("preset", None)
        settings = {each.name: each.default for each in setting_fields(kind)}
        if preset:
            settings |= presets_of(kind)[preset].settings
        return {**settings, **given}

    def write(self) -> str:
        """Return it as text, for messages."""
        return json.dumps([self.name, _plain(self.settings)])

    @classmethod
    def read(cls, text: str) -> "Algorithm":
        """Return what `write` wrote.

        Raises:
            RemoteProtocolError: It did not.
        """
        try:
            name, settings = json.loads(text)
            return cls(str(name), dict(settings))
        except (ValueError, TypeError, ConfigError) as error:
            raise RemoteProtocolError(f"algorithm cannot be read: {error}") from error

    def difference(self, servers: "Algorithm") -> str | None:
        """Return what the server has otherwise, with both values; None: nothing."""
        if self.name != servers.name:
            return (
                f"algorithm is {servers.name!r} on the server but {self.name!r} on "
                "this client"
            )
        own, other = _plain(self.shown()), _plain(servers.shown())
        for name in {**other, **own}:
            if own.get(name) != other.get(name):
                return (
                    f"{self.name}.{name} is {other.get(name)!r} on the server but "
                    f"{own.get(name)!r} on this client"
                )
        return None


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: [int(each) for each in value] if name in _SUPPLIED else value
        for name, value in settings.items()
    }
