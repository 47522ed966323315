"""Settings as people write them: a TOML file and ``--set``, as plain tables."""

import re
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from fediac.archives import Place, open_place, read_bytes
from fediac.errors import ConfigError, say_reason

MAX_DEPTH = 10
"""Settings are values in tables; whatever is nested deeper than this is none."""

_LINE = re.compile(r"\(at line ([0-9]+),")
_BARE_SHARE = re.compile(r"[^\"'#]*= *([0-9]+(?:\.[0-9]+)?) ?%")


def read_table(path: Place) -> dict[str, Any]:
    """Return what a TOML file holds; some editors begin it with a byte order mark.

    Args:
        path: The file; it may be inside an archive.

    Raises:
        ConfigError: It cannot be read or is no TOML.
    """
    place = open_place(path) if isinstance(path, Path) else path
    try:
        text = read_bytes(place).decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: {say_reason(error)}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: settings must be a text file (TOML in UTF-8), "
            f"got byte {error.object[error.start]:#04x} at {error.start}"
        ) from error
    try:
        return _parse(text)
    except tomllib.TOMLDecodeError as error:
        hint = _hint_share(text, str(error))
        raise ConfigError(f"{path}: {error}{hint}") from error
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None


def _parse(text: str) -> dict[str, Any]:
    """Return what TOML says.

    Raises:
        TOMLDecodeError: It is none.
        ValueError: It is nested, or a number in it is long, as no setting is.
    """
    try:
        table = tomllib.loads(text)
    except RecursionError:
        raise _too_deep() from None
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:
        limit = sys.get_int_max_str_digits()
        raise ValueError(
            f"numbers must have at most {limit} digits, got a longer one"
        ) from None
    layer: list[object] = [table]
    for _ in range(MAX_DEPTH + 1):
        layer = [each for outer in layer for each in _inside(outer)]
    if layer:
        raise _too_deep()
    return table


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _too_deep() -> ValueError:
    return ValueError(
        f"tables and lists must be nested at most {MAX_DEPTH} deep, got more"
    )


def _hint_share(text: str, message: str) -> str:
    """Return how the line that TOML stumbles over is right, if it has a bare share."""
    line = _LINE.search(message)
    if line is None:
        return ""
    share = _BARE_SHARE.match(text.split("\n")[int(line[1]) - 1])
    return f'; a share is a string, write "{share[1]}%"' if share else ""


def apply_overrides(
    table: Mapping[str, Any], overrides: Sequence[str]
) -> dict[str, Any]:
    """Return a copy of the table in which overrides take the place of what was there.

    Args:
        table: Settings, unchecked.
        overrides: ``key=value`` each, the key as in ``train.lr``, the value as TOML; a
            value that is not TOML is taken as a string.

    Raises:
        ConfigError: One is not of that form, or within something that is no table.
    """
    changed = deepcopy(dict(table))
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or not key:
            raise ConfigError(f"--set must be key=value, got {override!r}")
        *path, last = key.strip().split(".")
        inner = changed
        for name in path:
            inner = inner.setdefault(name, {})
            if not isinstance(inner, dict):
                raise ConfigError(f"--set {override}: {name!r} is not a table")
        inner[last] = _parse_value(text, key.strip())
    return changed


def _parse_value(text: str, key: str) -> object:
    try:
        return _parse(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    except ValueError as error:
        raise ConfigError(f"--set {key}: {error}") from None
