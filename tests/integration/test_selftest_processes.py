"""Processes of the self-test: what is said when one of them does not do its work."""

from pathlib import Path

import pytest

from fediac.errors import RunError
from fediac.selftest.processes import crew
from fediac.selftest.settings import CHILD


def test_a_process_that_ends_is_named_with_the_end_of_its_log(tmp_path: Path) -> None:
    with crew(tmp_path, {}, CHILD) as made:
        child = made.start("relay", "relay", "nowhere", "1", "0", "0", "0", "0")
        with pytest.raises(RunError, match=r"^relay ended with 1: .*got 'nowhere'$"):
            child.wait_for("listening")
        with pytest.raises(RunError, match=r"^relay ended with 1: "):
            child.require_well()
        child.tell("anything")  # nobody hears it


def test_a_process_that_says_nothing_is_named(tmp_path: Path) -> None:
    with crew(tmp_path, {}, CHILD) as made:
        words = ("relay", "127.0.0.1:9", "1", "0", "0", "0", "0")
        child = made.start("relay", *words)
        child.wait_for("listening")
        said = r"^relay said nothing for 0.05 s while 'more' was awaited; its log: "
        with pytest.raises(RunError, match=said):
            child.wait_for("more", 0.05)
    assert not child.is_alive
