"""What the runner says, and with what it ends."""

import pytest

from models.__main__ import check, main
from models.pan import Report, Result
from models.searches import Search

PROOF = Search("slots", {"CLIENTS": 3, "SLOTS": 4}, "counted once")
MUTANT = Search("slots", {"CLIENTS": 2}, "all must be in", "QUORUM")

COMPLETE = Report(79334, 20.1, "", (), ())
ERROR = Report(4, 13.0, "assertion violated (x)", ("no full search",), ())


def run(reports: dict[str, Report]) -> int:
    """Check a proof and a mutant that end with these reports."""
    return check(
        [PROOF, MUTANT],
        n_jobs=1,
        run=lambda search: Result(search, reports[search.mutant], 1.25),
    )


def test_all_is_well_if_the_model_holds_and_the_mutant_does_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run({"": COMPLETE, "QUORUM": ERROR}) == 0
    first, second, _, last = capsys.readouterr().out.splitlines()
    assert {first[7:], second[7:]} == {
        "proven                79,334 states    1.2 s     20 MiB  "
        "slots  safety                3 clients, 4 slots",
        "rejected                   4 states    1.2 s     13 MiB  "
        "slots  QUORUM                2 clients",
    }
    assert last == "2 of 2 as they should be, in 0.0 minutes"


def test_a_model_with_an_error_ends_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert run({"": ERROR, "QUORUM": ERROR}) == 1
    assert capsys.readouterr().out.splitlines()[3:] == [
        "ERROR FOUND: slots  safety                3 clients, 4 slots",
        "  claim: counted once",
        "  assertion violated (x)",
        "  spin -a -DCLIENTS=3 -DSLOTS=4 models/slots.pml",
        "",
        "1 of 2 as they should be, in 0.0 minutes",
    ]


def test_a_mutant_that_is_not_found_ends_with_1(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run({"": COMPLETE, "QUORUM": COMPLETE}) == 1
    assert capsys.readouterr().out.splitlines()[3:] == [
        "NOT REJECTED: slots  QUORUM                2 clients",
        "  claim: all must be in",
        "  spin -a -DQUORUM -DCLIENTS=2 models/slots.pml",
        "",
        "1 of 2 as they should be, in 0.0 minutes",
    ]


def test_a_search_that_is_not_complete_ends_with_1(
    capsys: pytest.CaptureFixture[str],
) -> None:
    unfinished = Report(9, 1.0, "", ("pan: reached -DMEMLIM bound",), ())
    assert run({"": unfinished, "QUORUM": ERROR}) == 1
    assert "  pan: reached -DMEMLIM bound" in capsys.readouterr().out.splitlines()


def test_a_statement_that_nothing_reaches_ends_with_1(
    capsys: pytest.CaptureFixture[str],
) -> None:
    vacuous = Report(9, 1.0, "", (), ("slots.pml:7, state 1",))
    assert run({"": vacuous, "QUORUM": ERROR}) == 1
    said = capsys.readouterr().out.splitlines()
    assert "  never reached: slots.pml:7, state 1" in said


def test_without_spin_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SystemExit) as stopped:
        main(["--small"])
    assert stopped.value.code == "spin is not installed (Debian: apt install spin)"


def test_the_list_names_every_mutant(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    assert "a slot is complete when all members are in" in capsys.readouterr().out
