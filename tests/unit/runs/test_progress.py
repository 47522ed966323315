import io
import sys
from typing import Any

import pytest
from msgspec.structs import replace

from fediac.runs.progress import ProgressBars
from fediac.runs.records import Round, decode
from fediac.runs.settings import RunSettings
from tests.runs import first_line

MADE = decode(first_line("fediac"), Round, "made up")
RECORD = replace(
    MADE,
    number=3,
    accuracy=0.625,
    payload_mib=1234.5,
    time_s={"fast": 61.2, "slow": 99.0},
)


class Terminal(io.StringIO):
    """A file that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def show(
    monkeypatch: pytest.MonkeyPatch,
    file: Any,
    *,
    is_quiet: bool = False,
    columns: int = 200,
    metric: str = "accuracy",
) -> str:
    monkeypatch.setattr(sys, "stderr", file)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm-256color")
    with ProgressBars(is_quiet=is_quiet, metric=metric) as bars:
        for before in (None, replace(MADE, number=2)):
            bars.start(RunSettings(), 20, before)
            bars.client_done()
            bars.round_done(RECORD)
    text: str = file.getvalue()
    return text


def test_a_terminal_shows_rounds_clients_and_how_good_the_model_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = show(monkeypatch, Terminal())
    assert "fediac: rounds" in text
    assert "fediac: clients" in text
    assert "3/20" in text
    assert "left  accuracy 62.5 %  1,234 MiB  61.20 s simulated" in text


def test_a_metric_of_ones_own_has_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    text = show(monkeypatch, Terminal(), metric="f1")
    assert "left  f1 62.5 %  1,234 MiB" in text
    assert "accuracy" not in text


def test_a_narrow_terminal_shows_how_much_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = show(monkeypatch, Terminal(), columns=40).splitlines()
    assert any("3/20" in line for line in lines)
    # There is room for the ^C that a terminal writes behind it.
    left = next(line for line in lines if "0:00:00 left  accuracy" in line)
    shown = left[left.index("0:00:00 left") :].partition("\x1b")[0].rstrip()
    assert shown == "0:00:00 left  accuracy 62.5 %  1,234…"
    assert len(shown) == 37


def test_what_speaks_against_a_run_is_said_when_it_begins(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with ProgressBars(is_quiet=True) as bars:
        bars.start(RunSettings(), 20, None)
        bars.doubt("so few votes make it learn slowly")
    said = capsys.readouterr().err
    assert said == "note: fediac: so few votes make it learn slowly.\n"


@pytest.mark.parametrize(
    ("votes", "chosen", "is_said"), [(95, 0, True), (95, 1, False), (0, 0, False)]
)
def test_a_terminal_says_when_nothing_was_agreed_on(
    monkeypatch: pytest.MonkeyPatch, votes: int, chosen: int, *, is_said: bool
) -> None:
    record = replace(RECORD, votes=votes, chosen=chosen)
    monkeypatch.setitem(globals(), "RECORD", record)
    assert ("nothing agreed on" in show(monkeypatch, Terminal())) == is_said


def test_nothing_is_shown_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    assert show(monkeypatch, io.StringIO()) == ""
    assert show(monkeypatch, Terminal(), is_quiet=True) == ""


@pytest.mark.parametrize("printed_to", ["a file", "a terminal"])
def test_what_is_printed_meanwhile_goes_where_it_was_to_go(
    monkeypatch: pytest.MonkeyPatch, printed_to: str
) -> None:
    err, out = Terminal(), io.StringIO() if printed_to == "a file" else Terminal()
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv("TERM", "xterm-256color")
    with ProgressBars() as bars:
        bars.start(RunSettings(), 20, None)
        sys.stdout.write("mine\n")
    # Above the bars in a terminal, which is the same one; otherwise untouched.
    where = out if printed_to == "a file" else err
    assert "mine" in where.getvalue()
