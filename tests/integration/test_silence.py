"""What goes wrong between members and a switch: each has its own words, in time.

Both values stand in a message wherever there are two. Each is raised within a bound
that is a setting: a test that waits for longer fails.
"""

import re
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fediac
from fediac.core.rng import Stream
from fediac.errors import SessionError
from fediac.wire.header import VERSION, Flag, Kind, Reason
from fediac.wire.packet import Packet, encode
from fediac.wire.tag import session_key
from tests.integration.command import Command
from tests.support import normal_update, refuses
from tests.switches import KEY, RunningSwitch, running_switch
from tests.tiny import write_config

END_S = 30.0
OTHER_KEY = bytes(32)


@pytest.fixture(scope="module")
def switch() -> Iterator[RunningSwitch]:
    with running_switch() as running:
        yield running


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSwitch]:
    path = tmp_path_factory.mktemp("key") / "switch.key"
    path.write_text(KEY.hex())
    path.chmod(0o600)
    with running_switch("--key-file", str(path)) as running:
        yield running


@contextmanager
def answering(answer: Callable[[bytes], bytes | None]) -> Iterator[str]:
    """Stand at an address where a switch should be."""
    is_over = threading.Event()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.bind(("127.0.0.1", 0))
        opened.settimeout(0.05)

        def serve() -> None:
            while not is_over.is_set():
                try:
                    data, where = opened.recvfrom(2048)
                except TimeoutError:
                    continue
                told = answer(data)
                if told is not None:
                    opened.sendto(told, where)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{opened.getsockname()[1]}"
        finally:
            is_over.set()
            thread.join()


def unused() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


def run_client(
    address: str, session: int, client: int, *, threshold: int = 2, dim: int = 3000
) -> Any:
    compressor = fediac.FediAC(2, n_votes="10%", threshold=threshold)
    with fediac.SwitchClient(
        address, session=session, client=client, patience_s=0.5
    ) as door:
        return door.run(
            compressor.run_round(
                normal_update(dim), fediac.State(), Stream(1, 1, client)
            )
        )


def problems(futures: list[Future[Any]]) -> list[str]:
    found = (each.exception(END_S) for each in futures)
    return [str(each) for each in found if each is not None]


OWN_SETTINGS: dict[str, tuple[dict[str, int], str, str]] = {
    "threshold": (
        {"threshold": 1},
        "a tally with threshold 2, this one a tally with threshold 1",
        "a tally with threshold 1, this one a tally with threshold 2",
    ),
    "model": ({"dim": 2900}, "3000 items, this one 2900", "2900 items, this one 3000"),
}


@pytest.mark.parametrize("name", OWN_SETTINGS)
def test_another_setting_is_named_beside_that_of_the_others(
    switch: RunningSwitch, name: str
) -> None:
    own, *texts = OWN_SETTINGS[name]
    address = str(switch.endpoint)
    with (
        fediac.Coordinator(address, job=1) as coordinator,
        coordinator.open(2) as session,
        ThreadPoolExecutor(2) as pool,
    ):
        futures = [
            pool.submit(run_client, address, session.number, 0),
            pool.submit(run_client, address, session.number, 1, **own),
        ]
        # Who comes second is told; the other one waits until the session ends.
        wait(futures, END_S, FIRST_COMPLETED)
        session.close()
        said = problems(futures)
    expected = [
        f"session {session.number}: exchange 0, packet 0: the others have {text}; are "
        "all members' settings the same?"
        for text in texts
    ]
    assert any(each in expected for each in said), said


def test_another_packet_size_is_named_beside_the_sessions(
    switch: RunningSwitch,
) -> None:
    address = str(switch.endpoint)
    with (
        fediac.Coordinator(address, job=1) as coordinator,
        coordinator.open(2) as session,
    ):
        text = (
            f"session {session.number}: packets have 1408 bytes of payload there, not "
            "1344"
        )
        with refuses(text, SessionError):
            fediac.SwitchClient(address, session=session.number, client=0, mtu=1412)


def test_another_version_is_named_beside_our_own() -> None:
    def answer(data: bytes) -> bytes:
        told = Packet(Kind.ERROR, 1, 0, 0, flags=Flag.ANSWER, part=Reason.VERSION)
        made = bytearray(encode(told))
        made[2], made[4:12] = 9, data[4:12]
        return bytes(made)

    version = f"the switch speaks version 9 of the protocol, not {VERSION}"
    with answering(answer) as address:
        with (
            fediac.Coordinator(address, job=1, patience_s=0.3) as coordinator,
            pytest.raises(SessionError, match=f"for 0.3 s; {version}$"),
        ):
            coordinator.open(2)
        with pytest.raises(SessionError, match=f"for 0.3 s; {version} "):
            fediac.SwitchClient(address, session=5, client=0, patience_s=0.3)


def test_another_jobs_key_is_refused(keyed: RunningSwitch) -> None:
    address = str(keyed.endpoint)
    with (
        fediac.Coordinator(address, job=1, key=OTHER_KEY, patience_s=1.0) as stranger,
        pytest.raises(SessionError, match=r"the switch has another key for this job$"),
    ):
        stranger.open(2)
    with (
        fediac.Coordinator(address, job=1, key=KEY) as coordinator,
        coordinator.open(2) as session,
    ):
        text = (
            f"session {session.number}: no answer from the switch for 0.3 s; it has "
            "another key for this job (has not joined)"
        )
        with refuses(text, SessionError):
            fediac.SwitchClient(
                address,
                session=session.number,
                client=0,
                key=session_key(OTHER_KEY, session.number),
                patience_s=0.3,
            )
        with refuses("key must be a session's, of 16 bytes, got 32"):
            fediac.SwitchClient(
                address, session=session.number, client=0, key=OTHER_KEY
            )


def test_a_session_that_is_none_is_named(switch: RunningSwitch) -> None:
    text = "session 77: the switch knows no such session; it has been restarted"
    with refuses(text, SessionError):
        fediac.SwitchClient(str(switch.endpoint), session=77, client=0)


def test_a_member_that_is_none_is_named(switch: RunningSwitch) -> None:
    address = str(switch.endpoint)
    with (
        fediac.Coordinator(address, job=1) as coordinator,
        coordinator.open(2) as session,
    ):
        text = (
            f"session {session.number}: no such member: of 2 clients and their "
            "observers, 5 is none in this role"
        )
        with refuses(text, SessionError):
            fediac.SwitchClient(address, session=session.number, client=5)


def test_a_full_switch_says_how_many_jobs_it_takes() -> None:
    with running_switch("--max-jobs", "1") as running:
        address = str(running.endpoint)
        with (
            fediac.Coordinator(address, job=1) as first,
            first.open(2),
            fediac.Coordinator(address, job=2) as second,
            pytest.raises(
                SessionError,
                match=r"the switch takes 1 jobs at a time, and this would be number 2$",
            ),
        ):
            second.open(2)


def test_too_little_memory_is_named_beside_what_a_session_takes() -> None:
    with running_switch("--memory", "4096") as running:
        address = str(running.endpoint)
        pattern = (
            r"a job has 1024 register bytes on this switch, and the session takes at "
            r"least [0-9]+$"
        )
        with (
            fediac.Coordinator(address, job=1) as coordinator,
            pytest.raises(SessionError, match=pattern) as why,
        ):
            coordinator.open(200)
        assert why.value.is_final


def test_a_switch_that_says_nothing_is_not_waited_for_longer() -> None:
    with (
        answering(lambda _: None) as address,
        fediac.Coordinator(address, job=1, patience_s=0.3) as coordinator,
        pytest.raises(SessionError, match=r": no answer from the switch for 0\.3 s$"),
    ):
        coordinator.open(2)


def test_where_nobody_listens_that_is_said() -> None:
    address = unused()
    text = f": no answer from the switch for 0.3 s, nobody listens at {address}"
    with (
        fediac.Coordinator(address, job=1, patience_s=0.3) as coordinator,
        pytest.raises(SessionError, match=f"{re.escape(text)}$"),
    ):
        coordinator.open(2)


def test_a_switch_that_falls_silent_in_a_round_leaves_named_packets() -> None:
    with running_switch() as running, ThreadPoolExecutor(1) as pool:
        address = str(running.endpoint)
        with (
            fediac.Coordinator(address, job=1) as coordinator,
            coordinator.open(1) as session,
        ):
            with fediac.SwitchClient(
                address, session=session.number, client=0, patience_s=0.5
            ) as door:
                running.process.send_signal(signal.SIGSTOP)
                compressor = fediac.FediAC(1, n_votes="10%", threshold=1)
                update = np.ones(100_000, dtype=np.float32)
                run = compressor.run_round(update, fediac.State(), Stream(1, 1, 0))
                future = pool.submit(door.run, run)
                assert problems([future]) == [
                    f"session {session.number}: no answer from the switch for 0.5 s, "
                    "exchange 0: 9 of 9 packets (first: 0)"
                ]
            running.process.send_signal(signal.SIGCONT)


def test_a_run_gives_up_when_the_time_to_wait_is_over(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = write_config(tmp_path, clients={"n_clients": 2})
    address = unused()
    options = ("--switch", address, "--wait", "1")
    result = Command(capsys)("run", config, "--out", tmp_path / "out", *options)
    assert result.code == 2
    tail = f"nobody listens at {address}; gave up after 1 s ({address})\n"
    assert result.err.endswith(tail)
    assert "no answer from the switch for 3 s" in result.err
