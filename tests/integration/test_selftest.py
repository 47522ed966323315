"""`fediac selftest`: real processes, a bad network, the same bits as in memory."""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fediac.selftest import settings
from fediac.selftest.attacks import ATTACKS
from fediac.selftest.command import run_selftest
from fediac.selftest.settings import CHILD, SelftestSettings
from fediac.selftest.under_attack import attack
from fediac.selftest.weather import Weather
from tests.integration.command import Command

SMALL = ("--clients", "2", "--dim", "20000", "--rounds", "2")


def processes_of(parent: int) -> list[int]:
    """Return the processes that a self-test with this number has started."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:  # it has ended meanwhile
            continue
        if b"fediac.selftest.child" in words and str(parent).encode() in words:
            found.append(int(folder.name))
    return found


def test_rounds_over_a_bad_network_are_those_in_memory(fediac: Command) -> None:
    weather = ("--loss", "0.2", "--duplicate", "0.2", "--corrupt", "0.1")
    document = fediac.json("selftest", *SMALL, "--dim", "60000", *weather)
    assert document["equal"]
    assert document["rounds"] == 2
    assert document["differences"] == []
    # Nothing was made easy: datagrams were lost, doubled and damaged, and sent again.
    assert min(document["relay"].values()) > 0
    assert document["retransmissions"] > 0
    assert document["drops"]["tag"] + document["drops"].get("foreign", 0) > 0
    assert document["packets"] > 2 * 3 * 3
    assert 0 < document["longest_wait_s"] <= document["seconds"]


def test_a_line_for_people(fediac: Command) -> None:
    result = fediac("selftest", *SMALL, "--algorithm", "switchml", "--rounds", "1")
    assert result.code == 0
    assert result.out.startswith("switchml: 1 round equal to the bit; ")
    assert result.err == ""


@pytest.mark.parametrize(
    ("mistake", "most", "first"),
    [
        ("switch", 2, "switchml, round 1: somebody's model differs"),
        ("switch", 1, "switchml, round 1: mean: "),  # all clients in one process
        ("client", 2, "switchml, client 0: residual: "),
    ],
)
def test_a_mistake_is_noticed_and_named(
    mistake: str,
    most: int,
    first: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("FEDIAC_MISTAKE", mistake)
    module = "tests.integration.wrong_children"
    monkeypatch.setattr(settings, "MOST_PROCESSES", most)
    wrong = SelftestSettings(("switchml",), 2, 5_000, 1, Weather(), child=module)
    with pytest.raises(SystemExit) as ended:
        run_selftest(wrong, as_json=True)
    said = capsys.readouterr()
    assert ended.value.code == 1
    assert not json.loads(said.out)["equal"]
    assert said.err.startswith(f"differs: {first}")
    assert " of 5,000 entries differ, the first one is " in said.err


def test_after_kills_nothing_is_lost_and_nothing_counted_twice(
    fediac: Command,
) -> None:
    document = fediac.json("selftest", *SMALL, "--chaos", "4", "--seed", "2")
    assert (document["equal"], document["kills"]) == (True, 4)
    assert document["rounds"] >= 2


def test_attacks_change_nothing() -> None:
    attacked = attack(1, CHILD, lambda _: None)
    assert attacked.differences == []
    assert attacked.n_accepted == 0
    assert set(attacked.sent) == set(ATTACKS)
    assert min(attacked.sent.values()) > 50  # of every kind
    assert 0 < attacked.answered_bytes <= attacked.sent_bytes


@pytest.mark.parametrize(
    ("mistake", "kind"),
    [
        ("tags", "cross_job"),
        ("addresses", "replayed"),
        ("cookies", "replayed"),
        ("openings", "member"),
    ],
)
def test_a_switch_that_lets_strangers_in_is_noticed(
    mistake: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDIAC_MISTAKE", mistake)
    module = "tests.integration.wrong_children"
    attacked = attack(1, module, lambda _: None, kinds=[kind])
    assert attacked.n_accepted > 0
    assert attacked.differences[0].startswith("attack: a ")


def heed_interrupts() -> None:
    """A shell's background commands ignore them, and so do tests that run in one."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells what still runs")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_when_it_is_stopped(number: int) -> None:
    command = [sys.executable, "-m", "fediac", "selftest", "--rounds", "1000"]
    with subprocess.Popen(
        [*command, "--dim", "5000"],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    ) as process:
        try:
            while len(processes_of(process.pid)) < 2:
                assert process.poll() is None, process.communicate()
            process.send_signal(number)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == (130 if number == signal.SIGINT else -9)
    assert err == ("" if number == signal.SIGKILL else "stopped\n")
    for pid in processes_of(process.pid):  # the system kills them just now
        select.select([os.pidfd_open(pid)], [], [], 60)
    assert processes_of(process.pid) == []


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--loss", "1"), "--loss must be at least 0 and below 1, got 1"),
        (
            ("--clients", "65", "--chaos", "1"),
            "--chaos needs a process for each client, and there are at most 64, got 65 "
            "clients",
        ),
        (("--clients", "1025"), "--clients must be in 1..1024, got 1025"),
        (
            ("--algorithm", "topk"),
            "--algorithm 'topk' cannot be run through a switch over a network; there "
            "are fediac, switchml, omnireduce, all",
        ),
    ],
)
def test_what_cannot_be_done_is_said(
    fediac: Command, words: tuple[str, ...], text: str
) -> None:
    result = fediac("selftest", *words)
    assert (result.code, result.err) == (2, f"error: {text}\n")
