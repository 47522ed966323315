"""Options whose values have a form: counts, shares, numbers, lists of them, paths.

Typer parses them before a command's function is called, so that the function gets
numbers; an error is one line that begins with the option.
"""

from collections.abc import Callable, Collection
from contextlib import ContextDecorator
from functools import partial
from pathlib import Path

import typer

from fediac.core.shares import parse_count, parse_counts, parse_number, parse_share
from fediac.errors import ArgumentError, named


class OptionError(typer.BadParameter):
    """An option has a value that breaks a rule, such as ``must be at least 1, got 0``.

    Typer adds which option it is.
    """

    def __str__(self) -> str:
        """Return the sentence that begins with the option's name."""
        # Typer writes: Invalid value for '--output' / '-o': must name a file, got ''
        _, name, _ = self.format_message().split("'", 2)
        return f"{name} {self.message}"


def count_option(text: str, *, at_least: int = 0, metavar: str = "N") -> object:
    """Return an option that takes a whole number: 20, 11_173_962 or 1e9."""
    return _option(text, metavar, partial(parse_count, name="", at_least=at_least))


def counts_option(text: str) -> object:
    """Return an option that takes several counts: 1-4 or 1,2,4."""
    return _option(text, "LIST", partial(parse_counts, name=""))


def sizes_option(text: str) -> object:
    """Return an option that takes several sizes: 1e5,1e7,1e9."""

    def read(written: str) -> list[int]:
        return [parse_count(each, name="", at_least=1) for each in written.split(",")]

    return _option(text, "LIST", read)


def algorithms_option() -> object:
    """Return an option that takes names of algorithms, with commas between them."""
    return typer.Option(
        metavar="A,B,C",
        help="Names from 'fediac list', or module:name for your own.  [default: all "
        "that it lists]",
    )


def number_option(text: str, *, metavar: str = "NUMBER") -> object:
    """Return an option that takes any number: -0.5 or 1e-3."""
    return _option(text, metavar, partial(parse_number, name=""))


def share_option(text: str, *, words: Collection[str] = ()) -> object:
    """Return an option that takes a count or a share such as 5%, and stays text.

    What it is a share of may depend on an option that has yet to be parsed.

    Args:
        text: The help.
        words: What it takes as well.
    """

    def read(written: str) -> str:
        if written not in words:
            parse_share(written, of=1, name="")
        return written

    return _option(text, "SHARE", read)


def memory_option(text: str) -> object:
    """Return an option that takes a number of bytes, or unbounded: None."""

    def read(written: str) -> int | None:
        is_unbounded = written.strip() == "unbounded"
        return None if is_unbounded else parse_count(written, name="")

    return _option(text, "BYTES", read)


def file_option(text: str, *names: str) -> object:
    """Return an option that names a file."""
    return _option(text, "FILE", partial(_read_path, what="a file"), *names)


def folder_option(text: str) -> object:
    """Return an option that names a folder."""
    return _option(text, "DIR", partial(_read_path, what="a folder"))


def path_argument(metavar: str, what: str, text: str) -> object:
    """Return a required argument that names ``what``: a file or a folder."""
    parser = _parser(partial(_read_path, what=what))
    return typer.Argument(metavar=metavar, help=text, show_default=False, parser=parser)


def named_options(*arguments: str, **others: str) -> ContextDecorator:
    """Let errors of a command name options where they would name arguments.

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


def _read_path(written: str, *, what: str) -> Path:
    """Return a path; an empty one would be the current folder."""
    if not written.strip():
        raise ArgumentError("", f"must name {what}, got {written!r}")
    return Path(written)


def _option(
    text: str, metavar: str, read: Callable[[str], object], *names: str
) -> object:
    return typer.Option(*names, metavar=metavar, help=text, parser=_parser(read))


def _parser(read: Callable[[str], object]) -> Callable[[object], object]:
    """Return what typer calls with a value as it was written, or with a default."""

    def parse(given: object) -> object:
        if not isinstance(given, str):
            return given
        try:
            return read(given)
        except ArgumentError as error:
            raise OptionError(error.rule) from None

    return parse
