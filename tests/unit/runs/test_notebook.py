import sys
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from fediac.runs.notebook import NotebookLine
from fediac.runs.progress import ProgressBars
from fediac.runs.records import Round, decode
from fediac.runs.settings import RunSettings
from tests.runs import first_line


class Cell:
    """What is below a cell of a notebook: a text for everything that was displayed."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.n_updates = 0

    def display(self, content: Any, *, raw: bool, display_id: bool) -> "Cell":
        assert raw
        assert display_id
        self.texts.append(content["text/plain"])
        return self

    def update(self, content: Any, *, raw: bool) -> None:
        assert raw
        self.texts[-1] = content["text/plain"]
        self.n_updates += 1


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    cell = Cell()
    shell = SimpleNamespace(kernel=object())
    python = SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", python)
    display = SimpleNamespace(display=cell.display)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return cell


def test_one_line_has_how_far_a_run_is_and_how_good(cell: Cell) -> None:
    record = replace(decode(first_line("fediac"), Round, "made up"), number=20)
    with ProgressBars() as bars:
        bars.start(RunSettings(), 20, replace(record, number=18))
        bars.client_done()
        assert cell.texts == ["fediac: rounds 18/20  clients 1/20  -:--:-- left"]
        bars.round_done(record)
    (text,) = cell.texts
    assert text.startswith("fediac: rounds 20  accuracy ")


def test_a_line_is_not_shown_anew_all_the_time(cell: Cell) -> None:
    line = NotebookLine()
    for _ in range(100):
        line.show(lambda: "going on")
    assert cell.n_updates < 10
    line.show(lambda: "the end", is_due=True)
    assert cell.texts == ["the end"]


@pytest.mark.parametrize("where", ["no IPython", "a terminal of IPython", "quiet"])
def test_nothing_is_shown_elsewhere(
    cell: Cell, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    if where == "no IPython":
        monkeypatch.delitem(sys.modules, "IPython")
    elif where != "quiet":
        monkeypatch.setitem(
            sys.modules, "IPython", SimpleNamespace(get_ipython=SimpleNamespace)
        )
    NotebookLine(is_quiet=where == "quiet").show(lambda: "mine", is_due=True)
    assert cell.texts == []
