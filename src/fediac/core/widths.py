"""How wide lanes are: one width both ways, or narrow lanes up and wide ones down.

A client's level lies in ±limit; the sum of N clients' levels needs about log2(N) bits
more. The paper sends both in lanes of the sum's width b. Clients that send their levels
in lanes of their own width send the same numbers in fewer bits, and get the same sums.
"""

from typing import Literal, TypeAlias, get_args

from fediac.core.bitpack import MAX_LANE_BITS
from fediac.core.quantize import Grid, check_lanes, level_limit
from fediac.errors import ArgumentError

Widths: TypeAlias = tuple[int, int]
"""Bits of a lane on its way up and down."""

Lanes = Literal["same", "dense", "words"]
"""How wide lanes are, given the width b of the sums.

* ``same``: b bits up and down, as in the paper.
* ``dense``: b bits down, and up as few as tell all levels apart.
* ``words``: both rounded up to lanes that never cross a 32-bit word, so that a switch
  adds them word by word; levels take what room that leaves them.
"""
LANES: tuple[Lanes, ...] = get_args(Lanes)

_WORDS = ((4, 8), (4, 16), (8, 16), (16, 32), (32, 32))


def check_rule(lanes: object) -> None:
    """Raise unless ``lanes`` is one of `LANES`."""
    if not isinstance(lanes, str) or lanes not in LANES:
        raise ArgumentError(
            "lanes", f"must be one of {', '.join(LANES)}, got {lanes!r}"
        )


def lane_widths(*, bits: int, n_clients: int, lanes: Lanes) -> Widths:
    """Return the widths of a lane up and down for sums that need ``bits`` bits."""
    check_lanes(bits=bits, n_clients=n_clients)
    if lanes == "same":
        return bits, bits
    limit = level_limit(bits=bits, n_clients=n_clients)
    bits_up = (2 * limit).bit_length()
    if lanes == "dense":
        return bits_up, bits
    return next((up, down) for up, down in _WORDS if up >= bits_up and down >= bits)


def fewest_bits(*, n_clients: int, limit: int) -> int:
    """Return the width of the narrowest sums whose levels may be as large as ``limit``.

    It is the least whose `level_limit` for so many clients is not below that.
    """
    return (n_clients * limit).bit_length() + 1


def every_widths(*, n_clients: int, lanes: Lanes) -> tuple[Widths, ...]:
    """Return all widths that lanes may have, whatever clients agree on."""
    least = n_clients.bit_length() + 1
    found = (
        lane_widths(bits=bits, n_clients=n_clients, lanes=lanes)
        for bits in range(least, MAX_LANE_BITS + 1)
    )
    return tuple(dict.fromkeys(found))


def make_grid(*, peak: float, bits: int, n_clients: int, lanes: Lanes) -> Grid:
    """Return the grid of levels for sums that need ``bits`` bits; see `Grid.of`."""
    bits_up, bits_down = lane_widths(bits=bits, n_clients=n_clients, lanes=lanes)
    return Grid.of(peak=peak, bits=bits_down, n_clients=n_clients, bits_up=bits_up)


def next_width(*, bits: int, n_clients: int, lanes: Lanes) -> int:
    """Return the least width whose lanes are wider than those of ``bits``.

    There may be none: then ``bits`` itself.
    """
    widths = lane_widths(bits=bits, n_clients=n_clients, lanes=lanes)
    for wider in range(bits + 1, MAX_LANE_BITS + 1):
        if lane_widths(bits=wider, n_clients=n_clients, lanes=lanes) != widths:
            return wider
    return bits
