"""Numbers that are never used again, and what records say together."""

from hypothesis import given
from hypothesis import strategies as st

from fediac.errors import SessionError
from fediac.sessions.journal import (
    Began,
    Committed,
    Ledger,
    Numbered,
    require_epoch,
    session_number,
)
from tests.support import refuses

milliseconds = st.integers(0, 2**47)


@given(st.lists(st.tuples(milliseconds, st.integers(0, 2**32)), max_size=20))
def test_numbers_rise_whatever_the_clock_does(draws: list[tuple[int, int]]) -> None:
    last = 0
    for now_ms, chance in draws:
        number = session_number(now_ms, last, chance)
        assert number > last
        last = number
    assert last < 2**64


def test_a_number_has_the_time_above_and_chance_below() -> None:
    assert session_number(1000, 0, 0x12345) == 1000 << 16 | 0x2345
    assert session_number(1000, 2000 << 16 | 7, 5) == 2001 << 16 | 5


def test_a_ledger_has_the_newest_epoch_and_session_and_all_commits() -> None:
    ledger = Ledger()
    commit = Committed(2, 300, 1, (0, 1), ())
    for record in (Began(1), Numbered(1, 200, 1, (0,)), Began(2), commit, Began(1)):
        ledger.note(record)
    ledger.note(Numbered(2, 150, 2, (0,)))
    assert (ledger.epoch, ledger.last, ledger.commits) == (2, 200, {300: commit})


def test_who_has_been_replaced_writes_nothing() -> None:
    require_epoch(Began(3), 3)
    require_epoch(Began(4), 3)
    with refuses(
        "another coordinator has started on this journal: its epoch 3 is newer than 2",
        SessionError,
    ):
        require_epoch(Began(2), 3)
