"""A copy of the tree, whose tests run on the copy's own package."""

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from fediac.native import library
from tests.mutants.table import Mutant

ROOT = Path(__file__).parents[2]
PARTS = ("src", "tests", "examples", "pyproject.toml")
TIMEOUT_S = 900

CAUGHT, SURVIVED = "caught", "SURVIVED"
OUTDATED, BROKEN, ENDLESS = "no longer applies", "DOES NOT RUN", "DOES NOT END"

_SITE = """import sys

# An editable install answers imports of its package before any path is looked at.
sys.meta_path[:] = [
    each for each in sys.meta_path if "_editable" not in type(each).__module__
]
"""


class Copy:
    """A copy of the tree that mutants are put into, and taken out of again.

    Args:
        folder: Where to make it; empty.
        root: Where the tree begins.
    """

    def __init__(self, folder: Path, root: Path = ROOT) -> None:
        self.folder = folder
        for name in PARTS:
            _copy(root / name, folder / name)
        kernels = library.find()
        if kernels is not None:
            shutil.copy(kernels, folder / "src" / "fediac" / "native")
        (folder / "sitecustomize.py").write_text(_SITE)

    def check(self, tests: Sequence[str]) -> None:
        """Exit unless the copy's own package passes ``tests`` as it is."""
        found = self._python("-c", "import fediac; print(fediac.__file__)")
        if not found.stdout.startswith(str(self.folder)):
            sys.exit(f"the copy must import its own package, got {found.stdout}")
        done = self._test(tests)
        if done.returncode:
            sys.exit(f"{done.stdout}{done.stderr}")

    def try_mutant(self, mutant: Mutant) -> str:
        """Return what the tests say to a mutant."""
        source = mutant.source(self.folder)
        text = source.read_text(encoding="utf-8")
        try:
            changed = mutant.change(text)
        except ValueError:
            return OUTDATED
        try:
            _write(source, changed)
            code = self._test(mutant.tests).returncode
        except subprocess.TimeoutExpired:
            return ENDLESS
        finally:
            _write(source, text)
        # pytest gives 1 when tests fail; more when it could not run them.
        return {0: SURVIVED, 1: CAUGHT}.get(code, BROKEN)

    def _test(self, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run tests until one fails."""
        paths = [f"tests/{test}" for test in tests]
        options = ("-x", "-q", "-p", "no:cacheprovider")
        return self._python("-m", "pytest", *options, *paths)

    def _python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join((str(self.folder), str(self.folder / "src")))
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        ignored = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(source, target, ignore=ignored)
    elif source.exists():
        shutil.copy(source, target)


def _write(source: Path, text: str) -> None:
    """Write a module, and forget its bytecode, which may look as old as the text."""
    source.write_text(text, encoding="utf-8")
    Path(importlib.util.cache_from_source(str(source))).unlink(missing_ok=True)
