"""SPIN proves the models within small bounds, and finds every mistake in them."""

import os
import shutil

import pytest

from models.__main__ import check
from models.pan import PROVEN, check_tools, read_trail, run_search
from models.searches import MUTANTS, SEARCHES

SMALL = [each for each in SEARCHES if each.is_small]


@pytest.fixture(scope="module", autouse=True)
def _spin() -> None:
    """Skip where SPIN is not installed, or fail if it must be."""
    is_missing = shutil.which("spin") is None
    if is_missing and "spin" in os.environ.get("FEDIAC_REQUIRE", "").split(","):
        pytest.fail("FEDIAC_REQUIRE names spin, but it is not installed")
    if is_missing:
        pytest.skip("spin: it is not installed")
    check_tools()


def test_all_models_hold_and_all_mutants_are_rejected() -> None:
    assert set(MUTANTS) < set(SMALL)
    assert check(SMALL, n_jobs=1) == 0


def test_a_search_that_is_cut_short_proves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    search = next(each for each in SMALL if each.model == "rounds")
    monkeypatch.setattr("models.pan.MAX_DEPTH", 100)
    result = run_search(search)
    assert result.verdict != PROVEN
    assert result.report.gaps == ("error: max search depth too small",)


def test_a_trail_tells_how_a_mistake_shows() -> None:
    mutant = next(each for each in MUTANTS if each.mutant == "GIA_NOT_SAVED")
    said = read_trail(mutant).splitlines()
    assert said[0] == "coordinator 1 starts"
    assert "client 1 is killed" in said
    assert "client 1 hears: session 1 is committed" in said
