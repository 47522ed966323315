"""`fediac run --switch`: the same bits as in memory, whoever is killed meanwhile."""

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from fediac.remote.client_processes import ClientProcesses
from fediac.remote.switch import RemoteSwitch
from fediac.runs.loop import run_experiment
from fediac.runs.observers import NoObserver
from fediac.wire.status import Report, Status
from tests.integration.command import Command
from tests.switches import Peer, RunningSwitch, running_switch
from tests.tiny import make_settings, read_lines, write_config

KINDS = {"one process": RemoteSwitch, "processes": ClientProcesses}
NORMED = {"name": "tests.tiny:normed_model"}
CHANGES: dict[str, dict[str, Any]] = {
    "fediac": {"clients": {"n_clients": 5, "weights": "examples"}},  # 19 or 20 each
    "switchml": {"algorithm": "switchml"},
    "omnireduce": {"algorithm": "omnireduce"},
}


@pytest.fixture(scope="module")
def switch() -> Iterator[RunningSwitch]:
    with running_switch() as running:
        yield running


def run(folder: Path, name: str, elsewhere: RemoteSwitch | None, **changes: Any) -> Any:
    settings = make_settings(folder / "data", **changes)
    out = folder / name
    summary = run_experiment(settings, out, resumes=False, elsewhere=elsewhere)
    model = (out / "model.safetensors").read_bytes()
    return model, read_lines(out), summary.rounds


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CHANGES)
def test_a_run_over_udp_is_the_run_in_memory(
    tmp_path: Path, switch: RunningSwitch, name: str, kind: str
) -> None:
    changes = CHANGES[name] | {"model": NORMED, "stop": {"rounds": 2}}
    expected = run(tmp_path, "memory", None, **changes)
    elsewhere = KINDS[kind](str(switch.endpoint))
    try:
        assert run(tmp_path, "udp", elsewhere, **changes) == expected
        assert elsewhere.n_retries == 0
    finally:
        elsewhere.close()


@pytest.mark.parametrize("kind", KINDS)
def test_of_clients_that_are_absent_a_switch_elsewhere_knows_nothing(
    tmp_path: Path, switch: RunningSwitch, kind: str
) -> None:
    changes = CHANGES["omnireduce"] | {"clients": {"n_participants": 2}}
    model, lines, _ = run(tmp_path, "memory", None, **changes)
    elsewhere = KINDS[kind](str(switch.endpoint))
    try:
        there = run(tmp_path, "udp", elsewhere, **changes)
    finally:
        elsewhere.close()
    assert there[0] == model
    for here, far in zip(lines, there[1], strict=True):
        # A session there has two members, not three of which one is absent.
        assert far.pop("register_bytes") < here.pop("register_bytes")
    assert there[1] == lines


def test_a_round_is_tried_again_when_a_client_and_the_switch_are_killed_in_it(
    tmp_path: Path,
) -> None:
    changes = {"model": NORMED, "stop": {"rounds": 3}}
    expected = run(tmp_path, "memory", None, **changes)
    with running_switch() as first, ExitStack() as stack:
        listen = str(first.endpoint)
        elsewhere = ClientProcesses(listen, patience_s=1.0)
        stack.callback(elsewhere.close)
        second = partial(stack.enter_context, running_switch(listen=listen))
        run_experiment(
            make_settings(tmp_path / "data", **changes),
            tmp_path / "udp",
            resumes=False,
            elsewhere=elsewhere,
            observer=Killer(elsewhere, first, second),
        )
    model = (tmp_path / "udp" / "model.safetensors").read_bytes()
    assert (model, read_lines(tmp_path / "udp")) == expected[:2]
    assert elsewhere.n_retries >= 2


class Killer(NoObserver):
    """Kills a client in the second round, and the switch in the third."""

    def __init__(
        self,
        clients: ClientProcesses,
        switch: RunningSwitch,
        start_second: Callable[[], object],
    ) -> None:
        self.clients, self.switch = clients, switch
        self.start_second = start_second

    def start(self, *_: object) -> None:
        pass

    def client_done(self) -> None:
        pass

    def round_done(self, record: Any) -> None:
        if record.number <= 2:
            pid = self.clients.pids()[1]
            os.kill(pid, signal.SIGSTOP)  # so that the others wait for it
            strike = self.kill_client if record.number == 1 else self.kill_switch
            threading.Thread(target=strike, args=(pid,), daemon=True).start()

    def kill_client(self, pid: int) -> None:
        self.wait_for_others()
        os.kill(pid, signal.SIGKILL)

    def kill_switch(self, pid: int) -> None:
        self.wait_for_others()
        self.switch.process.kill()
        self.switch.process.wait()
        self.start_second()
        os.kill(pid, signal.SIGCONT)

    def wait_for_others(self) -> None:
        """Wait until all other clients are in the session."""
        with Peer.of(self.switch.endpoint) as peer:
            for number in count(1):
                report = peer.prove(Status(number))
                assert isinstance(report, Report)
                if report.n_members == 2:
                    return


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return write_config(
        tmp_path, train={"steps": 2}, fediac={"n_votes": "20%", "threshold": 2}
    )


def test_the_command_gives_every_client_a_process(
    command: Command, config: Path, tmp_path: Path, switch: RunningSwitch
) -> None:
    address = str(switch.endpoint)
    here = command("run", config, "--out", tmp_path / "a")
    options = ("--switch", address, "--processes")
    there = command("run", config, "--out", tmp_path / "b", *options)
    assert (here.code, there.code) == (0, 0), (here.err, there.err)
    assert read_lines(tmp_path / "a") == read_lines(tmp_path / "b")


@pytest.mark.parametrize("algorithm", ["fedavg", "topk", "libra"])
def test_what_needs_a_far_server_is_refused_with_what_to_use(
    command: Command, config: Path, tmp_path: Path, algorithm: str
) -> None:
    result = command(
        *("run", config, "--out", tmp_path / "out", "--set", f"algorithm={algorithm}"),
        *("--switch", "127.0.0.1:9"),
    )
    assert result.code == 2
    assert result.err == (
        f"error: --switch: {algorithm} sends floats to a far server, and a switch adds "
        "integers alone; take one of fediac, switchml, omnireduce, or run without "
        "--switch\n"
    )


@pytest.mark.parametrize("options", [("--processes",), ("--wait", "5")])
def test_what_is_about_a_switch_is_refused_without_one(
    command: Command, config: Path, options: tuple[str, ...]
) -> None:
    result = command("run", config, *options)
    said = " ".join(options)
    assert result.code == 2
    assert result.err == f"error: {said} needs --switch HOST:PORT, got none\n"


def test_a_run_that_begins_before_its_switch_waits_for_it(
    tmp_path: Path,
) -> None:
    expected = run(tmp_path, "memory", None)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
    elsewhere = RemoteSwitch(listen, patience_s=0.2)
    is_tried = threading.Event()
    said: list[str] = []

    def note(why: str) -> None:
        said.append(why)
        is_tried.set()

    elsewhere.on_retry = note
    done: list[Any] = []
    thread = threading.Thread(
        target=lambda: done.append(run(tmp_path, "udp", elsewhere))
    )
    thread.start()
    assert is_tried.wait(30)
    with running_switch(listen=listen):
        thread.join(30)
    assert done == [expected]
    assert f"no answer from the switch for 0.2 s, nobody listens at {listen}" in said[0]
