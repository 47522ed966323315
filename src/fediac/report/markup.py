"""HTML and SVG elements as text, escaped where it matters."""

import re
from html import escape

_NO_END = frozenset({"meta", "link", "input"})
_CLOSED = frozenset({"line", "rect", "path", "circle", "use"})
_UNIT = re.compile(r"(?<=[0-9]) (?=(?:%|MiB|s|\u00d7)(?:\W|$))")


def tag(name: str, /, *children: str, **attributes: object) -> str:
    """Return an element.

    Args:
        name: Its name.
        children: What is inside, markup already; `text` makes it from words.
        attributes: ``data_run`` stands for ``data-run`` and ``class_`` for ``class``;
            None leaves one out, True gives it no value.
    """
    written = "".join(
        _attribute(key.rstrip("_").replace("_", "-"), value)
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _NO_END:
        return f"<{name}{written}>"
    if name in _CLOSED and not children:
        return f"<{name}{written}/>"
    return f"<{name}{written}>{''.join(children)}</{name}>"


def _attribute(name: str, value: object) -> str:
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'


def text(words: str) -> str:
    """Return words as markup; a number and its unit stay on one line."""
    return escape(_UNIT.sub("\u00a0", words), quote=False)


def share(value: float) -> str:
    """Return a share of 1 as a length of SVG."""
    return f"{round(100.0 * value, 3):g}%"
