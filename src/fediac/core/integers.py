"""Whole numbers from users: Python's, NumPy's or another library's."""

from numbers import Integral

from fediac.errors import ArgumentError


def as_whole(name: str, number: object, *, at_least: int | None = None) -> int:
    """Return a whole number as a Python int, which every part of a round can use.

    Args:
        name: What the argument is called.
        number: What was given.
        at_least: The smallest that is allowed; None: the caller checks.

    Raises:
        TypeError: It is not a whole number.
        ArgumentError: It is too small.
    """
    if not isinstance(number, Integral) or isinstance(number, bool):
        raise TypeError(f"{name} must be a whole number, got {number!r}")
    if at_least is not None and number < at_least:
        raise ArgumentError(name, f"must be at least {at_least}, got {number}")
    return int(number)
