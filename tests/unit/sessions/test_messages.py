"""What coordinator and clients tell each other is complete, and compared as a whole."""

from dataclasses import FrozenInstanceError, replace

import pytest

from fediac.sessions.messages import Start, Status, Verdict, Word


def test_a_status_says_nothing_but_the_model_unless_there_is_more() -> None:
    status = Status(3, 7)
    assert (status.ready_round, status.unsettled, status.failed, status.why) == (
        0,
        0,
        0,
        "",
    )


def test_statuses_that_say_the_same_are_no_news() -> None:
    assert Status(3, 7, ready_round=8) == Status(3, 7, ready_round=8)
    assert Status(3, 7, ready_round=8) != Status(3, 7, ready_round=9)


def test_a_word_may_have_nothing_to_say_but_who_says_it() -> None:
    word = Word(epoch=2, round_number=5)
    assert (word.verdict, word.model, word.start) == (None, None, None)
    told = replace(word, verdict=Verdict(9, is_committed=False))
    assert told.verdict is not None
    assert told.verdict.last == ()


def test_nobody_changes_what_was_said() -> None:
    start = Start(9, 5, (0, 2), 1408)
    with pytest.raises(FrozenInstanceError):
        start.session = 10  # type: ignore[misc]
