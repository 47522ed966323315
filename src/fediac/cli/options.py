"""What options of several commands share."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import typer

from fediac.errors import ConfigError, named

RESNET18 = "11173962"
"""Entries of the paper's model for CIFAR-10, as an option's default."""

RESNET18_S = "2"
"""Seconds that the paper has a client train it in a round (Sec. V-A2), the same way."""


def named_options(*arguments: str, **others: str) -> AbstractContextManager[None]:
    """Let errors name options where they would name arguments.

    Args:
        arguments: Those whose options are their names without what says that they are
            counts or seconds: ``--clients`` is ``n_clients``.
        others: Argument -> option.
    """
    options = {
        name: name.removeprefix("n_").removesuffix("_s").replace("_", "-")
        for name in arguments
    }
    return named({name: f"--{each}" for name, each in (options | others).items()})


def out_option(text: str) -> Any:  # noqa: ANN401 - of typer's own
    """Return the option ``--out``, a folder, with its help."""
    parser = path_parser("--out", "a folder")
    return typer.Option("--out", metavar="DIR", help=text, parser=parser)


def path_parser(name: str, what: str) -> Callable[[str | Path], Path]:
    """Return what reads a path, which has a name: an empty one is the current folder.

    Args:
        name: The option or argument, for an error.
        what: It names: a file or a folder.
    """

    def parse(text: str | Path) -> Path:
        if not str(text).strip():
            raise ConfigError(f"{name} must name {what}, got {text!r}")
        return Path(text)

    return parse
