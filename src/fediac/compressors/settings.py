"""An algorithm's settings: which fields they are, presets of them, and checks.

An algorithm's dataclass is its settings, all fields but those that a run fills in:
files, commands and help texts are derived from its fields, their types and its
docstring. Presets, settings by one word, stand in its ``PRESETS``, name -> preset.
"""

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any

from fediac.compressors.protocol import Compressor
from fediac.core.integers import as_whole
from fediac.core.shares import Share, parse_share
from fediac.errors import ArgumentError

SUPPLIED: Mapping[str, bool] = MappingProxyType({"is_supplied": True})
"""Metadata of a field that the run fills in, such as libra's hot entries."""


def setting_fields(kind: type[Any]) -> tuple[Field[Any], ...]:
    """Return the fields that a user may set, the algorithm's own first.

    What has no default, as ``n_clients``, is supplied as well.
    """
    found = [
        each
        for each in fields(kind)
        if each.default is not MISSING and "is_supplied" not in each.metadata
    ]
    return tuple(sorted(found, key=lambda each: bool(each.kw_only)))


def show_settings(compressor: object) -> dict[str, Any]:
    """Return an algorithm's settings by name; none if it is not a dataclass."""
    if not is_dataclass(compressor):
        return {}
    names = (each.name for each in setting_fields(type(compressor)))
    return {name: getattr(compressor, name) for name in names}


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


def check_flag(name: str, flag: object) -> None:
    """Raise unless a setting is True or False."""
    if not isinstance(flag, bool):
        raise TypeError(f"{name} must be True or False, got {flag!r}")


def check_numbers(compressor: Compressor) -> None:
    """Make all numbers Python's own, and raise unless there is at least one client.

    A round may use them anywhere, and a 64-bit number of NumPy's would change the dtype
    of its products with 32-bit arrays.
    """
    for each in fields(compressor):  # type: ignore[arg-type] # algorithms are dataclasses
        number = getattr(compressor, each.name)
        if isinstance(number, Integral) and not isinstance(number, int):
            object.__setattr__(compressor, each.name, int(number))
        elif isinstance(number, Real) and not isinstance(number, int):
            object.__setattr__(compressor, each.name, float(number))
    as_whole("n_clients", compressor.n_clients, at_least=1)


def check_share(name: str, share: Share) -> None:
    """Raise unless a setting is a count of at least 1, or a share such as 5%."""
    as_whole(name, _parse(name, share, of=1), at_least=1)


def count_share(name: str, share: Share, *, of: int, what: str) -> int:
    """Return the count that a setting means, if it is in 1..``of``.

    Args:
        name: What the setting is called.
        share: What it was given; a share is rounded up.
        of: How many there are.
        what: What these are called in an error.
    """
    count = _parse(name, share, of=of)
    if not 1 <= count <= of:
        raise ArgumentError(name, f"must be in 1..{of} ({what}), got {count}")
    return count


def _parse(name: str, share: Share, *, of: int) -> int:
    if isinstance(share, bool) or not isinstance(share, int | str):
        raise TypeError(
            f"{name} must be a whole number or a share such as 5%, got {share!r}"
        )
    return parse_share(share, of=of, name=name)
