import io

import pytest
from rich.console import Console

from fediac.console import FittedTable, count

HEADINGS = ("algorithm", "up MiB", "entries chosen", "seconds")
ROWS = (
    ("fediac", "1,234.5", "11,173,962", "12.34"),
    ("omnireduce", "9.5", "5", "0.12"),
)


def draw(width: int) -> list[str]:
    file = io.StringIO()
    Console(width=width, file=file).print(FittedTable(HEADINGS, ROWS))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_a_table_with_room_has_lines() -> None:
    lines = draw(80)
    assert lines[1] == "┃ algorithm  ┃  up MiB ┃ entries chosen ┃ seconds ┃"
    assert lines[3] == "│ fediac     │ 1,234.5 │     11,173,962 │   12.34 │"


def test_a_table_may_do_without_lines() -> None:
    file = io.StringIO()
    table = FittedTable(HEADINGS, ROWS, has_lines=False)
    Console(width=80, file=file).print(table)
    assert file.getvalue().isascii()


def test_a_narrower_table_folds_its_headings() -> None:
    assert draw(44) == [
        "                        entries",
        "algorithm    up MiB      chosen  seconds",
        "fediac      1,234.5  11,173,962    12.34",
        "omnireduce      9.5           5     0.12",
    ]


def test_a_table_that_is_still_too_wide_is_turned() -> None:
    assert draw(36) == [
        "algorithm          fediac omnireduce",
        "up MiB            1,234.5        9.5",
        "entries chosen 11,173,962          5",
        "seconds             12.34       0.12",
    ]


def test_the_narrowest_table_is_a_list() -> None:
    assert draw(30)[:5] == [
        "algorithm       fediac",
        "up MiB          1,234.5",
        "entries chosen  11,173,962",
        "seconds         12.34",
        "",
    ]


@pytest.mark.parametrize("width", range(22, 90))
def test_no_width_loses_a_cell(width: int) -> None:
    lines = draw(width)
    assert max(map(len, lines)) <= width
    assert "…" not in "".join(lines)
    for row in ROWS:
        for cell in row:
            assert any(cell in line for line in lines)


LONG = [(f"setting-{number}", "389.3 (388.9 to 389.8)", "12") for number in range(20)]


def draw_long(width: int) -> list[str]:
    file = io.StringIO()
    table = FittedTable(("algorithm", "payload MiB", "rounds"), LONG)
    Console(width=width, file=file).print(table)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_a_long_table_keeps_its_columns_and_folds_its_cells() -> None:
    assert draw_long(34)[:5] == [
        "algorithm      payload MiB  rounds",
        "setting-0     389.3 (388.9      12",
        "                 to 389.8)",
        "setting-1     389.3 (388.9      12",
        "                 to 389.8)",
    ]


@pytest.mark.parametrize("width", range(27, 50))
def test_no_width_cuts_a_word_of_a_long_table(width: int) -> None:
    lines = draw_long(width)
    assert max(map(len, lines)) <= width
    assert "rounds" in lines[0] + lines[1]
    words = " ".join(lines).split()
    for word in ("setting-19", "(388.9", "389.8)"):
        assert word in words


def test_one_thing_is_no_plural() -> None:
    assert (count(1, "client"), count(1024, "client")) == ("1 client", "1,024 clients")
