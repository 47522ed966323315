"""Rounds of a conductor, clients and a switch in processes that are killed."""

import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import fediac
from fediac.errors import ArgumentError, SessionError
from fediac.network.addresses import Endpoint
from fediac.wire.tag import session_key
from tests.support import bytes_of, refuses
from tests.switch_roles import (
    FIRST,
    N_CLIENTS,
    RECIPE,
    committed_rounds,
    holdings_of,
    made_again,
    start,
    update_of,
)
from tests.switches import KEY, running_switch

END_S = 60.0


def free_address(host: str = "127.0.0.1") -> str:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as server:
        return str(Endpoint.of(server.getsockname()))


class Cast:
    """All processes of a test; none is left behind."""

    def __init__(self, folder: Path, switch: str, **environment: str) -> None:
        self.folder, self.switch, self.environment = folder, switch, environment
        self.address = free_address(Endpoint.parse(switch, name="switch").host)
        self.all: list[subprocess.Popen[str]] = []

    def conductor(self, n_rounds: int, enough: int) -> "subprocess.Popen[str]":
        where = (self.address, self.switch, self.folder)
        made = self._start("conductor", *where, n_rounds, enough)
        assert line_of(made) == self.address
        return made

    def client(self, number: int) -> "subprocess.Popen[str]":
        made = self._start(str(number), self.address, self.switch, self.folder)
        assert line_of(made) == "here"
        return made

    def _start(self, role: str, *more: object) -> "subprocess.Popen[str]":
        made = start(role, *more, **self.environment)
        self.all.append(made)
        return made

    def end(self) -> None:
        for each in self.all:
            each.kill()
            each.communicate()


def line_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate()
    return line.strip()


def kill(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGKILL)
    process.wait(END_S)


def require_well(process: "subprocess.Popen[str]") -> None:
    _, err = process.communicate(timeout=END_S)
    assert process.returncode == 0, err


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def cast_of(stack: ExitStack, folder: Path, switch: str, **environment: str) -> Cast:
    cast = Cast(folder, switch, **environment)
    stack.callback(cast.end)
    return cast


def require_as_in_memory(folder: Path, n_rounds: int) -> None:
    """Compare what all ended with, with the same rounds in memory."""
    records = committed_rounds(folder)
    assert len(records) == n_rounds
    model, states = made_again(records)
    for client, holds in enumerate(holdings_of(folder)):
        assert holds.model.round_number == n_rounds
        assert bytes_of(holds.model.values) == bytes_of(model)
        assert bytes_of(holds.state.residual) == bytes_of(states[client].residual)
        assert holds.work is None, "an update that counts is not held as well"


def test_whoever_is_killed_no_update_is_lost_or_counted_twice(
    stack: ExitStack, tmp_path: Path
) -> None:
    running = stack.enter_context(running_switch())
    listen = str(running.endpoint)
    cast = cast_of(stack, tmp_path, listen)
    conductor = cast.conductor(8, N_CLIENTS)
    clients = [cast.client(i) for i in range(N_CLIENTS)]
    assert line_of(conductor) == "0 1 2"
    kill(clients[1])
    clients[1] = cast.client(1)
    assert line_of(conductor) == "0 1 2"
    kill(conductor)
    conductor = cast.conductor(8, N_CLIENTS)
    assert line_of(conductor) == "0 1 2"
    kill(running.process)
    stack.enter_context(running_switch(listen=listen))
    kill(clients[2])
    clients[2] = cast.client(2)
    for process in (conductor, *clients):
        require_well(process)
    require_as_in_memory(tmp_path, 8)


def test_rounds_go_on_without_the_dead_once_enough_are_there(
    stack: ExitStack, tmp_path: Path
) -> None:
    running = stack.enter_context(running_switch())
    cast = cast_of(stack, tmp_path, str(running.endpoint))
    clients = [cast.client(i) for i in range(N_CLIENTS)]  # they wait for it
    conductor = cast.conductor(3, 2)
    assert line_of(conductor) == "0 1 2"
    kill(clients[2])
    while line_of(conductor) != "0 1":  # it may have been killed behind its last packet
        pass
    require_well(conductor)
    for process in clients[:2]:
        require_well(process)
    records = committed_rounds(tmp_path)
    model, states = made_again(records)
    for client, holds in enumerate(holdings_of(tmp_path)[:2]):
        assert bytes_of(holds.model.values) == bytes_of(model)
        assert bytes_of(holds.state.residual) == bytes_of(states[client].residual)


def test_a_client_that_missed_rounds_gets_the_model(
    stack: ExitStack, tmp_path: Path
) -> None:
    running = stack.enter_context(running_switch())
    cast = cast_of(stack, tmp_path, str(running.endpoint))
    first = cast.conductor(2, 2)
    clients = [cast.client(i) for i in range(2)]
    for process in (first, *clients):
        require_well(process)
    assert [each.members for each in committed_rounds(tmp_path)] == [(0, 1)] * 2
    second = cast.conductor(3, N_CLIENTS)
    clients = [cast.client(i) for i in range(N_CLIENTS)]
    for process in (second, *clients):
        require_well(process)
    require_as_in_memory(tmp_path, 3)


def test_with_a_key_over_ipv6_all_is_the_same_and_another_key_is_refused(
    stack: ExitStack, tmp_path: Path
) -> None:
    path = tmp_path / "switch.key"
    path.write_text(KEY.hex())
    path.chmod(0o600)
    running = stack.enter_context(
        running_switch("--key-file", str(path), listen="[::1]:0")
    )
    cast = cast_of(stack, tmp_path, str(running.endpoint), FEDIAC_KEY=KEY.hex())
    conductor = cast.conductor(2, N_CLIENTS)
    for other in (bytes(32), KEY):  # clients have no use for the job's own
        cast.environment["FEDIAC_KEY"] = other.hex()
        stranger = cast.client(0)
        _, err = stranger.communicate(timeout=END_S)
        assert stranger.returncode == 1
        assert f"{cast.address}: the other side has another key for this job" in err
    own = fediac.member_key(KEY)
    cast.environment["FEDIAC_KEY"] = own.hex()
    clients = [cast.client(i) for i in range(N_CLIENTS)]
    for process in (conductor, *clients):
        require_well(process)
    require_as_in_memory(tmp_path, 2)
    # With the members' key, and all that is in their folders, nobody opens a session.
    records = committed_rounds(tmp_path)
    held = b"".join(each.read_bytes() for each in tmp_path.glob("client-*/*"))
    keys = [session_key(KEY, each.session) for each in records]
    assert not any(key in held for key in (KEY, *keys))
    with (
        fediac.Coordinator(str(running.endpoint), job=1, key=own) as coordinator,
        pytest.raises(SessionError, match="another key for this job"),
    ):
        coordinator.open(N_CLIENTS)


# Silence: each has its own message, within a bound that is a setting.


def conductor_of(
    tmp_path: Path, switch: str, *, key: bytes | None = None, round_s: float = 1.0
) -> fediac.Conductor:
    bounds = fediac.Bounds(switch_s=0.3, gather_s=0.2, round_s=round_s, goodbye_s=0.1)
    return fediac.Conductor(
        switch,
        RECIPE,
        FIRST,
        job=3,
        journal=tmp_path / "journal",
        key=key,
        bounds=bounds,
    )


def test_clients_that_never_come_are_named(tmp_path: Path) -> None:
    text = "round 1 was not made within 1 s, waiting for clients 4, 7"
    with (
        conductor_of(tmp_path, "127.0.0.1:9") as conductor,
        refuses(text, SessionError),
    ):
        conductor.run_round([7, 4])


def test_a_client_without_a_conductor_says_so(tmp_path: Path) -> None:
    address = free_address()
    client = fediac.Participant(address, RECIPE, client=2, folder=tmp_path, wait_s=0.3)
    text = (
        f"client 2: no word from the conductor at {address} for 0.3 s: connection "
        "refused"
    )
    with refuses(text, SessionError):
        client.run(lambda _, number: update_of(2, number))


def test_a_conductor_for_other_machines_needs_a_key(tmp_path: Path) -> None:
    text = (
        "listen must be a loopback address without a key, such as 127.0.0.1:0, got "
        "0.0.0.0:0; give a key, or insecure=True"
    )
    with refuses(text, ArgumentError):
        fediac.Conductor(
            "127.0.0.1:9",
            RECIPE,
            FIRST,
            job=3,
            journal=tmp_path / "journal",
            listen="0.0.0.0:0",
        )
