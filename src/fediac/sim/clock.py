"""The simulator's clock: whole picoseconds inside, seconds at the edges."""

import math

from fediac.errors import ArgumentError

PS_PER_S = 10**12

MAX_PS = 1 << 61
"""The latest simulated time, 26 days; two such times can still be added."""


NEVER_PS = (1 << 62) - 1
"""No packet arrives after this time, 53 days; sim.h has the same number."""


def whole_ps(seconds: float, *, name: str) -> int:
    """Return a time in whole picoseconds, however long.

    Raises:
        ValueError: It is negative or not a number.
    """
    if not 0.0 <= seconds < math.inf:
        raise ArgumentError(name, f"must be finite and at least 0, got {seconds}")
    ps = seconds * PS_PER_S
    return round(ps) if ps < math.inf else int(seconds) * PS_PER_S


def to_ps(seconds: float, *, name: str) -> int:
    """Return a duration within a round in whole picoseconds.

    Raises:
        ValueError: It is negative, not a number, or longer than the clock runs.
    """
    time_ps = whole_ps(seconds, name=name)
    if time_ps > MAX_PS:
        raise ArgumentError(
            name,
            f"must be at most {MAX_PS // PS_PER_S} s (the clock's end), got {seconds}",
        )
    return time_ps


def to_s(ps: int) -> float:
    """Return picoseconds as seconds."""
    return int(ps) / PS_PER_S
