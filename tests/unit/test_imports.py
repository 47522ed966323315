import re
from pathlib import Path

import pytest

from fediac.errors import ConfigError
from fediac.imports import import_named
from tests.support import refuses


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("sys.path", ["no folder at all"])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_modules_are_found_in_the_current_folder(folder: Path) -> None:
    (folder / "found_beside_me.py").write_text("number = 7\n")
    assert import_named("model", "found_beside_me:number") == 7


@pytest.mark.parametrize(
    ("module", "code", "why"),
    [
        ("fails_itself", "\nmissing\n", "NameError: name 'missing' is not defined"),
        (
            "fails_to_import",
            "\nimport nowhere\n",
            "ModuleNotFoundError: No module named 'nowhere'",
        ),
        (
            "fails_deep_inside",  # in a function that another file has
            "import fediac\nfediac.FediAC(0, 1, 1)\n",
            "ArgumentError: n_clients must be at least 1, got 0",
        ),
    ],
)
def test_a_module_that_fails_says_why_and_where(
    folder: Path, module: str, code: str, why: str
) -> None:
    (folder / f"{module}.py").write_text(code)
    name = f"{module}:make"
    text = f"model {name!r} cannot be imported: {why} ({module}.py, line 2)"
    with refuses(text, ConfigError):
        import_named("model", name)


def test_what_is_no_python_says_where(folder: Path) -> None:
    (folder / "no_python.py").write_text("def make(:\n")
    text = (
        "model 'no_python:make' cannot be imported: invalid syntax (no_python.py, "
        "line 1)"
    )
    with refuses(text, ConfigError):
        import_named("model", "no_python:make")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("with_ending.py:make", "with_ending:make"),
        ("./here:make", "here:make"),
        ("models/small.py:make", "models.small:make"),
        ("models\\small:make", "models.small:make"),
        ("spaced : make", "spaced:make"),
    ],
)
def test_a_module_is_named_as_in_import(folder: Path, name: str, meant: str) -> None:
    (folder / "with_ending.py").touch()
    text = f"; a module is named as in import, without .py: {meant}"
    with pytest.raises(ConfigError, match=f"{re.escape(text)}$"):
        import_named("model", name)


def test_a_file_called_like_an_installed_module_is_said_to_be(folder: Path) -> None:
    (folder / "json.py").write_text("make = 1\n")
    text = (
        "model 'json:make' cannot be imported: module 'json' has no attribute 'make'; "
        "json is installed too, give json.py another name"
    )
    with refuses(text, ConfigError):
        import_named("model", "json:make")
