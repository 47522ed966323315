"""Checks of an algorithm's settings; errors name the setting."""

from dataclasses import fields
from numbers import Integral, Real

from fediac.compressors.protocol import Compressor
from fediac.core.integers import as_whole
from fediac.core.shares import Share, parse_share
from fediac.errors import ArgumentError


def check_flag(name: str, flag: object) -> None:
    """Raise unless a setting is True or False."""
    if not isinstance(flag, bool):
        raise TypeError(f"{name} must be True or False, got {flag!r}")


def check_numbers(compressor: Compressor) -> None:
    """Make all numbers Python's own, and raise unless there is at least one client.

    A round may use them anywhere, and a 64-bit number of NumPy's would change the dtype
    of its products with 32-bit arrays.
    """
    for each in fields(compressor):  # type: ignore[arg-type] # algorithms are dataclasses
        number = getattr(compressor, each.name)
        if isinstance(number, Integral) and not isinstance(number, int):
            object.__setattr__(compressor, each.name, int(number))
        elif isinstance(number, Real) and not isinstance(number, int):
            object.__setattr__(compressor, each.name, float(number))
    as_whole("n_clients", compressor.n_clients, at_least=1)


def check_share(name: str, share: Share) -> None:
    """Raise unless a setting is a count of at least 1, or a share such as 5%."""
    as_whole(name, _parse(name, share, of=1), at_least=1)


def count_share(name: str, share: Share, *, of: int, what: str) -> int:
    """Return the count that a setting means, if it is in 1..``of``.

    Args:
        name: What the setting is called.
        share: What it was given; a share is rounded up.
        of: How many there are.
        what: What these are called in an error.
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
