"""What becomes of mutants of a package with one function and one test."""

from pathlib import Path

import pytest

from tests.mutants.copies import BROKEN, CAUGHT, OUTDATED, SURVIVED, Copy
from tests.mutants.table import Mutant

MODULE = "def largest(a, b):\n    return max(a, b)\n"
TEST = """from fediac.module import largest


def test_the_second_may_be_larger():
    assert largest(1, 2) == 2
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    package = tmp_path / "tree" / "src" / "fediac"
    (package / "native").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "module.py").write_text(MODULE)
    tests = tmp_path / "tree" / "tests"
    tests.mkdir()
    (tests / "test_module.py").write_text(TEST)
    return tmp_path / "tree"


@pytest.fixture
def copy(tree: Path, tmp_path: Path) -> Copy:
    folder = tmp_path / "copy"
    folder.mkdir()
    return Copy(folder, tree)


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ("max(a, b)", "a", CAUGHT),
        ("max(a, b)", "b", SURVIVED),
        ("max(a, b)", "max(a, b", BROKEN),
        ("min(a, b)", "a", OUTDATED),
    ],
)
def test_a_mutant_is_tried_in_the_copy_and_taken_out_again(
    copy: Copy, tree: Path, old: str, new: str, verdict: str
) -> None:
    copy.check(["test_module.py"])
    mutant = Mutant("name", "claim", "module.py", old, new, ("test_module.py",))
    assert copy.try_mutant(mutant) == verdict
    assert mutant.source(copy.folder).read_text() == MODULE
    assert mutant.source(tree).read_text() == MODULE


def test_tests_that_fail_by_themselves_catch_nothing(copy: Copy) -> None:
    test = copy.folder / "tests" / "test_module.py"
    test.write_text(TEST.replace("largest(1, 2)", "largest(1, 1)"))
    with pytest.raises(SystemExit, match=r"assert 1 == 2"):
        copy.check(["test_module.py"])
