"""Tables of settings such as ``[fediac]``: derived from the algorithms themselves.

An algorithm's dataclass is its settings: a table has its fields but those that a run
supplies, with the same types, defaults and meanings.
"""

from dataclasses import field, make_dataclass
from typing import Any, get_type_hints

from fediac.compressors import CATALOG
from fediac.compressors.settings import setting_fields
from fediac.docstrings import read_attributes, read_summary

_made: dict[type[Any], type[Any]] = {}


def table_type(algorithm: type[Any]) -> type[Any]:
    """Return the dataclass of an algorithm's settings, the same one every time."""
    if algorithm not in _made:
        _made[algorithm] = _make(algorithm)
    return _made[algorithm]


def _make(algorithm: type[Any]) -> type[Any]:
    hints = get_type_hints(algorithm, include_extras=True)
    meanings = read_attributes(algorithm)
    found = setting_fields(algorithm)
    lines = [f"    {each.name}: {meanings.get(each.name, '')}" for each in found]
    doc = "\n".join([f"{read_summary(algorithm)}.", "", "Attributes:", *lines])
    return make_dataclass(
        f"{algorithm.__name__}Settings",
        [(each.name, hints[each.name], field(default=each.default)) for each in found],
        namespace={"__doc__": doc},
        frozen=True,
        slots=True,
    )


def table_types() -> dict[str, type[Any]]:
    """Return the name of every table -> its type."""
    return {name: table_type(algorithm) for name, algorithm in CATALOG.items()}


def default_tables() -> tuple[tuple[str, Any], ...]:
    """Return every algorithm's name and default settings."""
    return tuple((name, kind()) for name, kind in table_types().items())
