"""What is believed of pan's reports, which were recorded from SPIN 6.5.2."""

from pathlib import Path

import pytest

from models.pan import (
    PROVEN,
    REJECTED,
    SURVIVED,
    UNKNOWN,
    VACUOUS,
    WRONG,
    judge,
    read_report,
)
from models.searches import Search

PROOF = Search("rounds", {"CLIENTS": 1}, "nothing is lost")
LIVE = Search("slots", {"CLIENTS": 2}, "all get all", is_live=True)
MUTANT = Search("rounds", {"CLIENTS": 1}, "nothing is lost", "NUMBER_REUSED")
NO_ERRORS, NO_SEARCH = "no word that there are 0 errors", "no full search of the states"


def recorded(name: str) -> str:
    path = Path(__file__).parent / "reports" / f"{name}.txt"
    return path.read_text(encoding="utf-8")


def verdict(search: Search, text: str) -> str:
    return judge(search, read_report(text))


class TestReadReport:
    def test_states_and_memory_are_those_of_the_report(self) -> None:
        report = read_report(recorded("proven"))
        assert (report.n_states, report.memory_mib) == (27578, 15.611)

    def test_states_of_a_search_for_cycles_are_those_stored(self) -> None:
        assert read_report(recorded("live")).n_states == 527

    def test_states_in_floating_point_are_read(self) -> None:
        text = recorded("proven").replace("    27578 states", "2.5847846e+08 states")
        assert read_report(text).n_states == 258_478_460

    def test_a_complete_search_has_no_gap(self) -> None:
        report = read_report(recorded("proven"))
        assert (report.counterexample, report.gaps, report.unreached) == ("", (), ())

    def test_a_violated_assertion_is_told_without_its_depth(self) -> None:
        found = read_report(recorded("violated")).counterexample
        assert found == "assertion violated  !((held&count))"

    def test_a_cycle_is_a_counterexample(self) -> None:
        assert read_report(recorded("cycle")).counterexample == "acceptance cycle"

    def test_a_table_that_grew_is_no_gap(self) -> None:
        line = "pan: resizing hashtable to -w26..  done\n"
        assert read_report(line + recorded("proven")).gaps == ()

    @pytest.mark.parametrize(
        ("name", "gaps"),
        [
            ("shallow", ("error: max search depth too small",)),
            ("interrupted", ("Interrupted", "Warning: Search not completed")),
            ("bitstate", (NO_SEARCH,)),
            (
                "memlim",
                (
                    "pan: reached -DMEMLIM bound",
                    "hint: to reduce memory, recompile with",
                    "Warning: Search not completed",
                ),
            ),
            (
                "unfair",
                (
                    NO_SEARCH,
                    NO_ERRORS,
                    "pan: error: too many processes -- current max is 6 procs "
                    "(-DNFAIR=2)",
                ),
            ),
        ],
    )
    def test_a_search_that_is_not_complete_says_why(
        self, name: str, gaps: tuple[str, ...]
    ) -> None:
        assert read_report(recorded(name)).gaps == gaps

    def test_an_empty_report_says_nothing(self) -> None:
        assert read_report("").gaps == (NO_SEARCH, NO_ERRORS)

    def test_what_pan_was_ended_by_is_a_gap(self) -> None:
        text = f"{recorded('proven')}\npan: took more than 7 s"
        assert read_report(text).gaps == ("pan: took more than 7 s",)

    def test_statements_that_were_not_reached_are_named_but_for_ends(self) -> None:
        (line,) = read_report(recorded("unreached")).unreached
        assert line == 'slots.pml:168, state 40, "(1)"'


class TestJudge:
    def test_a_complete_search_without_error_proves(self) -> None:
        assert verdict(PROOF, recorded("proven")) == PROVEN

    def test_a_search_for_cycles_proves_though_losses_ended(self) -> None:
        assert read_report(recorded("live")).unreached
        assert verdict(LIVE, recorded("live")) == PROVEN

    @pytest.mark.parametrize("name", ["violated", "cycle"])
    def test_a_model_with_an_error_is_not_proven(self, name: str) -> None:
        assert verdict(PROOF, recorded(name)) == WRONG

    @pytest.mark.parametrize(
        "name", ["shallow", "interrupted", "bitstate", "memlim", "unfair"]
    )
    def test_an_incomplete_search_proves_nothing(self, name: str) -> None:
        assert verdict(PROOF, recorded(name)) == UNKNOWN

    def test_an_empty_report_proves_nothing(self) -> None:
        assert verdict(PROOF, "") == UNKNOWN

    def test_a_model_in_which_something_never_happens_is_not_proven(self) -> None:
        assert verdict(PROOF, recorded("unreached")) == VACUOUS

    @pytest.mark.parametrize("name", ["violated", "cycle"])
    def test_a_mutant_with_an_error_is_rejected(self, name: str) -> None:
        assert verdict(MUTANT, recorded(name)) == REJECTED

    @pytest.mark.parametrize(
        "name", ["proven", "shallow", "interrupted", "bitstate", "memlim", "unfair"]
    )
    def test_a_mutant_without_an_error_is_not_rejected(self, name: str) -> None:
        assert verdict(MUTANT, recorded(name)) == SURVIVED
