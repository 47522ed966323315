"""Packets a second of a switch on UDP, beside an echo that sends the same replies.

    python -m benchmarks.bench_udp

Eight clients on this machine send full packets of votes and of 8-bit levels; each of
them gets every answer. The echo (benchmarks/udp_load.c) sends the same replies with
the same calls and looks at nothing but numbers: no tag, no registers. The server has
one core, the clients another. Answers that the kernel makes of one long datagram are
segments, and so are packets that clients send so: no machine passed them one by one.
CPU time is the server's own, for a packet that it takes and one that it sends. Rates
are the best of several runs, after one that is thrown away, in which all take turns.
"""

import ctypes
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fediac.network.addresses import Endpoint
from fediac.network.sockets import NO_SEGMENTS
from fediac.selftest.peers import key_for
from fediac.wire.control import Control, Cookie, Join, Open, read_control
from fediac.wire.header import HEADER, HEADER_BYTES, MAGIC, PAYLOAD_BYTES, VERSION, Kind
from fediac.wire.packet import decode, encode
from fediac.wire.tag import session_key, tag_packets, tagged

N_CLIENTS, N_PACKETS, N_RUNS, WINDOW = 8, 4_000, 15, 64
THRESHOLD = 3
LOOPBACK = "127.0.0.1"
KINDS = {"votes": Kind.TALLY, "levels": Kind.SUM}
SERVER_CORE, CLIENT_CORE = 0, 1
SESSION = Open(
    1 << 40,
    job=1,
    epoch=1,
    n_clients=N_CLIENTS,
    n_observers=0,
    payload_bytes=PAYLOAD_BYTES,
    lease_ms=600_000,
    silence_ms=600_000,
)

_UDP_GRO, _SOL_UDP = 104, 17


class _Load(ctypes.Structure):
    _fields_ = (
        ("fds", ctypes.c_void_p),
        ("rows", ctypes.c_void_p),
        ("n_clients", ctypes.c_uint64),
        ("n_packets", ctypes.c_uint64),
        ("n_bytes", ctypes.c_uint64),
        ("window", ctypes.c_uint64),
        ("joins", ctypes.c_int32),
        ("unused", ctypes.c_int32),
    )


@dataclass(frozen=True)
class Server:
    """Who answers: a process, where it listens, and the key of its session."""

    pid: int
    endpoint: Endpoint
    key: bytes

    def cpu_s(self) -> float:
        """Return the CPU time that it has had."""
        tasks = Path(f"/proc/{self.pid}/task").glob("*/schedstat")
        return sum(int(each.read_text().split()[0]) for each in tasks) / 1e9


@dataclass(frozen=True)
class Rate:
    """Packets a second that were taken and answered, and CPU time for each."""

    per_s: float
    cpu_us: float


def build_load(folder: Path) -> ctypes.CDLL:
    """Return the compiled clients and echo."""
    source = Path(__file__).with_name("udp_load.c")
    library = folder / "udp_load.so"
    compiler = os.environ.get("CC", "cc")
    command = [compiler, "-O3", "-shared", "-fPIC", str(source), "-o", str(library)]
    subprocess.run(command, check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.run_load.restype = ctypes.c_double
    return loaded


@contextmanager
def run_switch(*, joins: bool) -> Iterator[Server]:
    """Start a switch on a core of its own."""
    command = [sys.executable, "-m", "fediac", "switch", "--max-jobs", "1", "--json"]
    environment = os.environ | {NO_SEGMENTS: str(int(joins))}
    with subprocess.Popen(
        [*command, "--listen", f"{LOOPBACK}:0"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        os.sched_setaffinity(process.pid, {SERVER_CORE})
        assert process.stdout is not None
        first = process.stdout.readline()
        where = first.partition('"address": "')[2].partition('"')[0]
        try:
            yield Server(
                process.pid,
                Endpoint.parse(where, name="address"),
                session_key(None, SESSION.session),
            )
        finally:
            process.kill()


@contextmanager
def run_echo(load: ctypes.CDLL) -> Iterator[Server]:
    """Start the echo on a core of its own."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        for buffer in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            opened.setsockopt(socket.SOL_SOCKET, buffer, 64 << 20)
        opened.bind((LOOPBACK, 0))
        pid = os.fork()
        if pid == 0:
            os.sched_setaffinity(0, {SERVER_CORE})
            load.echo(opened.fileno(), N_CLIENTS)
            os._exit(1)
        endpoint = Endpoint.of(opened.getsockname())
    try:
        yield Server(pid, endpoint, session_key(None, SESSION.session))
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def ask(peer: socket.socket, asked: Open | Join) -> Control:
    """Return the answer to what is said, and said again with a cookie."""
    while True:
        packet = asked.write()
        peer.send(tagged(encode(packet), key_for(packet, None)))
        answer = read_control(decode(peer.recv(0xFFFF)))
        if not isinstance(answer, Cookie):
            return answer
        asked = replace(asked, cookie=answer.cookie)


@contextmanager
def clients_of(server: Server, *, joins: bool) -> Iterator[list[socket.socket]]:
    """Open a client's socket for each."""
    with ExitStack() as stack:
        opened = []
        for _ in range(N_CLIENTS):
            peer = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            for buffer in (socket.SO_RCVBUF, socket.SO_SNDBUF):
                peer.setsockopt(socket.SOL_SOCKET, buffer, 64 << 20)
            if joins:
                peer.setsockopt(_SOL_UDP, _UDP_GRO, 1)
            peer.connect((server.endpoint.host, server.endpoint.port))
            opened.append(peer)
        yield opened


def join_all(clients: list[socket.socket]) -> None:
    """Open the session and let all clients join it."""
    ask(clients[0], SESSION)
    for number, peer in enumerate(clients):
        join = Join(SESSION.session, number, 1, PAYLOAD_BYTES, is_observer=False)
        ask(peer, join)


def make_packets(kind: Kind, exchange: int, key: bytes) -> npt.NDArray[np.uint8]:
    """Return all packets of all clients in one exchange."""
    rows = np.zeros((N_CLIENTS, N_PACKETS, HEADER_BYTES + PAYLOAD_BYTES), np.uint8)
    rng = np.random.default_rng(exchange)
    rows[..., HEADER_BYTES:] = rng.integers(0, 32, PAYLOAD_BYTES, np.uint8)
    header = rows[..., :HEADER_BYTES].copy().view(HEADER)[..., 0]
    is_tally = kind == Kind.TALLY
    header["magic"], header["version"], header["kind"] = MAGIC, VERSION, kind
    header["session"], header["exchange"] = SESSION.session, exchange
    header["client"] = np.arange(N_CLIENTS)[:, None]
    header["packet"] = np.arange(N_PACKETS)
    header["n_items"] = 8 * PAYLOAD_BYTES if is_tally else PAYLOAD_BYTES
    header["threshold_or_count"] = THRESHOLD if is_tally else 0
    header["bits_up"] = header["bits"] = 0 if is_tally else 8
    rows[..., :HEADER_BYTES] = header[..., None].view(np.uint8)
    flat = rows.reshape(-1, rows.shape[-1])
    tag_packets(flat, np.full(len(flat), flat.shape[1], np.int32), key)
    return rows


@dataclass
class Entrant:
    """A server, its clients, and what was measured.

    Attributes:
        name: What is printed.
        unit: What is counted.
        server: Who answers.
        clients: Their sockets.
        joins: Whether clients send and receive many packets as one datagram.
        seconds: Of every run.
        cpu_s: The server's CPU time of every run.
    """

    name: str
    unit: str
    server: Server
    clients: list[socket.socket]
    joins: bool
    seconds: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    def run(self, load: ctypes.CDLL, rows: npt.NDArray[np.uint8]) -> None:
        """Let all clients send all packets, and wait for the answers."""
        fds = np.array([each.fileno() for each in self.clients], np.int32)
        job = _Load(
            fds.ctypes.data,
            rows.ctypes.data,
            N_CLIENTS,
            N_PACKETS,
            rows.shape[-1],
            WINDOW,
            self.joins,
        )
        before_s = self.server.cpu_s()
        seconds = load.run_load(ctypes.byref(job))
        if seconds < 0:
            raise SystemExit(f"{self.name}: answers were lost")
        self.seconds.append(seconds)
        self.cpu_s.append(self.server.cpu_s() - before_s)

    def best(self) -> Rate:
        """Return the rate of the best run, and the least CPU time."""
        n_packets = N_CLIENTS * N_PACKETS
        return Rate(
            n_packets / min(self.seconds[1:]), 1e6 * min(self.cpu_s[1:]) / n_packets
        )


@contextmanager
def entrants(load: ctypes.CDLL) -> Iterator[list[Entrant]]:
    """Start the echo and switches, all waiting on one core, and their clients."""
    with ExitStack() as stack:
        echo = stack.enter_context(run_echo(load))
        peers = stack.enter_context(clients_of(echo, joins=False))
        entered = [Entrant("echo", "packets", echo, peers, joins=False)]
        for name, unit, answers_join, clients_join in (
            ("switch", "packets", False, False),
            ("answers as segments", "packets in", True, False),
            ("all as segments", "segments", True, True),
        ):
            server = stack.enter_context(run_switch(joins=answers_join))
            peers = stack.enter_context(clients_of(server, joins=clients_join))
            join_all(peers)
            entered.append(Entrant(name, unit, server, peers, joins=clients_join))
        yield entered


def check_sums(server: Server) -> None:
    """Compare one sum of eight clients with what it must be."""
    with clients_of(server, joins=False) as clients:
        join_all(clients)
        rows = make_packets(Kind.SUM, 0, server.key)
        for peer, row in zip(clients, rows[:, 0], strict=True):
            peer.send(row.tobytes())
        answers = [decode(peer.recv(0xFFFF)) for peer in clients]
    expected = rows[:, 0, HEADER_BYTES:].sum(axis=0, dtype=np.uint8).tobytes()
    if any(answer.body != expected for answer in answers):
        raise SystemExit("the switch does not add up")


def main() -> None:
    """Print a line for each kind of packet and each way to carry it."""
    if len(os.sched_getaffinity(0)) < 2:
        raise SystemExit("bench_udp needs two cores")
    os.sched_setaffinity(0, {CLIENT_CORE})
    with run_switch(joins=True) as server:
        check_sums(server)
    with tempfile.TemporaryDirectory() as folder:
        load = build_load(Path(folder))
        for name, kind in KINDS.items():
            with entrants(load) as entered:
                for exchange in range(N_RUNS + 1):
                    rows = make_packets(kind, exchange, entered[0].server.key)
                    for each in entered:
                        each.run(load, rows)
            for each in entered:
                show(name, each, entered[0])


def show(kind: str, entrant: Entrant, echo: Entrant) -> None:
    """Print a rate beside the echo's."""
    rate, bare = entrant.best(), echo.best()
    print(
        f"{kind + ', ' + entrant.name:28}{rate.per_s / 1e6:6.3f} M {entrant.unit}/s, "
        f"{rate.per_s / bare.per_s:4.0%} of the echo's; {rate.cpu_us:5.2f} us of CPU "
        f"each, {rate.cpu_us / bare.cpu_us:4.0%}",
        flush=True,
    )


if __name__ == "__main__":
    main()
