"""``fediac list settings``: every key of a run's file, with what it means.

All of it comes from the dataclasses in `settings`, those of the algorithms and their
docstrings, and what is printed is such a file itself.
"""

import json
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any, get_type_hints

from fediac.compressors import CATALOG
from fediac.console import write_json
from fediac.docstrings import read_attributes
from fediac.runs.settings.presets import KEY, describe_presets, preset_names
from fediac.runs.settings.tables import RunSettings
from fediac.runs.settings.types import describe_kind

_WIDTH = 79


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a settings file.

    Attributes:
        table: The table it is in; empty at the top level.
        kind: What it may be, in words.
        default: As TOML has it; None: there is none.
        meaning: In a sentence or two.
    """

    table: str
    name: str
    kind: str
    default: Any
    meaning: str

    @property
    def path(self) -> str:
        """The key as ``--set`` takes it."""
        return f"{self.table}.{self.name}" if self.table else self.name


def list_keys() -> Iterator[Key]:
    """Yield every key, those of the top level first, then table by table."""
    settings = RunSettings()
    tables = {
        each.name: value
        for each in fields(settings)
        if is_dataclass(value := getattr(settings, each.name))
    }
    tables |= dict(settings.tables)
    yield from _list_values(settings, "", without=(*tables, "tables"))
    for name, table in tables.items():
        if name in CATALOG and preset_names(name):
            words = " or ".join(f'"{each}"' for each in preset_names(name))
            yield Key(name, KEY, words, None, describe_presets(name))
        yield from _list_values(table, name)


def _list_values(
    settings: Any,  # noqa: ANN401 - any table
    table: str,
    without: Sequence[str] = (),
) -> Iterator[Key]:
    """Yield the keys of one table."""
    kind = type(settings)
    hints = get_type_hints(kind, include_extras=True)
    meanings = read_attributes(kind)
    for name in (each.name for each in fields(kind)):
        if name in without:
            continue
        value = getattr(settings, name)
        default = list(value) if isinstance(value, tuple) else value
        words = describe_kind(hints[name])
        yield Key(table, name, words, default, meanings[name])


def list_settings(*, as_json: bool) -> None:
    """Print every key with its type, default and meaning."""
    keys = list(list_keys())
    if as_json:
        documents = [{"key": key.path} | asdict(key) for key in keys]
        write_json({"settings": documents})
        return
    sys.stdout.write("\n".join(_lines(keys)) + "\n")


def _lines(keys: list[Key]) -> Iterator[str]:
    yield "# Every setting of a run with its default; those without one are commented."
    yield '# A share is a string like "5%", rounded up; a number is a count.'
    table = ""
    for key in keys:
        yield ""
        if key.table != table:
            table = key.table
            yield f"[{table}]"
        yield from textwrap.wrap(
            key.meaning,
            _WIDTH,
            initial_indent="# ",
            subsequent_indent="# ",
            break_on_hyphens=False,
        )
        if key.default is None:
            yield f"# {key.name} =  # {key.kind}"
        else:
            line = f"{key.name} = {json.dumps(key.default)}"
            together = f"{line}  # {key.kind}"
            is_short = len(together) <= _WIDTH
            yield from [together] if is_short else [f"# It is {key.kind}.", line]
