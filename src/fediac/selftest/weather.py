"""How bad the network is, and what that does to each datagram."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Generic, TypeVar

import numpy as np

from fediac.core.rng import Stream
from fediac.errors import ArgumentError

T = TypeVar("T")

_DRAWS = 4096
"""Uniform numbers that are drawn together."""

_SHORTEST_S, _LONGEST_S = 0.0005, 0.005
"""How long a datagram is held back that others shall overtake."""


@dataclass(frozen=True, slots=True)
class Weather:
    """Shares of datagrams to which something happens, each way.

    Attributes:
        loss: They never arrive.
        reorder: They arrive later, behind others.
        duplicate: They arrive twice.
        corrupt: One bit of them is another, or their end is missing.
    """

    loss: float = 0.0
    reorder: float = 0.0
    duplicate: float = 0.0
    corrupt: float = 0.0

    def __post_init__(self) -> None:
        for each in fields(self):
            share = getattr(self, each.name)
            if not 0 <= share < 1:
                raise ArgumentError(
                    each.name, f"must be at least 0 and below 1, got {share:g}"
                )


class Faults:
    """Decides what happens to one datagram after the other.

    Args:
        weather: How often.
        seed: The same seed decides the same for the same order of datagrams.

    Attributes:
        counts: What happened how often, by the names of `Weather`; and ``passed``.
    """

    def __init__(self, weather: Weather, seed: int) -> None:
        self.weather = weather
        self.counts = dict.fromkeys((each.name for each in fields(weather)), 0)
        self.counts["passed"] = 0
        self._stream = Stream(seed, 0, 0, "faults of a relay")
        self._n_drawn = 0
        self._drawn: list[float] = []

    def _draw(self) -> float:
        if not self._drawn:
            places = np.arange(self._n_drawn, self._n_drawn + _DRAWS)
            self._n_drawn += _DRAWS
            self._drawn = self._stream.uniform_at(places).tolist()[::-1]
        return self._drawn.pop()

    def _happens(self, name: str) -> bool:
        happens: bool = self._draw() < getattr(self.weather, name)
        self.counts[name] += happens
        return happens

    def befall(self, data: bytes) -> Iterator[tuple[float, bytes]]:
        """Yield what arrives of a datagram: after how many seconds, and what."""
        self.counts["passed"] += 1
        if self._happens("loss"):
            return
        for _ in range(1 + self._happens("duplicate")):
            arriving = self._damage(data) if self._happens("corrupt") else data
            delay_s = 0.0
            if self._happens("reorder"):
                delay_s = _SHORTEST_S + self._draw() * (_LONGEST_S - _SHORTEST_S)
            yield delay_s, arriving

    def _damage(self, data: bytes) -> bytes:
        """Return other bytes: a bit is wrong, or the end is missing."""
        if not data:
            return data
        place = int(self._draw() * len(data))
        if self._draw() < 0.25:
            return data[:place]
        changed = bytearray(data)
        changed[place] ^= 1 << int(self._draw() * 8)
        return bytes(changed)


class Held(Generic[T]):
    """Things that are held back until their time has come."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, T]] = []
        self._n_held = 0

    def hold(self, until_s: float, what: T) -> None:
        """Keep something until a time."""
        self._n_held += 1
        heapq.heappush(self._heap, (until_s, self._n_held, what))

    @property
    def due_s(self) -> float | None:
        """When the first of them is to go; None: there are none."""
        return self._heap[0][0] if self._heap else None

    def take(self, now_s: float) -> Iterator[T]:
        """Yield those whose time has come."""
        while self._heap and self._heap[0][0] <= now_s:
            yield heapq.heappop(self._heap)[2]
