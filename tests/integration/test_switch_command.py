"""`fediac switch` as a process: a round over UDP, how it begins, speaks and ends."""

import json
import os
import signal
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from fediac.wire.control import Abort, Close, Closed, Ending, Refusal, read_control
from fediac.wire.header import EVERYONE, Reason
from fediac.wire.status import Report, Status
from tests.integration.command import Command
from tests.packets import gia
from tests.switches import (
    ASKED,
    KEY,
    Peer,
    joined,
    running_switch,
    votes,
)

KERNELS = ("0", "1")
"""FEDIAC_NATIVE: the loop in Python, and in C."""

HOSTS = ("127.0.0.1", "[::1]")


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "switch.key"
    path.write_text(KEY.hex() + "\n")
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("host", HOSTS)
def test_a_tally_crosses_udp_and_everybody_gets_the_gia(
    host: str, kernels: str, key_file: Path
) -> None:
    options = ("--key-file", str(key_file))
    with (
        running_switch(*options, listen=f"{host}:0", FEDIAC_NATIVE=kernels) as switch,
        joined(switch.endpoint, key=KEY) as members,
    ):
        for client, mask in ((0, 0b01), (2, 0), (1, 0b11)):
            members.peers[client].send(votes(ASKED, client, mask))
        answers = [peer.receive() for peer in members.peers]
        assert [gia(answer) for answer in answers] == ["10"] * 3
        assert {answer.client for answer in answers} == {EVERYONE}
        again = members.peers[1].ask(votes(ASKED, 1, 0b11))
        assert (again.client, gia(again)) == (1, "10")


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly_and_all_members_are_told(
    number: int, kernels: str
) -> None:
    with (
        running_switch(FEDIAC_NATIVE=kernels) as switch,
        joined(switch.endpoint) as members,
    ):
        code, last, err = switch.stop(number)
        told = [peer.receive() for peer in (members.coordinator, *members.peers)]
        expected = Abort(ASKED.session, Ending.CLOSED)
        assert [read_control(each) for each in told] == [expected] * 4
        assert (code, last["event"], err) == (0, "stopped", "")
        # Cookie and answer for each of them, then an abort.
        assert last["packets_out"] == 3 * 4


@pytest.mark.parametrize("kernels", KERNELS)
def test_a_killed_switch_says_afterwards_that_it_knows_no_session(
    kernels: str,
) -> None:
    with (
        running_switch(FEDIAC_NATIVE=kernels) as switch,
        joined(switch.endpoint) as members,
    ):
        switch.stop(signal.SIGKILL)
        again = str(switch.endpoint)
        with running_switch(listen=again, FEDIAC_NATIVE=kernels):
            told = read_control(members.peers[0].ask(votes(ASKED, 0, 1)))
        assert told == Refusal(ASKED.session, 0, Reason.UNKNOWN_SESSION)


@pytest.mark.parametrize("kernels", KERNELS)
def test_a_silent_member_ends_its_session_without_any_packet(kernels: str) -> None:
    asked = replace(ASKED, silence_ms=1500)
    with (
        running_switch(FEDIAC_NATIVE=kernels) as switch,
        joined(switch.endpoint, asked) as members,
    ):
        told = read_control(members.peers[0].receive())
        assert isinstance(told, Abort)
        assert told.ending == Ending.SILENT
        assert told.missing[0] == 0


def test_it_says_what_it_got_and_shows_readings(key_file: Path) -> None:
    options = ("--memory", "64KiB", "--max-jobs", "2", "--key-file", str(key_file))
    with running_switch(*options) as switch:
        got = switch.first
        reading = switch.line()
    assert (got["event"], got["register_bytes"], got["max_jobs"]) == (
        "listening",
        1 << 16,
        2,
    )
    assert got["buffer_packets"] == got["buffer_bytes"] // 2304
    assert (got["has_key"], got["page"]) == (True, None)
    assert (reading["event"], reading["register_bytes"]) == ("reading", 1 << 16)
    assert KEY.hex() not in json.dumps([got, reading])


def test_status_asks_a_running_switch(fediac: Command, key_file: Path) -> None:
    with (
        running_switch("--key-file", str(key_file)) as switch,
        joined(switch.endpoint, key=KEY),
    ):
        where = str(switch.endpoint)
        document = fediac.json("switch", "status", where, "--key-file", key_file)
        said = fediac("switch", "status", where, "--key-file", key_file)
        without = fediac("switch", "status", where)
    assert (document["address"], document["n_jobs"]) == (where, 1)
    assert (document["n_members"], document["max_jobs"]) == (3, 4)
    assert said.code == 0
    assert said.out.startswith(f"{where} has been up for ")
    assert "1 of 4 jobs" in said.out
    wrong = "error: the switch wants a key, or another one\n"
    assert (without.code, without.out, without.err) == (8, "", wrong)


def test_status_of_nobody_ends_in_time(fediac: Command) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        result = fediac("switch", "status", where, "--timeout", "0.1")
    expected = f"error: no switch answers at {where}: nothing came within 0.1 s\n"
    assert (result.code, result.err) == (7, expected)


def test_a_report_is_not_longer_than_its_question_and_needs_a_cookie() -> None:
    with running_switch() as switch, Peer.of(switch.endpoint) as asking:
        report = asking.prove(Status(5))
        assert isinstance(report, Report)
        assert report.packets_in == 2


def test_closing_is_answered() -> None:
    with running_switch() as switch, joined(switch.endpoint) as members:
        closed = Close(ASKED.session, ASKED.job, ASKED.epoch)
        first = members.coordinator.prove(closed)
        assert first in (Closed(100), Abort(100, Ending.CLOSED))
        assert read_control(members.peers[0].receive()) == Abort(100, Ending.CLOSED)


def test_an_address_in_use_is_an_exit_code_of_its_own(fediac: Command) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        result = fediac("switch", "--listen", where)
    expected = f"error: cannot listen on {where}: address already in use\n"
    assert (result.code, result.out, result.err) == (3, "", expected)


def test_a_port_that_needs_root_is_an_exit_code_of_its_own(fediac: Command) -> None:
    lowest = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
    if os.geteuid() == 0 or not lowest.exists() or int(lowest.read_text()) < 2:
        pytest.skip("unprivileged ports: this user may listen on every port")
    result = fediac("switch", "--listen", "127.0.0.1:1")
    expected = "error: cannot listen on 127.0.0.1:1: permission denied\n"
    assert (result.code, result.err) == (4, expected)


def test_an_address_of_another_machine_is_an_exit_code_of_its_own(
    fediac: Command,
) -> None:
    result = fediac("switch", "--listen", "192.0.2.1:0", "--insecure")
    expected = "error: cannot listen on 192.0.2.1:0: cannot assign requested address\n"
    assert (result.code, result.err) == (5, expected)


def test_without_a_key_it_listens_on_loopback_only(fediac: Command) -> None:
    result = fediac("switch", "--listen", "0.0.0.0:0")
    expected = (
        "error: 0.0.0.0:0 can be reached from other machines: give --key-file with a "
        "key for all jobs, or --insecure to let anybody open sessions\n"
    )
    assert (result.code, result.out, result.err) == (2, "", expected)


def test_a_key_or_saying_so_lets_other_machines_in() -> None:
    with running_switch(listen="0.0.0.0:0", FEDIAC_KEY=KEY.hex()) as switch:
        assert switch.first["has_key"]
    with running_switch("--insecure", listen="[::]:0") as switch:
        assert not switch.first["has_key"]


def test_an_ipv6_socket_for_everybody_takes_ipv4_too() -> None:
    with running_switch("--insecure", listen="[::]:0") as switch:
        where = type(switch.endpoint)("127.0.0.1", switch.endpoint.port)
        with joined(where) as members:
            for client in range(3):
                members.peers[client].send(votes(ASKED, client, 0b11))
            assert [gia(each.receive()) for each in members.peers] == ["11"] * 3


def test_a_bad_key_file_is_an_exit_code_of_its_own(
    fediac: Command, tmp_path: Path
) -> None:
    path = tmp_path / "none.key"
    result = fediac("switch", "--key-file", path)
    expected = f"error: {path}: no such file or directory\n"
    assert (result.code, result.err) == (6, expected)


def test_settings_come_from_a_file_and_options_override_them(tmp_path: Path) -> None:
    config = tmp_path / "switch.toml"
    config.write_text(
        'listen = "127.0.0.1:1"\nmemory = "128KiB"\nmax_jobs = 8\nhttp = "0"\n'
    )
    options = ("--config", str(config), "--max-jobs", "2")
    with running_switch(*options) as switch:
        got = switch.first
    assert (got["register_bytes"], got["max_jobs"]) == (1 << 17, 2)
    assert got["page"].startswith("127.0.0.1:")


def test_an_unknown_setting_is_named(fediac: Command, tmp_path: Path) -> None:
    config = tmp_path / "switch.toml"
    config.write_text("max_job = 8\n")
    result = fediac("switch", "--config", config)
    expected = f"error: {config}: unknown key 'max_job'; did you mean 'max_jobs'?\n"
    assert (result.code, result.err) == (2, expected)
