"""What happens to a residual between two rounds.

What was sent but not counted goes back to it, so nothing is lost; with a fade, a share
of all of it is forgotten.
"""

from numbers import Real

from array_api_compat import array_namespace

from fediac.core.bitpack import indices_of, unpack_lanes
from fediac.core.division import divide
from fediac.core.quantize import Grid, Sent
from fediac.core.types import Packed, Update


def restore_missed(
    residual: Update,
    sent: Sent,
    gia: Packed | None,
    grid: Grid,
    missed: list[tuple[int, int]],
) -> Update:
    """Return the residual with the levels of ``missed`` ranges added back.

    Args:
        residual: What `send_chosen` left.
        sent: What it sent.
        gia: The mask the levels follow; None when all entries are sent.
        grid: The scale and limit of the levels.
        missed: ``(start, stop)`` ranges of levels that closed without this client.
    """
    if not missed:
        return residual
    xp = array_namespace(residual)
    levels = unpack_lanes(sent.lanes, sent.n_levels, grid.bits) - grid.limit
    indices = None if gia is None else indices_of(gia, residual.shape[0])
    restored = xp.asarray(residual, copy=True)
    for start, stop in missed:
        where = slice(start, stop) if indices is None else indices[start:stop]
        back = divide(xp.astype(levels[start:stop], xp.float64), grid.scale)
        total = xp.astype(restored[where], xp.float64) + back
        restored[where] = xp.astype(total, restored.dtype)
    return restored


def check_fade(fade: object, *, residual: bool) -> None:
    """Raise unless ``fade`` is a share below all of a residual that is kept."""
    if isinstance(fade, bool) or not isinstance(fade, Real):
        raise TypeError(f"fade must be a number, got {fade!r}")
    if not 0.0 <= float(fade) < 1.0:  # nor is NaN
        raise ValueError(f"fade must be at least 0 and below 1, got {fade}")
    if fade and not residual:
        raise ValueError(f"fade must be 0 without a residual, got {fade}")


def fade_residual(residual: Update | None, fade: float) -> Update | None:
    """Return the residual without ``fade`` of it; it is changed in place."""
    if residual is not None and fade:
        residual *= 1.0 - fade
    return residual
