"""Numbers as text."""

import pytest

from fediac.console import count
from fediac.number_words import (
    brief,
    digits,
    join,
    mib,
    percent,
    rough_percent,
    seconds,
    span,
    tick,
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, "0"),
        (0.001234, "0.001234"),
        (1.5, "1.500"),
        (639.42, "639.4"),
        (1234.5, "1,234"),
        (11_173_962.0, "11,173,962"),
    ],
)
def test_digits_are_four_or_all_whole_ones(value: float, expected: str) -> None:
    assert digits(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.0, "0"), (1e-7, "< 0.001"), (0.0411, "0.041"), (2.0, "2.00"), (755.4, "755")],
)
def test_brief_fits_a_narrow_column(value: float, expected: str) -> None:
    assert brief(value) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((3.1, 2.5, 2.6), "2.500 to 3.100 s"),
        ((2.5, 2.5), "2.500 s"),
        ((2.5,), "2.500 s"),
    ],
)
def test_span_names_the_unit_once(values: tuple[float, ...], expected: str) -> None:
    assert span(values, seconds) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.0, "0 MiB"), (0.5, "0.5000 MiB"), (123_456.7, "123,457 MiB")],
)
def test_mebibytes_show_four_digits(value: float, expected: str) -> None:
    assert mib(value) == expected


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0826, "8.26 %"), (1.0, "100 %"), (4.2e-6, "0.00042 %")]
)
def test_rough_percent_has_three_digits(share: float, expected: str) -> None:
    assert rough_percent(share) == expected


def test_percent_is_as_short_as_it_can_be() -> None:
    assert [percent(each) for each in (0.63, 0.6312, 1.0)] == [
        "63 %",
        "63.12 %",
        "100 %",
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, "0"),
        (0.25, "0.25"),
        (0.30000000000000004, "0.3"),
        (5000.0, "5,000"),
        (15_000.0, "15 k"),
        (2.5e6, "2.5 M"),
        (4e9, "4 G"),
    ],
)
def test_ticks_are_short(value: float, expected: str) -> None:
    assert tick(value, is_percent=False) == expected


def test_percent_ticks_have_no_stray_digits() -> None:
    assert tick(0.7 * 0.1 * 10, is_percent=True) == "70 %"


def test_words_are_joined_as_in_a_sentence() -> None:
    assert [join(each) for each in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]
    assert join(["a", "b", "c"], "or") == "a, b or c"
    assert (count(1, "run"), count(1200, "run")) == ("1 run", "1,200 runs")
