"""How fast a client may send: packets per second, second by second.

Arrivals of a Poisson process whose rate changes are those of a process of rate 1, on a
clock that runs as fast as the rate. A table holds that clock's reading at every second
of the trace; between seconds it is linear.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fediac.core.rng import Stream, to_unit
from fediac.errors import ArgumentError
from fediac.sim.clock import PS_PER_S
from fediac.sim.draws import UNIT, Ints

Floats: TypeAlias = NDArray[np.float64]

PAPER_RATES = (200.0, 2800.0)
"""Lowest and highest packets per second of the paper's clients (Sec. V-A)."""

MAX_PACKETS = 1 << 29
"""Most packets in one pass through a trace, so that its table fits 64 bits."""


@dataclass(frozen=True, slots=True, eq=False)
class Rates:
    """Packets per second in each second of a trace, which repeats at its end.

    Attributes:
        per_second: The rates; a second of rate 0 is silence.
        totals: Packets allowed before each second, and in all, in 2**-32 packets.
        ps_per_unit: Picoseconds that 2**-32 packets take in each second, or 0.
        units_per_ps: Its inverse.
    """

    per_second: Floats
    totals: Ints = field(init=False, repr=False)
    ps_per_unit: Floats = field(init=False, repr=False)
    units_per_ps: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        rates = check_rates(self.per_second)
        units = np.rint(rates * UNIT).astype(np.int64)
        if not units.any():
            raise ArgumentError(
                "rates",
                f"must not all be below {1 / UNIT:g} packets/s, "
                f"got at most {rates.max():g}",
            )
        totals = np.concatenate([np.zeros(1, np.int64), np.cumsum(units)])
        speeds = units.astype(np.float64)
        with np.errstate(divide="ignore"):
            slowness = np.where(units > 0, PS_PER_S / speeds, 0.0)
        for name, value in (
            ("per_second", rates),
            ("totals", totals),
            ("ps_per_unit", slowness),
            ("units_per_ps", speeds / PS_PER_S),
        ):
            object.__setattr__(self, name, value)

    @property
    def n_seconds(self) -> int:
        """Length of the trace in seconds."""
        return len(self.per_second)

    @property
    def mean(self) -> float:
        """Packets a second over the whole trace."""
        return float(self.per_second.mean())

    def clipped(self, lowest: float, highest: float) -> "Rates":
        """Return the same trace with every rate moved into ``lowest..highest``."""
        return Rates(np.clip(self.per_second, lowest, highest))


def check_rates(rates: ArrayLike) -> Floats:
    """Return rates as float64, if they are valid as a trace.

    Raises:
        ValueError: There are none, or one is negative, not finite, or too high.
    """
    found = np.array(rates, dtype=np.float64)
    if found.ndim != 1 or not found.size:
        raise ArgumentError("rates", "must be a list of at least 1 number")
    bad = np.flatnonzero(~np.isfinite(found) | (found < 0.0))
    if bad.size:
        raise ArgumentError(
            "rates",
            f"must be finite and at least 0, got {found[bad[0]]} in second {bad[0]}",
        )
    if not found.any():
        raise ArgumentError("rates", "must not all be 0: nothing would ever be sent")
    if found.sum() > MAX_PACKETS:
        raise ArgumentError(
            "rates",
            f"must add up to at most {MAX_PACKETS} packets, got {found.sum():g}",
        )
    return found


@dataclass(frozen=True, slots=True)
class Uplink:
    """One client's link to the switch: a trace, and where in it the client begins."""

    rates: Rates
    offset_s: int = 0

    def __post_init__(self) -> None:
        if self.offset_s < 0:
            raise ArgumentError("offset_s", f"must be at least 0, got {self.offset_s}")


def constant_uplinks(n_clients: int, rate: float) -> tuple[Uplink, ...]:
    """Return uplinks that all send ``rate`` packets a second."""
    check_n_clients(n_clients)
    return (Uplink(Rates(np.array([rate]))),) * n_clients


def uniform_uplinks(
    n_clients: int,
    lowest: float = PAPER_RATES[0],
    highest: float = PAPER_RATES[1],
    *,
    seed: int,
) -> tuple[Uplink, ...]:
    """Return uplinks with constant rates, each drawn uniformly."""
    check_n_clients(n_clients)
    if not 0.0 < lowest <= highest < math.inf:
        raise ValueError(
            "uniform rates must have 0 < lowest <= highest, "
            f"got lowest={lowest} and highest={highest}"
        )
    shares = to_unit(_words("sim rates", n_clients, seed))
    rates = lowest + (highest - lowest) * shares
    return tuple(Uplink(Rates(np.array([rate]))) for rate in rates)


def trace_uplinks(
    n_clients: int, traces: Sequence[Rates], *, seed: int
) -> tuple[Uplink, ...]:
    """Return uplinks: client i follows trace i mod n, from a start of its own."""
    check_n_clients(n_clients)
    if not traces:
        raise ArgumentError("traces", "must hold at least 1 trace")
    words = _words("sim offsets", n_clients, seed).tolist()
    chosen = [traces[client % len(traces)] for client in range(n_clients)]
    return tuple(
        Uplink(rates, word * rates.n_seconds >> 32)
        for rates, word in zip(chosen, words, strict=True)
    )


def check_n_clients(n_clients: int) -> None:
    """Raise unless there is a client."""
    if n_clients < 1:
        raise ArgumentError("n_clients", f"must be at least 1, got {n_clients}")


def _words(purpose: str, n_words: int, seed: int) -> Ints:
    words: Ints = Stream(seed, 0, 0, purpose).words(0, n_words, like=np.zeros(0))
    return words
