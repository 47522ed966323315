"""Parsing of counts, shares and lists of counts as users write them."""

import math
import re
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

from fediac.errors import ArgumentError

Share: TypeAlias = int | str
"""A count, or a share such as "5%" of a whole."""


_DIGITS = r"(?:[0-9]{1,3}(?:_[0-9]{3})+|[0-9]+)"
_COUNT = re.compile(rf"{_DIGITS}(\.[0-9]+)?(e\+?[0-9]{{1,2}})?", re.IGNORECASE)
_NUMBER = re.compile(
    rf"[+-]?(?:(?:{_DIGITS}\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|nan)", re.IGNORECASE
)
_SHARE = re.compile(r"([0-9]+(\.[0-9]+)?) ?%")
_UNITS = {
    "B": 1,
    **{f"{letter}B": 1000**power for power, letter in enumerate("kMG", 1)},
    **{f"{letter}iB": 1024**power for power, letter in enumerate("KMG", 1)},
}
_SIZE = re.compile(rf"([0-9]{{1,15}}(?:\.[0-9]{{1,9}})?) ?({'|'.join(_UNITS)})?")
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?")

MAX_COUNT = 2**64 - 1
"""The largest count of anything, seeds included; more is taken for a typing error."""

MAX_LISTED = 10_000
"""Most counts in one range of a list; more is taken for a typing error."""


def parse_count(text: str, *, name: str, at_least: int = 0) -> int:
    """Return a whole number written like 11173962, 11_173_962 or 1e9.

    Args:
        text: What was written.
        name: What to call it in an error.
        at_least: The smallest that is allowed.
    """
    written = text.strip()
    number = _whole_number(written.removeprefix("-"))
    if number is None:
        raise ArgumentError(
            name, f"must be a whole number, got {text!r}{_hint_groups(text)}"
        )
    number = -number if written.startswith("-") else number
    if number < at_least:
        raise ArgumentError(name, f"must be at least {at_least}, got {written}")
    if number > MAX_COUNT:
        raise ArgumentError(name, f"must be below 2**64, got {written}")
    return number


def parse_bytes(text: str, *, name: str) -> int:
    """Return a size written like 1048576, 1MiB, 64 KiB or 1.5GB; at least one byte.

    Args:
        text: What was written.
        name: What to call it in an error.
    """
    size = _SIZE.fullmatch(text.strip())
    n_bytes = Decimal(size[1]) * _UNITS[size[2] or "B"] if size else Decimal(0)
    if n_bytes < 1 or n_bytes != n_bytes.to_integral_value():
        raise ArgumentError(
            name, f"must be a size such as 1MiB, 64KiB or 500000, got {text!r}"
        )
    return int(n_bytes)


def parse_number(text: str, *, name: str) -> float:
    """Return a number written like 0.32, -0.5 or 1e-3; its range is not checked.

    Args:
        text: What was written.
        name: What to call it in an error.
    """
    written = text.strip()
    if not _NUMBER.fullmatch(written):
        raise ArgumentError(name, f"must be a number, got {text!r}{_hint_groups(text)}")
    return float(written)


def parse_share(text: Share, *, of: int, name: str) -> int:
    """Return a count that was given as a number or as a share like ``5%``, rounded up.

    Args:
        text: What was written; an integer, as TOML has it, is returned as it is.
        of: What 100 % is.
        name: What to call the setting in an error.
    """
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    written = str(text).strip()
    share = _SHARE.fullmatch(written)
    if share is None:
        number = _whole_number(written)
        if number is None or isinstance(text, bool):
            raise ArgumentError(
                name,
                "must be a whole number or a share such as 5%, "
                f"got {text!r}{_hint_groups(str(text))}",
            )
        return number
    percent = Fraction(share[1])
    if not 0 < percent <= 100:
        raise ArgumentError(name, f"must be above 0% and at most 100%, got {text!r}")
    return math.ceil(percent * of / 100)


def parse_portion(value: object, *, name: str) -> float:
    """Return a part of 1 that was given as a number, 0.95, or as a share, ``95%``.

    Args:
        value: What was written.
        name: What to call the setting in an error.
    """
    portion = math.nan
    if isinstance(value, str):
        written = value.strip()
        share = _SHARE.fullmatch(written)
        if share:
            portion = float(Fraction(share[1]) / 100)
        elif _NUMBER.fullmatch(written):
            portion = float(written)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        portion = float(value)
    if not 0.0 < portion <= 1.0:
        raise ArgumentError(
            name,
            f'must be above 0 and at most 1, or a share such as "95%", got {value!r}',
        )
    return portion


def parse_counts(text: str, *, name: str) -> list[int]:
    """Return the counts in a list of numbers and ranges: ``1-4``, ``1,3,6-8``.

    Each count appears once, in ascending order.
    """
    counts: set[int] = set()
    for part in text.split(","):
        found = _RANGE.fullmatch(part.strip())
        first = int(found[1]) if found else 1
        last = int(found[2] or found[1]) if found else 0
        if first > last:
            raise ArgumentError(
                name,
                f"must be a range such as 1-4 or a list such as 1,2,4, got {text!r}",
            )
        if last - first >= MAX_LISTED:
            raise ArgumentError(
                name, f"must name at most {MAX_LISTED:,} in a range, got {text!r}"
            )
        if last > MAX_COUNT:
            raise ArgumentError(name, f"must be below 2**64, got {last}")
        counts.update(range(first, last + 1))
    return sorted(counts)


def _hint_groups(text: str) -> str:
    """Return a hint about underscores, if the text is a number with wrong ones."""
    is_number = re.fullmatch(r"[0-9._e%+-]*_[0-9._e%+-]*", text.strip(), re.IGNORECASE)
    return "; write underscores between thousands only: 1_000" if is_number else ""


def _whole_number(written: str) -> int | None:
    if not _COUNT.fullmatch(written):
        return None
    number = Decimal(written)
    return int(number) if number == int(number) else None
