"""What CONTRIBUTING.md says of the house is so: its layers, packages and the way in."""

import re
import sys
import tomllib
from pathlib import Path
from types import FrameType

import pytest

from fediac.native.dispatch import disabled
from fediac.switch import aligned, registers
from tests.integration.command import Command
from tests.tiny import write_config

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "fediac"
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")

DOORS = ("cli/__init__.py", "cli/entry.py")
"""What every command goes through."""


def modules_below(frame: FrameType | None) -> tuple[str, ...]:
    """Return the package's modules that call each other, the first caller first."""
    found: list[str] = []
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if PACKAGE in path.parents:
            found.append(path.relative_to(PACKAGE).as_posix())
        frame = frame.f_back
    return tuple(dict.fromkeys(reversed(found)))


def test_the_layers_are_those_that_are_checked() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    layers = contracts[0]["layers"]
    checked = layers[: layers.index("native") + 1]
    (said,) = re.findall(r"(?m)^`(cli → .*)`$", GUIDE)
    assert [each.strip("()") for each in said.split(" → ")] == checked


def test_every_package_has_a_place() -> None:
    rows = re.findall(r"(?m)^\| (`.*?) \|.*$", GUIDE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    packages = {each.parent.name for each in PACKAGE.glob("*/__init__.py")}
    assert packages - named == {"cli"}  # which stands beside api


def test_a_run_goes_the_way_that_is_listed(
    fediac: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stacks: list[tuple[str, ...]] = []
    found = registers.n_planes

    def n_planes(threshold: int) -> int:
        stacks.append(modules_below(sys._getframe(1)))
        return found(threshold)

    monkeypatch.setattr(aligned, "n_planes", n_planes)
    path = write_config(tmp_path)
    with disabled():
        result = fediac("run", path, "--out", tmp_path / "run")
    assert result.code == 0, result.err
    section = GUIDE.partition("From `fediac run`")[2].partition("\n\nWith compiled")[0]
    way = re.findall(r"`(\w+/[\w/]+\.py)`", section)
    assert all((PACKAGE / name).is_file() for name in way)
    for stack in stacks:
        assert stack[: len(DOORS)] == DOORS
        seen = [*stack[len(DOORS) :], "switch/registers.py"]
        assert seen == [name for name in way if name in seen]
    assert stacks


def test_an_algorithm_has_one_place() -> None:
    """Its own file, the catalog, what is exported, and what the paper compares."""
    with_its_name = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if "omnireduce" in path.read_text(encoding="utf-8").lower()
    }
    assert with_its_name == {
        "__init__.py",
        "compressors/__init__.py",
        "compressors/catalog.py",
        "compressors/omnireduce.py",
        "paper/entrants.py",
    }
