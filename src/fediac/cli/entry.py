"""All commands together, and how they end: results, one-line errors, exit codes."""

import os
import re
import sys
from collections.abc import Iterable, Sequence
from io import TextIOWrapper
from pathlib import Path

import typer

from fediac.cli import network, paper, rounds, runs, selftest, switch, theory
from fediac.cli.app import app
from fediac.cli.options import OptionError
from fediac.errors import INTERRUPTED, FediacError, StartError, say_reason

__all__ = [
    "app",
    "network",
    "paper",
    "rounds",
    "run_app",
    "runs",
    "selftest",
    "switch",
    "theory",
]

WRONG = 2
"""The exit code of a command that was used wrongly."""

# Typer does not export the base class of usage errors, only one that derives from it.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]

_BAD_VALUE = re.compile(r"Invalid value for (?P<name>[^:]+): (?:Value error, )?")
_QUOTE = "'"
_TWICE = re.compile(r"( Did you mean [^?]+\?)\1+$")
_NO_OPTION = re.compile(r"^No such option (.*)$")
"""As click and older versions of typer put it, who both have a hint."""

_HINT = re.compile(r"\.? (?:\(Possible options: (.+)\)|Did you mean (.+)\?)$")


def run_app(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; a user's mistake is one line and exit code 2."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    _open_what_is_closed()
    _show_what_can_be_shown()
    _summarize_whole(app)
    try:
        code = app(words, prog_name="fediac", standalone_mode=False)
    except (FediacError, ValueError, OptionError) as error:
        code = error.exit_code if isinstance(error, StartError) else WRONG
        _fail(str(error) or type(error).__name__, code=code)
    except _UsageError as error:
        _fail(describe_usage(error), see=_command_of(error, words))
    except typer.Abort:
        raise KeyboardInterrupt from None
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        _fail(where + say_reason(error))
    except MemoryError as error:
        detail = f" ({error})" if str(error) else ""
        _fail(f"not enough memory for this{detail}")
    except ArithmeticError as error:
        _fail(f"one of the numbers is too large or too small ({error})")
    except RecursionError:
        _fail("one of the files given is nested too deeply")
    sys.exit(_exit_code(code))


def _exit_code(returned: object) -> int:
    """Return the exit code for what a command returned.

    Raises:
        KeyboardInterrupt: Typer had silently turned one into its exit code.
    """
    if returned == INTERRUPTED:
        raise KeyboardInterrupt
    return returned if isinstance(returned, int) else 0


def _open_what_is_closed() -> None:
    """Discard what is written to a standard output or error that is closed."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            nowhere = Path(os.devnull).open("w")  # noqa: SIM115 - until the end
            setattr(sys, name, nowhere)


def _show_what_can_be_shown() -> None:
    """Replace characters that the terminal cannot show, rather than fail.

    Otherwise hours of results could be lost to one dash.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def describe_usage(error: Exception) -> str:
    """Return Typer's message about a command line in the style of our own errors."""
    text: str = error.format_message()  # type: ignore[attr-defined] # of typer's own
    text, n_names = _BAD_VALUE.subn(lambda found: found["name"].strip("'") + ": ", text)
    text = " ".join(text.split()).rstrip(".")
    text = _TWICE.sub(r"\1", text)
    text = _NO_OPTION.sub(
        lambda found: f"No such option: {found[1].replace(_QUOTE, '')}", text
    )
    text = _HINT.sub(lambda found: f"; did you mean {found[1] or found[2]}?", text)
    return text if n_names else text[:1].lower() + text[1:]


def _fail(message: str, *, see: str = "", code: int = WRONG) -> None:
    """Write one line, say where to find help, and exit."""
    lines = [f"error: {' '.join(message.split())}"]
    if see:
        lines.append(f"see {see} --help")
    sys.stderr.write("\n".join(lines) + "\n")
    sys.exit(code)


def _command_of(error: Exception, words: Sequence[str]) -> str:
    """Return the command that the error is about, if it is known."""
    context = getattr(error, "ctx", None)
    if context is not None:
        return str(context.command_path)
    known = {each.name for each in app.registered_commands}
    return " ".join(["fediac", *(word for word in words[:1] if word in known)])


def _summarize_whole(group: typer.Typer) -> None:
    """Use the whole first line of every docstring as summary; Typer would cut it."""
    infos: Iterable[typer.models.CommandInfo] = group.registered_commands
    for info in infos:
        info.short_help = info.short_help or _first_line(info.callback)
    for inner in group.registered_groups:
        if inner.typer_instance is not None:
            own = inner.typer_instance.registered_callback
            inner.short_help = _first_line(own.callback if own else None)
            _summarize_whole(inner.typer_instance)


def _first_line(function: object) -> str:
    text = (function.__doc__ or "") if function else ""
    return text.partition("\n")[0]
