"""Words when clients stop agreeing: said where it is so, and nowhere else."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from fediac.report.consensus import consensus_notes
from fediac.report.contenders import list_contenders
from fediac.report.summary import cautions
from fediac.runs.stored import Run, read_run
from tests.runs import edit_rounds, write_run

HELPS = (
    "more votes (fediac.n_votes), a lower threshold (fediac.threshold) or votes for "
    'the largest entries (fediac.law = "topk") may help.'
)


def run_with(folder: Path, chosen: Sequence[int], *, algorithm: str = "fediac") -> Run:
    """Return a run whose clients chose so many entries in its rounds."""
    write_run(folder, algorithm, n_rounds=len(chosen))

    def edit(rounds: list[dict[str, Any]]) -> None:
        for each, number in zip(rounds, chosen, strict=True):
            each["chosen"] = number

    edit_rounds(folder, edit)
    run = read_run(folder)
    assert run is not None
    return run


def changed(run: Run, **settings: Any) -> Run:
    """Return the run with other settings, by key."""
    changed = run.settings
    for key, value in settings.items():
        changed = changed.changed(key, value)
    return replace(run, settings=changed)


def test_rounds_running_without_consensus_are_told(tmp_path: Path) -> None:
    run = run_with(tmp_path / "run", [9, 0, 0, 5, 0, 0, 0, 0, 2])
    assert consensus_notes(run) == [
        "clients agreed on nothing in rounds 5 to 8 (4 running), so the model stood "
        f"still; {HELPS}"
    ]


@pytest.mark.parametrize("chosen", [[9, 0, 0], [0, 0, 5, 0, 0, 5], [5, 5, 5, 5, 0, 0]])
def test_two_empty_rounds_are_no_reason_to_worry(
    tmp_path: Path, chosen: list[int]
) -> None:
    assert consensus_notes(run_with(tmp_path / "run", chosen)) == []


def test_consensus_that_dies_away_is_told_with_what_it_was(tmp_path: Path) -> None:
    chosen = [9000, 10_000, 12_000, 11_000, 7000, 3000, 900, 300, 90, 60]
    assert consensus_notes(run_with(tmp_path / "run", chosen)) == [
        "clients agree on ever fewer entries: 150 a round in rounds 8 to 10, 1.36 % of "
        f"the 11,000 in rounds 2 to 4; {HELPS}"
    ]


@pytest.mark.parametrize(
    "chosen",
    [
        [1000, 1000, 1000, 500, 300, 100, 101, 102],  # a tenth is left
        [1000, 1000, 1000, 10, 10],  # too few rounds to tell
        [1000] * 5 + [10, 10, 10, 900, 900, 900],  # it came back
        list(range(10, 1000, 50)),
    ],
)
def test_consensus_that_changes_otherwise_gets_no_word(
    tmp_path: Path, chosen: list[int]
) -> None:
    assert consensus_notes(run_with(tmp_path / "run", chosen)) == []


def test_an_error_above_1_alone_gets_no_word(tmp_path: Path) -> None:
    run = run_with(tmp_path / "run", [1000] * 9)

    def spoil(rounds: list[dict[str, Any]]) -> None:
        for each in rounds:
            each["gamma"] = 1.4

    edit_rounds(run.folder, spoil)
    spoilt = read_run(run.folder)
    assert spoilt is not None
    assert consensus_notes(spoilt) == []


@pytest.mark.parametrize("algorithm", ["topk", "fedavg"])
def test_who_does_not_vote_agrees_on_nothing_without_a_word(
    tmp_path: Path, algorithm: str
) -> None:
    run = run_with(tmp_path / "run", [9, 0, 0, 0, 0], algorithm=algorithm)
    assert consensus_notes(run) == []


@pytest.mark.parametrize(
    ("settings", "helps"),
    [
        (
            {"fediac.law": "topk", "fediac.threshold": 3},
            "more votes (fediac.n_votes) or a lower threshold (fediac.threshold) may "
            "help.",
        ),
        (
            {"fediac.law": "bernoulli", "fediac.threshold": 1},
            "more votes (fediac.n_votes) or votes for the largest entries "
            '(fediac.law = "topk") may help.',
        ),
        (
            {"fediac.law": "topk", "fediac.threshold": 1},
            "more votes (fediac.n_votes) may help.",
        ),
    ],
)
def test_only_what_can_still_be_changed_is_advised(
    tmp_path: Path, settings: dict[str, Any], helps: str
) -> None:
    run = run_with(tmp_path / "run", [9, 0, 0, 0])
    (note,) = consensus_notes(changed(run, **settings))
    assert note.endswith(f"still; {helps}")


def test_a_server_sets_the_threshold_itself(tmp_path: Path) -> None:
    run = run_with(tmp_path / "run", [9, 0, 0, 0])
    (note,) = consensus_notes(changed(run, tuning="server"))
    assert "fediac.threshold" not in note


def test_an_own_algorithm_has_no_settings_to_name(tmp_path: Path) -> None:
    run = run_with(tmp_path / "run", [9, 0, 0, 0])
    (note,) = consensus_notes(changed(run, algorithm="my_file:Mine"))
    assert note.endswith("still; more votes or a lower threshold may help.")


def test_a_report_says_it_of_the_run(tmp_path: Path) -> None:
    run = run_with(tmp_path / "run", [9, 0, 0, 0])
    (note,) = consensus_notes(run)
    assert cautions(list_contenders([run]), []) == [f"{run.label}: {note}"]


def of_size(run: Run, dim: int) -> Run:
    """Return the run as one of a model of so many parameters."""
    assert run.summary is not None
    return replace(run, summary=structs.replace(run.summary, dim=dim))


def test_few_votes_in_a_small_model_are_told(tmp_path: Path) -> None:
    run = run_with(tmp_path / "run", [9, 9, 9])
    few = changed(run, **{"fediac.n_votes": "5%"})
    assert consensus_notes(of_size(few, 3010)) == [
        "clients vote for 151 of 3,010 parameters; so few make a model this small "
        'learn slowly, and hardly save a packet; n_votes = "auto" takes 1,024.'
    ]
    assert consensus_notes(of_size(few, 300_100)) == []
    usual = changed(run, **{"fediac.n_votes": "auto"})
    assert consensus_notes(of_size(usual, 3010)) == []
    other = run_with(tmp_path / "other", [9, 9, 9], algorithm="switchml")
    assert consensus_notes(of_size(other, 3010)) == []
