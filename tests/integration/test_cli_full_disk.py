"""What was there before stays where a disk is too full for what comes after it."""

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.command import Command
from tests.runs import write_comparison

BEFORE = b"what was there before\n"


@contextmanager
def full_disk(n_bytes: int) -> Iterator[None]:
    """Let no file become longer than this, and Python leave no byte code cut short.

    It takes a short write of what it has just compiled for a whole one, and whoever
    imports that module next gets an error.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    leaves_none = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        sys.dont_write_bytecode = leaves_none


@pytest.mark.parametrize("is_link", [False, True])
@pytest.mark.parametrize(
    ("name", "words", "why"),
    [
        ("page.html", ("report", "runs", "-o"), "cannot be written (File too large)"),
        ("page.md", ("report", "runs", "-o"), "cannot be written (File too large)"),
        (
            "round.png",
            ("simulate", "--dim=2000", "--clients=3", "--plot"),
            "file too large",
        ),
        (
            "sizes.svg",
            ("motivation", "--sizes=1000", "--clients=3", "--plot"),
            "file too large",
        ),
    ],
)
def test_a_file_that_cannot_be_replaced_stays(
    fediac: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    words: tuple[str, ...],
    why: str,
    *,
    is_link: bool,
) -> None:
    write_comparison(tmp_path / "runs", ["fediac", "libra"])
    (tmp_path / "page").mkdir()
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "page" / name
    target = tmp_path / "target" if is_link else path
    target.write_bytes(BEFORE)
    if is_link:
        path.symlink_to(target)
    with full_disk(1000):
        result = fediac(*words, f"page/{name}")
    assert result.code == 2
    assert result.err == f"error: page/{name}: {why}\n"
    assert path.is_symlink() == is_link
    assert target.read_bytes() == BEFORE
    assert list(path.parent.iterdir()) == [path]
    assert fediac(*words, f"page/{name}").code == 0
    assert path.is_symlink() == is_link
    assert len(target.read_bytes()) > 1000
    assert list(path.parent.iterdir()) == [path]
