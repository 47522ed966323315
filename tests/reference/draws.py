"""The random numbers of the event-by-event simulator: words, exponentials, traces."""

import math

import numpy as np

from fediac.core.rng import Stream
from fediac.sim import Service, Uplink

PS = 10**12


def exponential(word: int) -> int:
    """−ln((word + ½) / 2**32) in units of 2**-32, in the package's order of steps."""
    m, k = math.frexp(word + 0.5)
    if m < 0.7071067811865476:
        m, k = 2.0 * m, k - 1
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    series = 2.0 / 15.0
    for odd in (13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0):
        series = 2.0 / odd + z * series
    return round(((32.0 - k) * 0.6931471805599453 - s * series) * 2.0**32)


class Numbers:
    """One number after another from a stream."""

    def __init__(self, stream: Stream, service: Service | None = None) -> None:
        self.stream, self.service = stream, service
        self.n_drawn = 0

    def draw(self) -> int:
        word = int(self.stream.words_at(np.array([self.n_drawn]))[0])
        self.n_drawn += 1
        if self.service is None:
            return exponential(word)
        left = int(self.service.table[word >> 16])
        right = int(self.service.table[(word >> 16) + 1])
        return left + ((right - left) * (2 * (word & 0xFFFF) + 1) >> 17)


class Trace:
    """Walks through the seconds of an uplink; never looks at a table of sums."""

    def __init__(self, uplink: Uplink, origin_ps: int) -> None:
        self.units = [round(float(rate) * 2**32) for rate in uplink.rates.per_second]
        self.second_began = -((origin_ps + uplink.offset_s * PS) % PS)
        self.second = (origin_ps + uplink.offset_s * PS) // PS
        self.inside = 0

    @property
    def rate(self) -> int:
        return self.units[self.second % len(self.units)]

    def next_second(self) -> None:
        self.second += 1
        self.second_began += PS

    def begin(self, now: int) -> None:
        while now >= self.second_began + PS:
            self.next_second()
        self.inside = int(float(now - self.second_began) * (self.rate / PS))

    def advance(self, gap: int) -> int:
        self.inside += gap
        while self.inside >= self.rate:
            self.inside -= self.rate
            self.next_second()
        return self.second_began + int(float(self.inside) * (PS / self.rate))
