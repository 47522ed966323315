"""Which fields of an algorithm are settings: all but those that a run fills in.

An algorithm's dataclass is its settings: files, commands and help texts are derived
from its fields, their types and its docstring.
"""

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from types import MappingProxyType
from typing import Any

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
