import shutil
import subprocess
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
import torch

from fediac import console, native
from fediac.runs.versions import (
    describe_versions,
    find_commit,
    name_machine,
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A source tree with one commit of one file."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    (tmp_path / "code.py").write_text("1")
    identity = ("user.name=a", "user.email=a@b", "commit.gpgsign=false")
    options = [part for each in identity for part in ("-c", each)]
    for command in (
        ["init", "--quiet"],
        ["add", "code.py"],
        [*options, "commit", "--quiet", "--message", "first"],
    ):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


def test_the_commit_is_that_of_the_source_tree(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FEDIAC_COMMIT", raising=False)
    commit = find_commit(tree)
    assert commit is not None
    assert len(commit) == 40
    assert set(commit) <= set("0123456789abcdef")
    (tree / "results.md").write_text("not a part of the code")
    assert find_commit(tree) == commit
    (tree / "code.py").write_text("2")
    assert find_commit(tree) == f"{commit}-dirty"


def test_the_commit_can_be_told(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDIAC_COMMIT", "abc123")
    assert find_commit(tree) == "abc123"


def test_an_installed_package_has_no_commit(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FEDIAC_COMMIT", raising=False)
    inside = tree / "lib"
    inside.mkdir()
    assert find_commit(inside) is None


def test_without_git_there_is_no_commit(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FEDIAC_COMMIT", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    assert find_commit(tree) is None


def test_what_wrote_a_run_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDIAC_COMMIT", "abc123")
    document = describe_versions("cpu")
    assert document["commit"] == "abc123"
    assert document["machine"] == name_machine("cpu") != ""
    assert document["torch"] == torch.__version__
    assert document["kernels"] == (native.isa() or "none")
    with native.disabled():
        assert describe_versions("cpu")["kernels"] == "none"


def test_a_bare_source_tree_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr(console, "version", version)
    assert describe_versions("cpu")["fediac"] == "source"


def test_a_gpu_names_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Some GPU")
    assert name_machine("cuda") == "Some GPU"
