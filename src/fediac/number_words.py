"""Numbers as a reader sees them, the same on terminals and in every kind of report."""

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean

NOTHING = "\u2013"
TIMES = "\u00d7"
GAMMA = "\u03b3"
"""Signs that are easily taken for others, so they are written by their number."""


def digits(value: float) -> str:
    """Return a number with four digits that matter, or all whole ones."""
    if value == 0.0:
        return "0"
    n_decimals = max(0, 3 - math.floor(math.log10(abs(value))))
    return f"{value:,.{n_decimals}f}"


def brief(value: float) -> str:
    """Return a number in few digits, for a narrow column beside a drawing."""
    if value < 0.001:
        return "< 0.001" if value > 0.0 else "0"
    n_decimals = min(3, max(0, 2 - math.floor(math.log10(value))))
    return f"{value:,.{n_decimals}f}"


def mib(value: float) -> str:
    """Return MiB with their unit."""
    return f"{digits(value)} MiB"


def seconds(value: float) -> str:
    """Return seconds with their unit."""
    return f"{digits(value)} s"


def percent(share: float) -> str:
    """Return a share of 1 in percent, as short as two decimals allow."""
    return f"{round(100.0 * share, 2):g} %"


def exact_percent(share: float) -> str:
    """Return a share of 1 in percent with two decimals, for columns."""
    return f"{100.0 * share:.2f} %"


def rough_percent(share: float) -> str:
    """Return a share of 1 in percent, three digits that matter."""
    return f"{100.0 * share:.3g} %"


def about_percent(share: float) -> str:
    """Return a share of 1 in whole percent, or as two digits of less than one."""
    if share >= 0.01:
        return f"{100.0 * share:.0f} %"
    return f"{100.0 * share:.2g} %"


def whole(value: float) -> str:
    """Return a count with its thousands set apart."""
    return f"{value:,.0f}"


def mean_count(value: float) -> str:
    """Return a mean of counts: a whole one, or three digits that matter."""
    return whole(value) if value == int(value) else f"{value:,.3g}"


def span(values: Iterable[float], write: Callable[[float], str]) -> str:
    """Return the least and the largest value with their unit: ``2.5 to 3.1 s``.

    Args:
        values: At least one.
        write: Writes a value and its unit, if any.
    """
    numbers = tuple(values)
    low, high = write(min(numbers)), write(max(numbers))
    return high if low == high else f"{low.partition(' ')[0]} to {high}"


def mean_and_range(values: Sequence[float], write: Callable[[float], str]) -> str:
    """Return one number, or the mean and the range of several: ``2 (1 to 3)``."""
    if len(set(values)) == 1:
        return write(values[0])
    return f"{write(fmean(values))} ({span(values, write)})"


def join(words: Sequence[str], last: str = "and") -> str:
    """Return words as a list in a sentence: ``a, b and c``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def tick(value: float, *, is_percent: bool) -> str:
    """Return the short text of a place on an axis; the page's script has a twin."""
    if is_percent:
        return f"{100.0 * value:.6g} %"
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e4, "")):
        if abs(value) >= size:
            unit = 1e3 if size == 1e4 else size
            return f"{value / unit:,.6g}{letter or ' k'}"
    return f"{value:,.6g}"
