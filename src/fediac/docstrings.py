"""Parts of docstrings for help texts: a class's first line, and its attributes."""

import inspect
import re
from typing import Any

_ATTRIBUTE = re.compile(r"    (\w+): (.*)")


def read_summary(kind: type[Any]) -> str:
    """Return the first line of a class's docstring, without its full stop."""
    return inspect.cleandoc(kind.__doc__ or "").partition("\n")[0].removesuffix(".")


def read_attributes(kind: type[Any]) -> dict[str, str]:
    """Return the description of each attribute, on one line.

    Those of the classes that it is made from come after its own.
    """
    meanings: dict[str, str] = {}
    for each in kind.__mro__:
        meanings = meanings | _read_own(each) | meanings
    return meanings


def _read_own(kind: type[Any]) -> dict[str, str]:
    text = inspect.cleandoc(kind.__dict__.get("__doc__") or "")
    _, _, section = text.partition("Attributes:\n")
    meanings: dict[str, str] = {}
    name = ""
    for line in section.splitlines():
        found = _ATTRIBUTE.fullmatch(line)
        if found:
            name = found[1]
            meanings[name] = found[2]
        elif name:
            meanings[name] += f" {line.strip()}"
    return {each: text.replace("``", "'").strip() for each, text in meanings.items()}
