"""The documentation: every page can be found, every command and example can be run."""

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import nbformat
import pytest
import typer
from nbclient import NotebookClient

from fediac.cli.entry import app
from fediac.runs.settings.tables import parse_file

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
)


def fences(page: Path, language: str) -> list[str]:
    """Return what a page has in blocks of a language."""
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def test_every_page_is_in_the_navigation() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    trees = re.findall(r"^```\{toctree\}\n(.*?)^```", index, re.DOTALL | re.MULTILINE)
    named = [
        line for tree in trees for line in tree.splitlines() if line[:1] not in ":"
    ]
    pages = {(ROOT / "docs" / f"{name}.md").resolve() for name in named if name}
    assert len(pages) == len([name for name in named if name])
    wanted = {page for page in PAGES if page.stem != "index"}
    wanted |= {
        page
        for name in ("results", "examples")
        for page in ROOT.glob(f"{name}/**/*.md")
    }
    wanted.add(ROOT / "CHANGELOG.md")
    assert pages == wanted


def commands(page: Path) -> list[list[str]]:
    """Return the words of every ``fediac ...`` that a page says to type."""
    text = "".join(fences(page, "console")).replace("\\\n", " ")
    lines = (line for line in text.splitlines() if line.startswith("fediac "))
    return [shlex.split(line, comments=True)[1:] for line in lines]


def parse(words: list[str]) -> Any:
    """Let the command line read words as it would, without doing anything."""
    group: Any = typer.main.get_command(app)
    context = group.make_context("fediac", list(words))
    rest = [*context._protected_args, *context.args]
    while hasattr(group, "commands") and rest and rest[0] in group.commands:
        name, group, rest = group.resolve_command(context, rest)
        context = group.make_context(name, list(rest), parent=context)
        rest = [*context._protected_args, *context.args]
    return context


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_is_one_that_the_command_line_takes(page: Path) -> None:
    for words in commands(page):
        assert parse(words).command.name != "fediac", words


def test_many_commands_are_looked_at() -> None:
    assert sum(len(commands(page)) for page in PAGES) > 40


def test_a_command_that_is_none_is_noticed() -> None:
    with pytest.raises(Exception, match="No such option: --rouds"):
        parse(["simulate", "--rouds", "3"])


def test_every_settings_file_is_one_that_a_run_takes() -> None:
    tables = [
        (page, tomllib.loads(block)) for page in PAGES for block in fences(page, "toml")
    ]
    # Others are a switch's, or a package's.
    of_runs = [each for each in tables if each[1].keys() & {"data", "train", "fediac"}]
    assert len(of_runs) >= 3
    for page, table in of_runs:
        parse_file(table, source=page.name)


def test_the_page_on_commands_has_every_command() -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    known: Any = typer.main.get_command(app)
    shown = re.findall(r"^```\{help\} (.+)\n```$", page, re.MULTILINE)
    assert shown == known.list_commands(None)


def test_the_tutorial_says_what_a_round_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (code,) = fences(ROOT / "docs" / "tutorial.md", "python")
    exec(code, {})
    chosen, mean, residual = capsys.readouterr().out.splitlines()
    assert chosen == "2"
    assert mean.split() == ["[4.", "0.", "0.", "1.98", "0.", "0.", "0.", "0.", "]"]
    assert residual.split()[5] == "3."


def test_the_notebook_trains_compares_and_shows_the_page(tmp_path: Path) -> None:
    path = ROOT / "examples" / "tour.ipynb"
    read: Any = nbformat.read  # has no types
    book = read(path, 4)
    assert not any(cell.get("outputs") for cell in book.cells), "stored with outputs"
    where = {"metadata": {"path": tmp_path}}
    NotebookClient(book, timeout=120, kernel_name="python3", resources=where).execute()
    outputs = [each for cell in book.cells for each in cell.get("outputs", [])]
    said = "".join(each.get("text", "") for each in outputs)
    assert re.search(r"round 5: accuracy \d\d\.\d%", said)
    assert re.search(r"fedavg +│ +10 │", said)
    assert "3 algorithms: own data, Sequential" in outputs[-1]["data"]["text/html"]
    # A line for each run, which the next one replaced; and a plain table.
    shown = [each["data"] for each in outputs if each.output_type == "display_data"]
    assert [each["text/plain"].partition("  ")[0] for each in shown] == [
        "fediac: rounds 5",
        "fediac: rounds 10",
        "switchml: rounds 10",
        "fedavg: rounds 10",
    ]
    assert all("text/html" not in each for each in shown)
    assert "\x1b" not in said
