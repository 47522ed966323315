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


def test_one_thing_is_no_plural() -> None:
    assert (count(1, "client"), count(1024, "client")) == ("1 client", "1,024 clients")
