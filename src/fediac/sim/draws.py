"""Random numbers of the simulator: exponentials and service times from a stream.

Both are integers, so sums of them are exact and no result depends on how a round is cut
into chunks. Each is made by single IEEE operations in a fixed order, so that the C
kernels (native/src/sim_draws.c) get the same bits.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fediac.core.rng import Stream

Ints: TypeAlias = NDArray[np.int64]

UNIT = 1 << 32
"""Exponentials are counted in 2**-32 of their mean."""

_N_AHEAD = 256
_LN_2 = 0.6931471805599453
_SQRT_HALF = 0.7071067811865476
_SERIES = tuple(2.0 / odd for odd in (15, 13, 11, 9, 7, 5, 3, 1))


def exponentials(words: Ints) -> Ints:
    """Return −ln(u) in units of 2**-32, for u = (word + ½) / 2**32.

    word + ½ is m·2^k with m in √½..√2, and ln m = 2·atanh(s) for s = (m − 1)/(m + 1).
    |s| is below 0.172, so the first term of the series that is left out, 2s¹⁷/17, is
    below 2**-46.
    """
    mantissa, exponent = np.frexp(words.astype(np.float64) + 0.5)
    is_low = (mantissa < _SQRT_HALF).astype(np.float64)
    mantissa = mantissa * (1.0 + is_low)
    power = exponent.astype(np.float64) - is_low
    s = (mantissa - 1.0) / (mantissa + 1.0)
    z = s * s
    series = np.full_like(s, _SERIES[0])
    for coefficient in _SERIES[1:]:
        series = coefficient + z * series
    value = (32.0 - power) * _LN_2 - s * series
    return np.rint(value * float(UNIT)).astype(np.int64)


def service_times(table: Ints, words: Ints) -> Ints:
    """Return the quantile of each word, in picoseconds.

    Args:
        table: Quantiles at multiples of 2**-16, see `fediac.sim.service`.
        words: The upper half of a word picks a cell of the table, the lower half one
            of 2**16 places in it.
    """
    cell, part = words >> 16, words & 0xFFFF
    left = table[cell]
    return np.asarray(left + ((table[cell + 1] - left) * (2 * part + 1) >> 17))


class Draws:
    """Numbers drawn from a stream in order.

    Args:
        stream: Where they come from.
        table: For service times; without it they are exponentials.
        start: Number of the first one in the stream.
    """

    def __init__(
        self, stream: Stream, *, table: Ints | None = None, start: int = 0
    ) -> None:
        self.stream = stream
        self.table = table
        self.next = start
        self._ahead: list[int] = []
        self._ahead_from = start

    def take(self, n_numbers: int) -> Ints:
        """Return the next ``n_numbers``."""
        numbers = self._make(self.next, n_numbers)
        self.next += n_numbers
        return numbers

    def one(self) -> int:
        """Return the next number; some are drawn in advance."""
        place = self.next - self._ahead_from
        if not 0 <= place < len(self._ahead):
            self._ahead = self._make(self.next, _N_AHEAD).tolist()
            self._ahead_from, place = self.next, 0
        self.next += 1
        return self._ahead[place]

    def _make(self, start: int, n_numbers: int) -> Ints:
        words: Ints = self.stream.words(start, start + n_numbers, like=np.zeros(0))
        if self.table is None:
            return exponentials(words)
        return service_times(self.table, words)
