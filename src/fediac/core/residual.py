"""What happens to a residual between two rounds.

What was sent but not counted goes back to it, so nothing is lost; with a fade, a share
of all of it is forgotten. Clients that are absent keep theirs as it is.
"""

from dataclasses import dataclass
from numbers import Real

from array_api_compat import array_namespace, device

from fediac.core.bitpack import indices_of, unpack_lanes
from fediac.core.exact_divide import divide
from fediac.core.quantize import Grid, Sent, energy_of, subtract_sent
from fediac.core.types import Indices, Packed, Update
from fediac.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class Counted:
    """Which of the levels that a client sent were counted.

    Attributes:
        n_levels: How many.
        left_energy: Σ(U − counted)² over all entries that were sent, counted or not.
    """

    n_levels: int
    left_energy: float


def take_back(
    sent: Sent,
    missed: list[tuple[int, int]],
    values: Update,
    gia: Packed | None,
    grid: Grid,
    *,
    out: Update | None,
) -> Counted:
    """Return what was counted of ``sent``, and add the rest back to the residual.

    Args:
        sent: What `send_chosen` sent.
        missed: ``(start, stop)`` ranges of levels that closed without this client.
        values: The corrected update; not read where there is a residual.
        gia: The mask the levels follow; None when all entries are sent.
        grid: The scale and limit of the levels.
        out: The next residual, as `send_chosen` left it; None: none is kept.
    """
    if not missed:
        return Counted(sent.n_levels, sent.left_energy)
    like = values if out is None else out
    xp = array_namespace(like)
    levels = unpack_lanes(sent.lanes, sent.n_levels, grid.bits_up) - grid.limit
    where = slice(None) if gia is None else indices_of(gia, like.shape[0])
    left = subtract_sent(like[where], levels, grid) if out is None else out[where]
    n_missed = 0
    for start, stop in missed:
        back = divide(xp.astype(levels[start:stop], xp.float64), grid.scale)
        total = xp.astype(left[start:stop], xp.float64) + back
        left[start:stop] = xp.astype(total, left.dtype)
        n_missed += stop - start
    if out is not None:
        out[where] = left
    return Counted(sent.n_levels - n_missed, energy_of(left))


def keep_missed(
    left: Update, chosen: Update, places: Indices, missed: list[tuple[int, int]]
) -> tuple[Update, int]:
    """Return what stays of the chosen entries, and how many of them were counted.

    Args:
        left: What would stay of them if all were counted.
        chosen: The entries themselves.
        places: Where each stands in the sum, ascending.
        missed: ``(start, stop)`` ranges of places that closed without this client.
    """
    n_counted: int = places.shape[0]
    if not missed:
        return left, n_counted
    xp = array_namespace(left)
    is_missed = xp.zeros(places.shape[0], dtype=xp.bool, device=device(places))
    for start, stop in missed:
        is_missed = is_missed | ((places >= start) & (places < stop))
    n_counted -= int(xp.count_nonzero(is_missed))
    return xp.where(is_missed, chosen, left), n_counted


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
