import math

import pytest

from fediac.core.shares import (
    parse_bytes,
    parse_count,
    parse_counts,
    parse_number,
    parse_portion,
    parse_share,
)
from tests.support import refuses


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("11173962", 11_173_962),
        ("11_173_962", 11_173_962),
        ("1e9", 10**9),
        ("1.5E+3", 1500),
        (" 7 ", 7),
        ("12.0", 12),
    ],
)
def test_counts_are_read_as_people_write_them(text: str, count: int) -> None:
    assert parse_count(text, name="dim") == count


@pytest.mark.parametrize(
    "text", ["", "1.5", "--3", "abc", "1e-3", "nan", "1e999", "5%"]
)
def test_what_is_no_count_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^dim must") as caught:
        parse_count(text, name="dim")
    assert str(caught.value) == f"dim must be a whole number, got {text!r}"


GROUPS = "; write underscores between thousands only: 1_000"


@pytest.mark.parametrize("text", ["1_0_0__0", "1_000_", "1000_000", "1_00", "5_0e3"])
def test_underscores_stand_between_thousands(text: str) -> None:
    with refuses(f"dim must be a whole number, got {text!r}{GROUPS}"):
        parse_count(text, name="dim")
    with refuses(
        f"votes must be a whole number or a share such as 5%, got {text!r}{GROUPS}"
    ):
        parse_share(text, of=100, name="votes")
    with refuses(f"phi must be a number, got {text!r}{GROUPS}"):
        parse_number(text, name="phi")


def test_other_words_with_underscores_get_no_hint() -> None:
    with refuses("dim must be a whole number, got 'some_more'"):
        parse_count("some_more", name="dim")


@pytest.mark.parametrize(("text", "least"), [("-3", 0), ("0", 1), ("19", 20)])
def test_counts_have_a_smallest(text: str, least: int) -> None:
    with refuses(f"--rounds must be at least {least}, got {text}"):
        parse_count(text, name="--rounds", at_least=least)
    assert parse_count(str(least), name="--rounds", at_least=least) == least


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0.32", 0.32),
        ("-5e-1", -0.5),
        ("7", 7.0),
        (" .5", 0.5),
        ("5.", 5.0),
        ("+1_000.5", 1000.5),
        ("inf", math.inf),
    ],
)
def test_numbers_are_read_as_people_write_them(text: str, number: float) -> None:
    assert parse_number(text, name="--phi") == number


@pytest.mark.parametrize(
    "text", ["small", "", "\u0660.5", "infinity", "0x10", "1e", "."]
)
def test_what_is_no_number_is_refused(text: str) -> None:
    with refuses(f"--phi must be a number, got {text!r}"):
        parse_number(text, name="--phi")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("5%", 558_699),  # 558,698.1 rounded up
        ("0.5 %", 55_870),
        ("100%", 11_173_962),
        ("0.00000001%", 1),
        ("42", 42),
        (42, 42),
    ],
)
def test_shares_round_up(text: str | int, count: int) -> None:
    assert parse_share(text, of=11_173_962, name="votes") == count


def test_a_share_that_is_whole_stays_whole() -> None:
    # In binary floating point 0.07 * 100 is above 7.
    assert parse_share("7%", of=100, name="votes") == 7


@pytest.mark.parametrize("text", ["", "%", "five", "-5%", "1e1%", "5 percent", True])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^votes must") as caught:
        parse_share(text, of=100, name="votes")
    assert str(caught.value) == (
        f"votes must be a whole number or a share such as 5%, got {text!r}"
    )


@pytest.mark.parametrize("text", ["0%", "101%"])
def test_a_share_beyond_the_whole_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^votes must") as caught:
        parse_share(text, of=100, name="votes")
    assert str(caught.value) == f"votes must be above 0% and at most 100%, got {text!r}"


@pytest.mark.parametrize(
    ("text", "counts"),
    [("3", [3]), ("1-4", [1, 2, 3, 4]), ("4,1, 2", [1, 2, 4]), ("6-7,1", [1, 6, 7])],
)
def test_lists_may_hold_numbers_and_ranges(text: str, counts: list[int]) -> None:
    assert parse_counts(text, name="thresholds") == counts


@pytest.mark.parametrize("text", ["", "1,", "4-1", "a-b", "-2", "1.5"])
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^thresholds must") as caught:
        parse_counts(text, name="thresholds")
    assert str(caught.value) == (
        f"thresholds must be a range such as 1-4 or a list such as 1,2,4, got {text!r}"
    )


def test_a_list_is_not_endless() -> None:
    assert len(parse_counts("1-10000", name="seeds")) == 10_000
    with refuses("seeds must name at most 10,000 in a range, got '1-10001'"):
        parse_counts("1-10001", name="seeds")


def test_a_count_is_not_beyond_what_anything_counts() -> None:
    assert parse_count("18446744073709551615", name="dim") == 2**64 - 1
    with refuses("dim must be below 2**64, got 1e30"):
        parse_count("1e30", name="dim")


@pytest.mark.parametrize(
    "value", [0.63, "0.63", "63%", "63 %", ".63", " 63.0% ", "6.3e-1"]
)
def test_portions_are_read_as_people_write_them(value: object) -> None:
    assert parse_portion(value, name="target") == pytest.approx(0.63, abs=1e-15)


@pytest.mark.parametrize(
    "value", [63, "63", 0, "0", "101%", "high", "-0.5", "nan", "", True, None]
)
def test_what_is_no_portion_is_refused(value: object) -> None:
    message = (
        f'target must be above 0 and at most 1, or a share such as "95%", got {value!r}'
    )
    with refuses(message):
        parse_portion(value, name="target")


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [
        ("1", 1),
        ("1048576", 1 << 20),
        ("1MiB", 1 << 20),
        (" 64 KiB ", 1 << 16),
        ("1.5GB", 1_500_000_000),
        ("0.5KiB", 512),
    ],
)
def test_a_size_is_read_with_its_unit(text: str, n_bytes: int) -> None:
    assert parse_bytes(text, name="memory") == n_bytes


@pytest.mark.parametrize(
    "text", ["", "0", "-1", "1mib", "1 MiBs", "0.3B", "one", "1e6", "9" * 16]
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with refuses(f"memory must be a size such as 1MiB, 64KiB or 500000, got {text!r}"):
        parse_bytes(text, name="memory")
