"""What was sent but not counted goes back to the residual: nothing is lost."""

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
