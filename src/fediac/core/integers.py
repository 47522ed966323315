"""Whole numbers that a user gives, whoever made them."""

from numbers import Integral


def as_whole(name: str, number: object) -> int:
    """Return a whole number as Python's, which every part of a round can take.

    Args:
        name: What the argument is called.
        number: Python's or NumPy's.

    Raises:
        TypeError: It is something else.
    """
    if not isinstance(number, Integral) or isinstance(number, bool):
        raise TypeError(f"{name} must be a whole number, got {number!r}")
    return int(number)
