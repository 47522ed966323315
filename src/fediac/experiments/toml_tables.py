"""Settings as people write them: a TOML file, read into plain tables."""

import re
import tomllib
from pathlib import Path
from typing import Any

from fediac.errors import ConfigError, say_reason

_LINE = re.compile(r"\(at line ([0-9]+),")
_BARE_SHARE = re.compile(r"[^\"'#]*= *([0-9]+(?:\.[0-9]+)?) ?%")


def read_table(path: Path) -> dict[str, Any]:
    """Return what a TOML file holds; some editors begin it with a byte order mark.

    Raises:
        ConfigError: It cannot be read or is no TOML.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: {say_reason(error)}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: {error}") from error
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        hint = _hint_share(text, str(error))
        raise ConfigError(f"{path}: {error}{hint}") from error


def _hint_share(text: str, message: str) -> str:
    """Return how the line that TOML stumbles over is right, if it has a bare share."""
    line = _LINE.search(message)
    if line is None:
        return ""
    share = _BARE_SHARE.match(text.split("\n")[int(line[1]) - 1])
    return f'; a share is a string, write "{share[1]}%"' if share else ""
