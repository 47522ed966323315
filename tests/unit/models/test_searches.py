"""The table of searches, the models and their page in the docs name the same."""

import re
from collections import Counter
from pathlib import Path

import pytest

from models.pan import FOLDER
from models.searches import LIVENESS, MUTANTS, PROOFS, SEARCHES, Search

DOCS = Path(__file__).parents[3] / "docs" / "models.md"
MODELS = ("slots", "rounds")


def source(model: str) -> str:
    return (FOLDER / f"{model}.pml").read_text(encoding="utf-8")


def rows(n_columns: int) -> list[list[str]]:
    """Return the cells of the docs' tables with so many columns."""
    lines = DOCS.read_text(encoding="utf-8").splitlines()
    cells = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in lines
        if line.startswith("| ") and "---" not in line
    ]
    return [each for each in cells if len(each) == n_columns][1:]


@pytest.mark.parametrize("model", MODELS)
def test_every_mistake_in_a_model_is_searched_and_no_other(model: str) -> None:
    text = source(model)
    bounds = set(re.findall(r"#ifndef (\w+)\n#define \1 \d", text))
    switches = set(re.findall(r"#ifn?def (\w+)|defined\((\w+)\)", text))
    names = {one or other for one, other in switches} - bounds - {LIVENESS}
    assert names == {each.mutant for each in MUTANTS if each.model == model}


@pytest.mark.parametrize("search", SEARCHES, ids=lambda each: each.title)
def test_a_search_sets_every_bound_of_its_model(search: Search) -> None:
    bounds = re.findall(r"#ifndef (\w+)\n#define \1 \d", source(search.model))
    assert set(search.bounds) == set(bounds)


def test_no_mutant_is_there_twice() -> None:
    assert max(Counter(each.mutant for each in MUTANTS).values()) == 1


def test_the_docs_have_every_mutant_and_what_it_breaks() -> None:
    told = {row[0].strip("`"): row[2] for row in rows(3)}
    assert told == {each.mutant: each.claim for each in MUTANTS}


def test_the_docs_have_every_proof_with_its_bounds() -> None:
    told = {(row[0], row[1], row[2]) for row in rows(6)}
    assert told == {
        (
            each.model,
            "liveness" if each.is_live else "safety",
            each.bound_words,
        )
        for each in PROOFS
    }
