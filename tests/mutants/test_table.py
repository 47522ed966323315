"""The mutants still fit the code. ``make mutants`` tries them; this takes no time."""

import ast
from collections import Counter

import pytest

from tests.mutants.copies import ROOT
from tests.mutants.table import MUTANTS, Mutant
from tests.support import refuses

EXAMPLE = Mutant(
    name="peak-of-the-last",
    claim="the switch keeps the largest peak",
    file="switch/aligned.py",
    old="max(a, b)",
    new="b",
    tests=("unit/switch/test_aligned.py",),
)

each_mutant = pytest.mark.parametrize(
    "mutant", MUTANTS, ids=[each.name for each in MUTANTS]
)


@each_mutant
def test_a_mutant_still_applies_and_is_python(mutant: Mutant) -> None:
    text = mutant.source(ROOT).read_text(encoding="utf-8")
    changed = mutant.change(text)
    assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text))


@each_mutant
def test_the_tests_that_must_notice_are_there(mutant: Mutant) -> None:
    assert mutant.tests
    for test in mutant.tests:
        file, _, name = test.partition("::")
        tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
        names = [getattr(node, "name", "") for node in tree.body]
        assert not name or name in names


def test_names_are_given_once() -> None:
    names = Counter(each.name for each in MUTANTS)
    assert [name for name, n_uses in names.items() if n_uses > 1] == []


def test_a_mutant_replaces_what_its_file_has_once() -> None:
    assert EXAMPLE.change("peak = max(a, b)\n") == "peak = b\n"


@pytest.mark.parametrize("n_times", [0, 2])
def test_a_mutant_that_no_longer_applies_says_so(n_times: int) -> None:
    with refuses(
        f"peak-of-the-last: switch/aligned.py must have 'max(a, b)' once, got {n_times}"
    ):
        EXAMPLE.change("peak = max(a, b)\n" * n_times)
