"""Install what `make dist` built into an empty environment, and run the demo there.

One environment in turn has the wheel with kernels, the pure one and the sdist, so that
PyTorch is installed once. Every one must run from a folder without any source.
"""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[1]


def find_built(pattern: str) -> Path:
    """Return the one file in dist/ that fits a pattern."""
    found = sorted((ROOT / "dist").glob(pattern))
    if len(found) != 1:
        sys.exit(f"dist/ must have one {pattern}, got {len(found)}: run make dist")
    return found[0]


class Environment:
    """An empty environment, and what is asked of its programs."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder / "env", with_pip=True)
        self._programs = folder / "env" / "bin"
        self._folder = folder
        kept = ("PYTHONPATH", "VIRTUAL_ENV", "FEDIAC_NATIVE")
        self._variables = {k: v for k, v in os.environ.items() if k not in kept}

    def run(self, program: str, *arguments: str | Path) -> str:
        """Return what a program prints; an error ends everything."""
        done = subprocess.run(
            [self._programs / program, *arguments],
            cwd=self._folder,
            env=self._variables,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return done.stdout

    def install(self, *what: str) -> None:
        """Install with pip, with the releases that this project is tested with."""
        quiet = ("--quiet", "--disable-pip-version-check", "--no-compile")
        bounds = ("--constraint", str(ROOT / "constraints.txt"))
        self.run("python", "-m", "pip", "install", *quiet, *bounds, *what)

    def try_demo(self, name: str, *, has_kernels: bool) -> None:
        """Run a round of the demo; there must be its page, and kernels or none."""
        findings: list[dict[str, Any]] = json.loads(
            self.run("fediac", "doctor", "--json")
        )["findings"]
        (kernels,) = (x for x in findings if x["name"] == "native kernels")
        if kernels["is_there"] != has_kernels:
            sys.exit(f"{name}: kernels must be {has_kernels}, doctor says {kernels}")
        out = self._folder / f"demo-{name}"
        self.run("fediac", "demo", "--rounds", "1", "--out", out)
        page = (out / "report.html").read_text(encoding="utf-8")
        if "fediac-lean" not in page:
            sys.exit(f"{name}: the demo's page does not show fediac-lean")
        sys.stdout.write(f"{name}: installed, the demo ran\n")


def main() -> None:
    """Try all that was built."""
    sdist = find_built("*.tar.gz")
    pure = find_built("*-py3-none-any.whl")
    wheel = find_built("*-py3-none-m*.whl")
    with TemporaryDirectory() as folder:
        empty = Environment(Path(folder))
        empty.install(f"{wheel}[train]")
        empty.try_demo("wheel", has_kernels=True)
        for name, path in {"pure": pure, "sdist": sdist}.items():
            empty.install("--force-reinstall", "--no-deps", str(path))
            empty.try_demo(name, has_kernels=name == "sdist")


if __name__ == "__main__":
    main()
