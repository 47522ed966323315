"""Numbers -> places on an axis, with round ticks; the page's script has a twin."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

N_TICKS = 6
STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
LOG_STEPS = (1.0, 2.0, 5.0)
MAX_POWERS = 8
LOG_SPAN = 20.0
"""Values further apart than this factor are drawn on a logarithmic axis."""


@dataclass(frozen=True, slots=True)
class Scale:
    """A range of numbers and the ticks in it."""

    low: float
    high: float
    ticks: tuple[float, ...]
    is_log: bool = False

    def share(self, value: float) -> float:
        """Return where ``value`` lies: 0 at ``low``, 1 at ``high``."""
        low, high = self.low, self.high
        if self.is_log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return (value - low) / (high - low)


def fit_from_zero(values: Iterable[float]) -> Scale:
    """Return a linear scale from 0 to the largest value, which need not be a tick."""
    high = max((*values, 0.0)) or 1.0
    step = _step(high)
    return Scale(0.0, high, _ticks(0.0, high, step))


def fit(values: Iterable[float]) -> Scale:
    """Return a linear scale that begins and ends at ticks around all values."""
    numbers = tuple(values) or (0.0, 1.0)
    low, high = min(numbers), max(numbers)
    if low == high:
        low, high = (
            (low - 0.1 * abs(low), high + 0.1 * abs(high)) if low else (0.0, 1.0)
        )
    step = _step(high - low)
    low = math.floor(low / step + 1e-9) * step
    high = math.ceil(high / step - 1e-9) * step
    return Scale(low, high, _ticks(low, high, step))


def fit_log(values: Iterable[float]) -> Scale:
    """Return a logarithmic scale from the least to the largest value, all above 0."""
    numbers = tuple(values)
    low, high = min(numbers), max(numbers)
    if math.log(low) == math.log(high):  # equal, or as good as that
        low, high = low / 2.0, high * 2.0
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    powers = range(first, last + 1, -(-(last - first) // MAX_POWERS) or 1)
    steps = (1.0,) if high / low >= 1e3 else LOG_STEPS
    ticks = (step * 10.0**power for power in powers for step in steps)
    inside = tuple(each for each in ticks if low <= each <= high)
    if len(inside) < 2:
        inside = _ticks(low, high, _step(high - low))
    return Scale(low, high, inside, is_log=True)


def wants_log(values: Iterable[float]) -> bool:
    """Return whether values are too far apart to read on a linear axis."""
    numbers = tuple(values)
    return (
        bool(numbers) and min(numbers) > 0.0 and max(numbers) > LOG_SPAN * min(numbers)
    )


def _step(span: float) -> float:
    """Return the round number that divides ``span`` into about `N_TICKS` parts."""
    rough = span / N_TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    return next(each * power for each in STEPS if rough <= each * power * (1.0 + 1e-9))


def _ticks(low: float, high: float, step: float) -> tuple[float, ...]:
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return tuple(number * step for number in range(first, last + 1))
