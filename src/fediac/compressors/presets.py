"""Presets: an algorithm's settings by one word.

An algorithm that has some says so in ``PRESETS``, name -> preset, beside its settings.
Files, commands and help texts are derived from there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Preset:
    """Settings by one word.

    Attributes:
        meaning: What they are for, in a few words.
        settings: Those that are not the algorithm's defaults.
        beside: Settings of a run that go with them and are not the algorithm's own, by
            what a person calls them, such as ``train.statistics``.
    """

    meaning: str
    settings: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    beside: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)


def presets_of(algorithm: type[Any]) -> Mapping[str, Preset]:
    """Return an algorithm's presets by name; most have none."""
    found: Mapping[str, Preset] = getattr(algorithm, "PRESETS", _NOTHING)
    return found
