"""Phase 2, client side: turn corrected entries into the switch's integers.

The paper's scale (Sec. IV-A, step 3) is f = (2^(b−1) − N) / (N·m): N levels of at most
f·m, each rounded up by less than one, sum to less than 2^(b−1). `Grid` adds the clamp
that makes this certain in floating point.
"""

from dataclasses import dataclass

import numpy as np
from array_api_compat import array_namespace, device

from fediac import native
from fediac.core.bitpack import (
    MAX_LANE_BITS,
    indices_of,
    n_packed_bytes,
    pack_lanes,
)
from fediac.core.chunks import chunks
from fediac.core.exact import block_sums, divide, tree_sum
from fediac.core.rng import Stream
from fediac.core.types import Array, Indices, Levels, Packed, Update
from fediac.errors import ArgumentError, say_count

MIN_PEAK = 2.0**-100
"""A peak below this counts as zero: its scale would exceed the range of floats."""


def level_limit(*, bits: int, n_clients: int) -> int:
    """Return the largest magnitude a client may send so that all fit in ``bits`` bits.

    ``n_clients`` levels of at most this size sum to less than ``2**(bits-1)``: the
    switch's registers cannot overflow, whatever the floats did before.
    """
    if n_clients < 1:
        raise ArgumentError("n_clients", f"must be at least 1, got {n_clients}")
    limit = ((1 << max(bits - 1, 0)) - 1) // n_clients
    if limit < 1:
        raise ArgumentError(
            "bits",
            f"must leave room for {say_count(n_clients, 'client')} "
            f"(at least {n_clients.bit_length() + 1}), got {bits}",
        )
    return limit


def check_lanes(*, bits: int, n_clients: int) -> None:
    """Raise unless a lane of ``bits`` bits can hold the levels of all clients."""
    if bits > MAX_LANE_BITS:
        rule = f"must be at most {MAX_LANE_BITS} (a lane), got {bits}"
        raise ArgumentError("bits", rule)
    level_limit(bits=bits, n_clients=n_clients)


@dataclass(frozen=True, slots=True)
class Grid:
    """The integers all clients round to in one exchange: scale f, limit and widths.

    Attributes:
        bits_up: Width of a lane that holds one client's level.
        bits_down: Width of a lane that holds the sum of all clients'.
    """

    scale: float
    limit: int
    bits_up: int
    bits_down: int

    @classmethod
    def of(
        cls, *, peak: float, bits: int, n_clients: int, bits_up: int | None = None
    ) -> "Grid":
        """Return the grid for the largest magnitude of all clients.

        Args:
            peak: That magnitude.
            bits: b, width of a lane of sums.
            n_clients: How many levels a sum has.
            bits_up: Width of a lane on its way up, see `fediac.core.widths`; None: b.

        Raises:
            ValueError: ``peak`` counts as zero, so there is nothing to send, or
                ``bits`` leaves no room for ``n_clients`` or is wider than a lane.
        """
        check_lanes(bits=bits, n_clients=n_clients)
        bits_up = bits if bits_up is None else bits_up
        if not 2 <= bits_up <= bits:
            raise ArgumentError(
                "bits_up", f"must be in 2..{bits} (bits), got {bits_up}"
            )
        if not MIN_PEAK <= peak < float("inf"):
            raise ArgumentError(
                "peak", f"must be finite and at least 2**-100, got {peak}"
            )
        limit = level_limit(bits=bits, n_clients=n_clients)
        scale = ((1 << (bits - 1)) - n_clients) / (n_clients * peak)
        most = (1 << (bits_up - 1)) - 1
        if most < limit:  # the way up is what limits a level
            limit, scale = most, most / peak
        return cls(scale=scale, limit=limit, bits_up=bits_up, bits_down=bits)


def float32_above(peak: float) -> float:
    """Return the smallest float32 that is not below ``peak``.

    Peaks travel as float32; rounding one down would put an entry above the agreed
    peak.
    """
    if not peak <= float(np.finfo(np.float32).max):
        raise ArgumentError("peak", f"must be in the range of float32, got {peak}")
    nearest = np.float32(peak)
    if float(nearest) < peak:
        nearest = np.nextafter(nearest, np.float32(np.inf))
    return float(nearest)


def energy_of(values: Update) -> float:
    """Return the sum of squares of ``values``, in the fixed order of ``sums``."""
    totals = _BlockTotals(values)
    for start, stop in chunks(values.shape[0], values):
        totals.add(values[start:stop])
    return totals.sum()


def stochastic_round(
    chosen: Update, indices: Indices, grid: Grid, stream: Stream
) -> Levels:
    """Return ``scale * chosen`` as neighbouring integers, unbiased within the limit.

    Rounding up has the probability of the fraction (eq. 1 of the paper). The product
    is taken in float64, so a level is exact to 32 bits for any update.

    Args:
        chosen: Entries to send.
        indices: Their entry numbers, which pick the random number of each.
        grid: Scale and limit.
        stream: Its purpose must be used for nothing else.
    """
    return _clamp(_round(chosen, indices, grid, stream), grid)


def _round(chosen: Update, indices: Indices, grid: Grid, stream: Stream) -> Array:
    """Return unbiased levels as float64: far above the peak no integer holds them."""
    xp = array_namespace(chosen)
    scaled = xp.astype(chosen, xp.float64) * grid.scale
    floor = xp.floor(scaled)
    rounds_up = stream.uniform_at(indices) < scaled - floor
    return floor + xp.astype(rounds_up, xp.float64)


def _clamp(levels: Array, grid: Grid) -> Levels:
    xp = array_namespace(levels)
    return xp.astype(xp.clip(levels, -grid.limit, grid.limit), xp.int64)


@dataclass(frozen=True, slots=True)
class Sent:
    """What one client sends in phase 2, and what it leaves behind.

    Attributes:
        lanes: Levels + limit as packed lanes, in the order of the set bits of gia.
        n_levels: How many there are.
        chosen_energy: ΣU² over the sent entries.
        left_energy: Σ(U − sent)² over the sent entries.
        n_clamped: Levels that were cut to the limit.
    """

    lanes: Packed
    n_levels: int
    chosen_energy: float
    left_energy: float
    n_clamped: int


def send_chosen(
    values: Update,
    gia: Packed | None,
    grid: Grid,
    stream: Stream,
    *,
    out: Update | None = None,
) -> Sent:
    """Return the lanes of the entries in ``gia`` (None: all), rounded and packed.

    Args:
        values: The corrected update.
        gia: Packed mask of the entries to send.
        grid: Scale, limit and width.
        stream: Its purpose must be used for nothing else.
        out: The next residual, holding ``values`` already (it may be ``values``
            itself); its chosen entries become U − sent. None: none is kept.
    """
    kernels = native.kernels_for(values, gia, out)
    if kernels is not None:
        return Sent(*kernels.send_chosen(values, gia, grid, stream, out))
    return _send_in_chunks(values, gia, grid, stream, out)


def _send_in_chunks(
    values: Update, gia: Packed | None, grid: Grid, stream: Stream, out: Update | None
) -> Sent:
    lanes = _LaneWriter(values, grid)
    chosen_energies, left_energies = _BlockTotals(values), _BlockTotals(values)
    xp, n_clamped = array_namespace(values), 0
    for start, stop in chunks(values.shape[0], values):
        indices = _chosen_between(values, gia, start, stop)
        chosen = values[indices]
        rounded = _round(chosen, indices, grid, stream)
        n_clamped += int(xp.count_nonzero(xp.abs(rounded) > grid.limit))
        levels = _clamp(rounded, grid)
        left = subtract_sent(chosen, levels, grid)
        if out is not None:
            out[indices] = left
        lanes.write(levels + grid.limit)
        chosen_energies.add(chosen)
        left_energies.add(left)
    energies = chosen_energies.sum(), left_energies.sum()
    return Sent(lanes.packed(), lanes.n_written, *energies, n_clamped)


def subtract_sent(chosen: Update, levels: Levels, grid: Grid) -> Update:
    """Return what the levels leave of the chosen entries, in the update's dtype."""
    xp = array_namespace(chosen)
    sent = divide(xp.astype(levels, xp.float64), grid.scale)
    return xp.astype(xp.astype(chosen, xp.float64) - sent, chosen.dtype)


def _chosen_between(
    values: Update, gia: Packed | None, start: int, stop: int
) -> Indices:
    xp = array_namespace(values)
    if gia is None:
        return xp.arange(start, stop, dtype=xp.int64, device=device(values))
    return start + indices_of(gia[start // 8 : n_packed_bytes(stop)], stop - start)


class _LaneWriter:
    """Packs lanes that come in pieces: a piece's last few wait for the next."""

    def __init__(self, like: Array, grid: Grid) -> None:
        xp = array_namespace(like)
        self.n_written = 0
        self._bits = grid.bits_up
        self._waiting = xp.zeros(0, dtype=xp.int64, device=device(like))
        self._packed: list[Packed] = []

    def write(self, lanes: Array) -> None:
        xp = array_namespace(lanes)
        self.n_written += lanes.shape[0]
        lanes = xp.concat([self._waiting, lanes])
        n_whole = lanes.shape[0] // 8 * 8
        self._packed.append(pack_lanes(lanes[:n_whole], self._bits))
        self._waiting = lanes[n_whole:]

    def packed(self) -> Packed:
        xp = array_namespace(self._waiting)
        return xp.concat([*self._packed, pack_lanes(self._waiting, self._bits)])


class _BlockTotals:
    """The tree sum of squares of values that come in pieces."""

    def __init__(self, like: Array) -> None:
        xp = array_namespace(like)
        self._waiting = xp.zeros(0, dtype=xp.float64, device=device(like))
        self._sums: list[Array] = []

    def add(self, values: Array) -> None:
        xp = array_namespace(values)
        squares = xp.astype(values, xp.float64) * xp.astype(values, xp.float64)
        squares = xp.concat([self._waiting, squares])
        n_whole = squares.shape[0] // 4096 * 4096
        self._sums.append(block_sums(squares[:n_whole]))
        self._waiting = squares[n_whole:]

    def sum(self) -> float:
        xp = array_namespace(self._waiting)
        return tree_sum(xp.concat([*self._sums, block_sums(self._waiting)]))
