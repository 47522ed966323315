"""Every error of this package that is not a plain ``ValueError``."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches

INTERRUPTED = 130
"""The exit code of a command that Ctrl-C ended."""


class FediacError(Exception):
    """Base of all errors defined by this package."""


class ArgumentError(FediacError, ValueError):
    """An argument is out of range or does not fit another.

    What stands around a call may know the argument by another name, such as a key of a
    settings file or an option of a command; `called` says the same with that.

    Args:
        argument: Its name, as the function or class that was called has it.
        rule: What it must be and what it was: ``must be at least 1, got 0``.
    """

    def __init__(self, argument: str, rule: str) -> None:
        super().__init__(argument, rule)
        self.argument = argument
        self.rule = rule

    def __str__(self) -> str:
        """Return the whole sentence, which begins with the argument."""
        return f"{self.argument} {self.rule}"

    def called(self, name: str) -> "ArgumentError":
        """Return the same error about an argument that the reader knows as ``name``."""
        return type(self)(name, self.rule)


class ConfigError(FediacError):
    """A setting is unknown, missing or out of range."""


class AlgorithmError(ConfigError):
    """A user's own algorithm cannot be run; the message may name what is in it."""


class DatasetError(FediacError):
    """A data file is missing, cut short, damaged or not what it should hold."""


class RunError(FediacError):
    """A run's folder is missing, or a file in it is cut short or damaged."""


class UpdateError(FediacError, ValueError):
    """An update cannot be aggregated: not finite, wrong length or wrong dtype."""


class NotFiniteError(UpdateError):
    """An update has entries that are NaN, infinite or beyond 2**100."""


class StartError(FediacError):
    """A process cannot begin its work.

    Args:
        message: Why.
        exit_code: What its command ends with, one for each cause.
    """

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class LocalProtocolError(FediacError):
    """Our own caller asked for what the protocol does not allow."""


class RemoteProtocolError(FediacError):
    """A peer's packet breaks the protocol; sockets drop it and count the reason."""


class SessionError(FediacError):
    """A session over a network cannot go on; another attempt may.

    Args:
        message: Why.
        missing: Clients that were silent, if that was it.
        is_final: Whether another attempt would end the same way.
    """

    def __init__(
        self, message: str, *, missing: tuple[int, ...] = (), is_final: bool = False
    ) -> None:
        super().__init__(message)
        self.missing = missing
        self.is_final = is_final


class TraceError(FediacError, ValueError):
    """A trace of rates cannot be used: damaged, decreasing, negative or silent."""


@contextmanager
def named(names: Mapping[str, str]) -> Iterator[None]:
    """Use the user's names for arguments, in errors that are raised inside.

    Args:
        names: Argument -> option or setting.

    Raises:
        ConfigError: Instead of an error about one of these arguments.
    """
    try:
        yield
    except ArgumentError as error:
        if error.argument not in names:
            raise
        raise ConfigError(str(error.called(names[error.argument]))) from error


def hint_name(name: str, known: Iterable[str]) -> str:
    """Return the end of an error about an unknown name: the nearest one, or all."""
    names = [str(each) for each in known]  # an enum's values, not its members
    near = get_close_matches(name, names, n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; there are {', '.join(names)}" if names else "; there are none"


def say_count(number: int, one: str, many: str = "") -> str:
    """Return a number of things in words: ``1 client``, ``20 clients``, ``2 entries``.

    Args:
        number: How many.
        one: What one of them is called.
        many: What several are; by default the same with an s.
    """
    return f"{number} {one if number == 1 else many or one + 's'}"


def say_reason(error: OSError) -> str:
    """Return why a file could not be used, in the operating system's words."""
    return (error.strerror or str(error)).lower()
