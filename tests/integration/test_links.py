"""Rounds through a switch in a network namespace, over a link that loses and limits."""

import ctypes
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import fediac
from fediac.core.rng import Stream
from tests.support import normal_update
from tests.switches import RunningSwitch

N, DIM, SEED = 3, 400_000, 7
COMPRESSOR = fediac.FediAC(N, n_votes="10%", threshold=2)
HUB, HOME = "10.213.77.1", "10.213.77.2"
"""Where the switch is, and where all others are."""

CLONE_NEWNET = 0x40000000
LOSS = int(0.05 * (1 << 32))
RATE = "40mbit"

# Classic BPF: a packet is dropped, 2, where a random number is below LOSS.
_RANDOM_AT = 0xFFFFF000 + 56
DROP = f"4,32 0 0 {_RANDOM_AT},53 0 1 {LOSS},6 0 0 0,6 0 0 2"


def why_not() -> str:
    """Return why there can be no namespaces here; empty: there can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "network namespaces: needs root on Linux"
    missing = [each for each in ("ip", "tc") if shutil.which(each) is None]
    if missing:
        return f"network namespaces: needs {' and '.join(missing)} (iproute2)"
    made = subprocess.run(["unshare", "--net", "true"], check=False)
    return "" if made.returncode == 0 else "network namespaces: not allowed here"


pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())


def run(line: str, *more: str) -> str:
    command = [*line.split(), *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


@dataclass(frozen=True)
class Link:
    """Two namespaces with a link between them, and its two ends."""

    hub: str
    home: str

    @property
    def ends(self) -> tuple[tuple[str, str], ...]:
        """The namespace and the device of each end."""
        return (self.hub, "tohome"), (self.home, "tohub")

    def limit(self) -> None:
        """Hold both directions to a rate."""
        for name, device in self.ends:
            run(
                f"tc -n {name} qdisc add dev {device} root tbf rate {RATE} burst 32kb "
                "latency 200ms"
            )

    def lose(self) -> None:
        """Lose packets in both directions."""
        for name, device in self.ends:
            run(f"tc -n {name} qdisc add dev {device} clsact")
            run(
                f"tc -n {name} filter add dev {device} egress protocol ip bpf da "
                "bytecode",
                DROP,
            )

    def counted(self, kind: str, what: str) -> list[int]:
        """Return what each end's queue of a kind has counted."""
        shown = [
            json.loads(run(f"tc -n {name} -s -j qdisc show dev {device}"))
            for name, device in self.ends
        ]
        return [each[what] for found in shown for each in found if each["kind"] == kind]


@pytest.fixture
def link() -> Iterator[Link]:
    made = Link(f"fediac-a-{os.getpid()}", f"fediac-b-{os.getpid()}")
    with ExitStack() as stack:
        for name in (made.hub, made.home):
            run(f"ip netns add {name}")
            stack.callback(run, f"ip netns del {name}")
        run(f"ip -n {made.hub} link add tohome type veth peer tohub netns {made.home}")
        for (name, device), address in zip(made.ends, (HUB, HOME), strict=True):
            run(f"ip -n {name} addr add {address}/24 dev {device}")
            run(f"ip -n {name} link set {device} up")
        yield made


@contextmanager
def switch_in(name: str, **environment: str) -> Iterator[RunningSwitch]:
    """Start a switch in a namespace."""
    command = [sys.executable, "-m", "fediac", "switch", "--json", "--insecure"]
    with subprocess.Popen(
        ["ip", "netns", "exec", name, *command, "--listen", f"{HUB}:0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    ) as process:
        try:
            yield RunningSwitch(process)
        finally:
            process.kill()


@contextmanager
def within(name: str) -> Iterator[None]:
    """Let this thread, and those that it starts, be in a namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    with (
        Path("/proc/thread-self/ns/net").open() as before,
        Path(f"/run/netns/{name}").open() as there,
    ):
        assert libc.setns(there.fileno(), CLONE_NEWNET) == 0, os.strerror(
            ctypes.get_errno()
        )
        try:
            yield
        finally:
            assert libc.setns(before.fileno(), CLONE_NEWNET) == 0


def take_part(address: str, session: int, client: int) -> bytes:
    update = normal_update(DIM, seed=client)
    stream = Stream(SEED, 1, client)
    with fediac.SwitchClient(address, session=session, client=client) as door:
        done, _ = door.run(
            COMPRESSOR.run_round(update, fediac.State(), stream), round_number=1
        )
    mean: bytes = done.mean.dense(update).tobytes()
    return mean


def run_round(address: str) -> list[bytes]:
    """Return every client's mean of a round through a switch."""
    with (
        fediac.Coordinator(address, job=1) as coordinator,
        coordinator.open(N, round_number=1) as session,
        ThreadPoolExecutor(N) as pool,
    ):
        clients = [pool.submit(take_part, address, session.number, i) for i in range(N)]
        zeros = normal_update(DIM) * 0
        stream = Stream(SEED, 1, 0xFFFF)
        session.run(COMPRESSOR.run_round(zeros, fediac.State(), stream))
        session.commit()
        return [each.result() for each in clients]


@pytest.fixture(scope="module")
def expected() -> bytes:
    updates = [normal_update(DIM, seed=i) for i in range(N)]
    done = fediac.aggregate(updates, COMPRESSOR, seed=SEED, round_number=1)
    mean: bytes = done.mean.tobytes()
    return mean


@pytest.mark.parametrize("segments", ["1", "0"])
def test_a_link_that_loses_packets_both_ways_changes_no_bit(
    link: Link, expected: bytes, segments: str
) -> None:
    link.lose()
    with switch_in(link.hub, FEDIAC_UDP_GSO=segments) as switch, within(link.home):
        for _ in range(10):  # a round of few large packets may lose none by chance
            assert run_round(str(switch.endpoint)) == [expected] * N
            if min(link.counted("clsact", "drops")):
                return
    pytest.fail("no packet was lost in one of the directions")


def test_a_link_that_is_held_to_a_rate_changes_no_bit(
    link: Link, expected: bytes
) -> None:
    link.limit()
    with switch_in(link.hub) as switch, within(link.home):
        assert run_round(str(switch.endpoint)) == [expected] * N
    assert min(link.counted("tbf", "overlimits")) > 0
