"""Settings of an algorithm: refused by name where they are of the wrong kind."""

from dataclasses import fields
from numbers import Integral, Real

from fediac.compressors.protocol import Compressor
from fediac.core.integers import as_whole
from fediac.core.shares import Share, parse_share
from fediac.errors import ArgumentError


def check_whole(name: str, number: object, *, at_least: int | None = None) -> None:
    """Raise unless a setting is a whole number, Python's or NumPy's, and not too small.

    Args:
        name: What the setting is called.
        number: What it was given.
        at_least: The smallest that is allowed; None: whoever calls checks that.
    """
    whole = as_whole(name, number)
    if at_least is not None and whole < at_least:
        raise ArgumentError(name, f"must be at least {at_least}, got {number}")


def check_flag(name: str, flag: object) -> None:
    """Raise unless a setting is True or False."""
    if not isinstance(flag, bool):
        raise TypeError(f"{name} must be True or False, got {flag!r}")


def check_clients(compressor: Compressor) -> None:
    """Raise unless there are clients, and let all numbers be Python's.

    A round may take them anywhere, and one of NumPy's with 64 bits would make products
    with 32-bit arrays others.
    """
    for each in fields(compressor):  # type: ignore[arg-type] # algorithms are dataclasses
        number = getattr(compressor, each.name)
        if isinstance(number, Integral) and not isinstance(number, int):
            object.__setattr__(compressor, each.name, int(number))
        elif isinstance(number, Real) and not isinstance(number, int):
            object.__setattr__(compressor, each.name, float(number))
    check_whole("n_clients", compressor.n_clients, at_least=1)


def check_share(name: str, share: Share) -> None:
    """Raise unless a setting is a count from 1 on, or a share of whatever there is."""
    check_whole(name, _parse(name, share, of=1), at_least=1)


def count_share(name: str, share: Share, *, of: int, what: str) -> int:
    """Return how many a count or a share of ``of`` is, if there are so many.

    Args:
        name: What the setting is called.
        share: What it was given; a share is rounded up.
        of: All there are.
        what: What these are called.
    """
    count = _parse(name, share, of=of)
    if not 1 <= count <= of:
        raise ArgumentError(name, f"must be in 1..{of} ({what}), got {count}")
    return count


def _parse(name: str, share: Share, *, of: int) -> int:
    if isinstance(share, bool) or not isinstance(share, int | str):
        raise TypeError(
            f"{name} must be a whole number or a share such as 5%, got {share!r}"
        )
    return parse_share(share, of=of, name=name)
