"""Users' own algorithms, named as ``module:name``, without any change to this package.

What has that name is a class or function that makes a compressor. It is called before
every round, so that a run that is resumed has the same one.
"""

import inspect
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

from array_api_compat import array_namespace

from fediac.compressors import CATALOG, Compressor, State
from fediac.compressors.protocol import Round, can_run_rounds
from fediac.core.mean import Mean, MeanPart
from fediac.core.rng import Stream
from fediac.core.types import Update
from fediac.errors import (
    AlgorithmError,
    ArgumentError,
    ConfigError,
    FediacError,
    hint_name,
    say_count,
)
from fediac.imports import import_named, say_fault
from fediac.names import is_folder_name, is_own
from fediac.transports.exchange_checks import require_outcome


def require_algorithm(algorithm: str) -> None:
    """Refuse an algorithm that is not in the catalog and cannot be imported.

    Raises:
        ConfigError: In one line; an unknown name gets the nearest.
    """
    if is_own(algorithm):
        _find(algorithm)
    elif algorithm not in CATALOG:
        hint = hint_name(algorithm, [*CATALOG, "module:name"])
        raise ConfigError(f"unknown algorithm {algorithm!r}{hint}")


def list_named(algorithms: str | None) -> list[str]:
    """Return the algorithms that ``--algorithms`` names, by default the catalog's.

    Args:
        algorithms: Names with commas between them.

    Raises:
        ConfigError: There is none, or one is unknown or cannot be imported.
    """
    if algorithms is None:
        return list(CATALOG)
    names = [name.strip() for name in algorithms.split(",")]
    if any(names) and not all(names):
        raise ConfigError(
            "--algorithms must have a name on both sides of a comma, "
            f"got {algorithms!r}"
        )
    if not all(names):
        raise ConfigError(
            f"--algorithms must name some of {', '.join(CATALOG)} or your own as "
            f"module:name, got {algorithms!r}"
        )
    for name in names:
        require_algorithm(name)
    return names


def make_own(algorithm: str, *, n_clients: int, dim: int) -> Compressor:
    """Return the compressor that a user's own class or function makes.

    It gets those of ``n_clients`` and ``dim`` that it takes, by name.

    Args:
        algorithm: ``module:name``.
        n_clients: Clients in a round.
        dim: Entries in an update.

    Raises:
        ConfigError: It cannot be imported or called so, or returns something else.
    """
    make = _find(algorithm)
    given = _arguments(algorithm, make, {"n_clients": n_clients, "dim": dim})
    try:
        made = make(**given)
    except (Exception, SystemExit) as error:
        raise AlgorithmError(
            f"algorithm {algorithm!r} must return a compressor, got {say_fault(error)}"
        ) from error
    compressor = _checked(algorithm, made, n_clients)
    is_ours = type(made) in CATALOG.values()
    return compressor if is_ours else _Named(compressor, algorithm)


def require_finite(algorithm: str, mean: Update) -> None:
    """Refuse a mean that would ruin the model and look like bad training.

    Raises:
        AlgorithmError: Some entries are NaN or infinite.
    """
    xp = array_namespace(mean)
    n_nonfinite = mean.shape[0] - int(xp.count_nonzero(xp.isfinite(mean)))
    if n_nonfinite:
        what = say_count(n_nonfinite, "entry that is", "entries that are")
        raise AlgorithmError(
            f"algorithm {algorithm!r} must return a finite mean, got {what} not"
        )


class _Named:
    """A user's compressor; errors say which algorithm failed, and on which line."""

    def __init__(self, compressor: Compressor, algorithm: str) -> None:
        self._compressor = compressor
        self._algorithm = algorithm

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the compressor's own
        return getattr(self._compressor, name)

    def run_round(
        self, update: Update, state: State, stream: Stream, *, out: Update | None = None
    ) -> Round:
        """Run the user's round.

        Raises:
            AlgorithmError: It raised something that is no error of this package.
        """
        try:
            made = self._compressor.run_round(update, state, stream, out=out)
            if not isinstance(made, Generator):
                return made  # the caller says what is wrong
            outcome = require_outcome((yield from made))
        except (Exception, SystemExit) as error:
            if _is_told(error):
                raise
            raise _failure(self._algorithm, error) from error
        parts = tuple(_NamedPart(each, self._algorithm) for each in outcome.mean.parts)
        return replace(outcome, mean=Mean(parts))


@dataclass(frozen=True, slots=True)
class _NamedPart:
    """A part of a user's mean; errors say which algorithm failed."""

    part: MeanPart
    algorithm: str

    def write(self, out: Update) -> None:
        try:
            self.part.write(out)
        except (Exception, SystemExit) as error:
            if _is_told(error):
                raise
            raise _failure(self.algorithm, error) from error


def _is_told(error: BaseException) -> bool:
    """Return whether an error already explains what is wrong in a round.

    An argument is the user's own, in a call of theirs: they want to know where.
    """
    return isinstance(error, FediacError) and not isinstance(error, ArgumentError)


def _failure(algorithm: str, error: BaseException) -> AlgorithmError:
    return AlgorithmError(f"algorithm {algorithm!r} failed: {say_fault(error)}")


def _find(algorithm: str) -> Callable[..., Any]:
    name = algorithm.partition(":")[2]
    if not name.isidentifier() or not is_folder_name(name):
        raise AlgorithmError(
            f"algorithm {algorithm!r} must have a name after the colon that is good "
            "for a folder on every system (letters, digits and underscores; not con, "
            f"nul, ...), got {name!r}"
        )
    found: object = import_named("algorithm", algorithm)
    if not callable(found):
        raise AlgorithmError(
            f"algorithm {algorithm!r} must be a class or a function, "
            f"got {type(found).__name__}"
        )
    return found


def _arguments(
    algorithm: str, make: Callable[..., Any], offered: Mapping[str, int]
) -> dict[str, int]:
    """Return those of ``offered`` that the function takes, if it needs nothing else."""
    try:
        signature = inspect.signature(make)
        kinds = {each.kind for each in signature.parameters.values()}
        takes_any = inspect.Parameter.VAR_KEYWORD in kinds
        given = {
            name: number
            for name, number in offered.items()
            if takes_any or name in signature.parameters
        }
        signature.bind(**given)
    except (TypeError, ValueError) as error:
        raise AlgorithmError(
            f"algorithm {algorithm!r} must need no arguments other than n_clients and "
            f"dim, got {error}"
        ) from error
    return given


def _checked(algorithm: str, made: Any, n_clients: int) -> Compressor:  # noqa: ANN401 - what a user returns
    """Return what was made, if it can run rounds with this many clients."""
    if not can_run_rounds(made):
        is_class = isinstance(made, type)
        what = f"the class {made.__name__}" if is_class else type(made).__name__
        raise AlgorithmError(
            f"algorithm {algorithm!r} must return a compressor, one with run_round, "
            f"got {what}"
        )
    try:
        inspect.signature(made.run_round).bind("update", "state", "stream", out=None)
    except TypeError as error:
        found = str(error).removeprefix("got ")
        raise AlgorithmError(
            f"algorithm {algorithm!r} must return a compressor whose run_round takes "
            f"(update, state, stream, *, out), got {found}"
        ) from error
    number = getattr(made, "n_clients", None)
    if not isinstance(number, Integral) or number != n_clients:
        raise AlgorithmError(
            f"algorithm {algorithm!r} must return a compressor whose n_clients is "
            f"{n_clients} (clients in a round), got {number!r}"
        )
    compressor: Compressor = made
    return compressor
