"""``preset = "lean"`` in an algorithm's table: settings by one word.

A preset is resolved when settings are read, so runs and their files know none: its
settings are the ground on which the table's other keys stand. What a preset says about
the run itself, such as ``train.statistics``, holds for every algorithm that is run with
these settings, so that comparisons stay fair; a file that says something else about it
is followed.

With ``--set`` a preset takes the place of all that the file says about the algorithm.
"""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from fediac.compressors import CATALOG
from fediac.compressors.settings import Preset, presets_of
from fediac.errors import ConfigError, hint_name

KEY = "preset"
"""What names a preset in a table; no setting may be called so."""


def describe_presets(algorithm: str) -> str:
    """Return what a table's key ``preset`` does, in a few sentences; or nothing."""
    found = presets_of(CATALOG[algorithm])
    if not found:
        return ""
    parts = []
    for name, preset in found.items():
        also = [f"{key} = '{value}'" for key, value in preset.beside.items()]
        tail = f" (with {', '.join(also)} unless the file says otherwise)"
        parts.append(f"'{name}': {preset.meaning}{tail if also else ''}")
    return (
        f"Many settings by one word. {'; '.join(parts)}. The other keys of this table "
        "stand above it."
    )


def preset_names(algorithm: str) -> tuple[str, ...]:
    """Return the names of an algorithm's presets."""
    return tuple(presets_of(CATALOG[algorithm]))


def fill_table(
    algorithm: str, table: Mapping[str, Any], *, source: str
) -> dict[str, Any]:
    """Return an algorithm's table with the settings of its preset, if it names one.

    Raises:
        ConfigError: There is no such preset.
    """
    if KEY not in table or not presets_of(CATALOG[algorithm]):
        return dict(table)
    preset = _find(algorithm, table[KEY], source=source)
    own = {key: value for key, value in table.items() if key != KEY}
    return {**preset.settings, **own}


def fill_document(document: Mapping[str, Any], *, source: str) -> dict[str, Any]:
    """Return a run's settings with those of the presets that tables name.

    Raises:
        ConfigError: There is no such preset.
    """
    filled = deepcopy(dict(document))
    for name, table, preset in _named(document, source=source):
        filled[name] = fill_table(name, table, source=source)
        for key, value in preset.beside.items():
            outer, _, inner = key.partition(".")
            there = filled.setdefault(outer, {})
            if isinstance(there, dict):
                there.setdefault(inner, value)
    return filled


def make_room(document: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a file's settings without what the presets of ``given`` replace.

    Args:
        document: The file's settings.
        given: What ``--set`` says.
    """
    left = deepcopy(dict(document))
    for name, _, preset in _named(given, source="--set"):
        left.pop(name, None)
        for key in preset.beside:
            outer, _, inner = key.partition(".")
            there = left.get(outer)
            if isinstance(there, dict):
                there.pop(inner, None)
    return left


def _named(
    document: Mapping[str, Any], *, source: str
) -> Iterator[tuple[str, Mapping[str, Any], Preset]]:
    """Yield the algorithms' tables that name a preset, with their names and presets."""
    for name, algorithm in CATALOG.items():
        table = document.get(name)
        if isinstance(table, Mapping) and KEY in table and presets_of(algorithm):
            yield name, table, _find(name, table[KEY], source=source)


def _find(algorithm: str, preset: object, *, source: str) -> Preset:
    found = presets_of(CATALOG[algorithm])
    if isinstance(preset, str) and preset in found:
        return found[preset]
    names = " or ".join(f'"{name}"' for name in found)
    hint = hint_name(preset, found) if isinstance(preset, str) else ""
    hint = hint if "did you mean" in hint else ""
    raise ConfigError(
        f"{source}: {algorithm}.{KEY} must be {names}, got {preset!r}{hint}"
    )
