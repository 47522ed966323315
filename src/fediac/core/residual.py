"""What happens to a residual between two rounds: a share of it may be forgotten."""

from numbers import Real

from fediac.core.types import Update
from fediac.errors import ArgumentError


def check_fade(fade: object, *, residual: bool) -> None:
    """Raise unless ``fade`` is at least 0 and below 1, and 0 without a residual."""
    if isinstance(fade, bool) or not isinstance(fade, Real):
        raise TypeError(f"fade must be a number, got {fade!r}")
    if not 0.0 <= float(fade) < 1.0:  # nor is NaN
        raise ArgumentError("fade", f"must be at least 0 and below 1, got {fade}")
    if fade and not residual:
        raise ArgumentError("fade", f"must be 0 without a residual, got {fade}")


def fade_residual(residual: Update | None, fade: float) -> Update | None:
    """Return the residual reduced by the share ``fade``; it is changed in place."""
    if residual is not None and fade:
        residual *= 1.0 - fade
    return residual
