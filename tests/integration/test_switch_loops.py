"""The switch's two inner loops, on the same datagrams over real sockets."""

import socket
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pytest

from fediac.native.serving import serve_kernels
from fediac.network import native_loop, python_loop
from fediac.network.addresses import Endpoint, pack_address
from fediac.network.native_loop import NativeLoop
from fediac.network.python_loop import MAX_PACKET_BYTES, PythonLoop, clock_us
from fediac.network.sockets import NO_SEGMENTS, open_socket
from fediac.network.switch_process import Loop
from fediac.selftest.peers import key_for
from fediac.switch.control import ControlPlane, Limits
from fediac.switch.counters import Counters
from fediac.switch.job import Job
from fediac.switch.keys import Keyring
from fediac.switch.pipeline import Switch
from fediac.switch.registers import Layout
from fediac.switch.sessions import Datagram
from fediac.wire.control import Alive, Cookie, Join, Open, read_control
from fediac.wire.header import EXCHANGES, HEADER_BYTES, VERSION
from fediac.wire.packet import Packet, decode, encode
from fediac.wire.tag import is_tag_right, session_key, tagged
from tests.packets import (
    announce,
    block,
    lanes,
    observed,
    pairs,
    peak,
    reading,
    votes,
)
from tests.planes import require_native
from tests.switches import join_of

KEY = b"a key that all jobs have"
SECRET = b"sixteen bytes of"
ASKED = Open(
    1 << 40,
    job=7,
    epoch=1,
    n_clients=2,
    n_observers=1,
    payload_bytes=64,
    lease_ms=60_000,
    silence_ms=60_000,
)
SESSIONS = (
    ASKED,
    replace(ASKED, session=ASKED.session + 1, job=8, n_clients=4),
    replace(ASKED, session=5, job=9, payload_bytes=1408),
)
N_PACKETS = 12
UDP_SEGMENT = 103
"""Linux's number: how long the datagrams are of which one that is sent consists."""

WHERE = {
    "IPv4": ("127.0.0.1", "127.0.0.1"),
    "IPv6": ("::1", "::1"),
    "IPv4 to IPv6": ("::", "127.0.0.1"),
}
"""Where the switch listens, and where its peers are."""

Sent = tuple[int, bytes]
"""Which socket sends it, and a datagram."""


@dataclass
class Bench:
    """A switch in this process, its loop, and sockets that talk to it."""

    plane: ControlPlane
    loop: Loop
    where: tuple[str, int]
    peers: list[socket.socket]

    def exchange(self, sent: list[Sent]) -> list[list[bytes]]:
        """Send datagrams; return what every socket got, when all have been taken."""
        for peer, data in sent:
            self.peers[peer].sendto(data, self.where)
        return self.carry(len(sent))

    def carry(self, n_sent: int) -> list[list[bytes]]:
        """Return what every socket got when so many datagrams have been taken."""
        n_in = self.plane.traffic.packets_in + n_sent
        while self.plane.traffic.packets_in < n_in:
            self.loop.carry(clock_us() + 60_000_000)
        return [list(_received(each)) for each in self.peers]

    def answer(self, peer: int, packet: Packet) -> Packet:
        """Return the only answer to a packet."""
        answers = self.exchange([(peer, _tagged(packet))])
        return decode(answers[peer][0])

    def prove(self, peer: int, asked: Open | Join) -> None:
        cookie = read_control(self.answer(peer, asked.write()))
        assert isinstance(cookie, Cookie)
        self.answer(peer, replace(asked, cookie=cookie.cookie).write())


def _received(peer: socket.socket) -> Iterator[bytes]:
    while True:
        try:
            yield peer.recv(0xFFFF, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return


def _tagged(packet: Packet) -> bytes:
    return tagged(encode(packet), key_for(packet, KEY))


@contextmanager
def benches(listen: str, host: str) -> Iterator[tuple[Bench, Bench]]:
    """Two switches, whose loops are in Python and in C, and the same peers."""
    kernels = serve_kernels()
    assert kernels is not None
    n_peers = 1 + sum(each.n_clients + each.n_observers for each in SESSIONS)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with ExitStack() as stack:
        peers = [
            stack.enter_context(socket.socket(family, socket.SOCK_DGRAM))
            for _ in range(n_peers)
        ]
        for peer in peers:
            peer.bind((host, 0))
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        made = []
        for is_native in (False, True):
            opened = open_socket(Endpoint(listen, 0))
            stack.enter_context(opened.socket)
            # It is always readable: a loop never waits.
            wake, waker = socket.socketpair()
            stack.enter_context(wake)
            stack.enter_context(waker)
            waker.send(b"\0")
            plane = ControlPlane(Limits(1 << 18), Keyring(KEY), SECRET)
            loop: Loop = (
                NativeLoop(opened, plane, wake, kernels)
                if is_native
                else PythonLoop(opened, plane, wake)
            )
            where = (host, opened.endpoint.port)
            made.append(Bench(plane, loop, where, peers))
        yield made[0], made[1]


def _join_all(bench: Bench) -> dict[tuple[int, int], int]:
    """Let all members join, the last ones first; return where each of them is."""
    places, peer = {}, 1
    for asked in SESSIONS:
        bench.prove(0, asked)
        for client in reversed(range(asked.n_clients + asked.n_observers)):
            bench.prove(peer, join_of(asked, client))
            places[asked.session, client] = peer
            peer += 1
    return places


def _job(asked: Open) -> Job:
    n_members = asked.n_clients + asked.n_observers
    layout = Layout(n_members, asked.payload_bytes, 1 << 16)
    return Job(asked.session, 0, layout, (1 << n_members) - 1, asked.n_observers)


def _packets(job: Job, client: int, rng: np.random.Generator) -> Iterator[Packet]:
    """Yield what a client sends in one exchange after the other, of every kind."""
    n_lanes = job.layout.payload_bytes
    for i in range(N_PACKETS):
        mask = "".join(map(str, rng.integers(0, 2, 8 * n_lanes)))
        yield votes(job, client, mask, threshold=2, peak=client, packet=i)
    yield peak(job, client, client + 9, exchange=1)
    for exchange, bits, down in ((2, 8, 16), (3, 8, 8), (4, 3, 5)):
        for i in range(N_PACKETS):
            values = rng.integers(0, 1 << bits, n_lanes * 8 // bits).tolist()
            place = {"exchange": exchange, "packet": i}
            yield lanes(job, client, values, bits=bits, bits_down=down, **place)
    yield announce(job, client, 0, exchange=5)
    for i in range(N_PACKETS):
        values = rng.integers(-9, 9, n_lanes // 4).tolist()
        following = i + 1 if i + 1 < N_PACKETS else 0xFFFFFFFF
        yield block(job, client, i, values, following=following, exchange=5)
    yield peak(job, client, client, exchange=6)
    last = pairs(job, client, {client: 5, 9: -client}, is_narrow=True, exchange=7)
    yield last
    yield reading(last, 0)


def _script(places: dict[tuple[int, int], int], seed: int) -> Iterator[list[Sent]]:
    """Yield datagrams that arrive together: of all sessions, and much else."""
    rng = np.random.default_rng(seed)
    flows = []
    for asked in SESSIONS:
        job = _job(asked)
        for client in range(job.layout.n_clients):
            packets = list(_packets(job, client % asked.n_clients, rng))
            if client >= asked.n_clients:
                packets = [observed(each, client) for each in packets]
            at = places[asked.session, client]
            flows.append([(at, _tagged(replace(p, client=client))) for p in packets])
    for step in range(0, len(flows[0]), 2):
        batch = [sent for flow in flows for sent in flow[step : step + 2]]
        twice = [batch[i] for i in rng.integers(0, len(batch), 4)]
        others = list(_others(batch, rng))
        batch = [*batch, *twice, *others]
        yield [batch[i] for i in rng.permutation(len(batch))]
        yield [sent for flow in flows for sent in flow[step : step + 2]]


def _others(batch: list[Sent], rng: np.random.Generator) -> Iterator[Sent]:
    """Yield datagrams that change no register."""
    peer, data = batch[rng.integers(len(batch))]
    spoilt = bytearray(data)
    spoilt[rng.integers(2, len(data))] ^= 1 << rng.integers(8)
    yield peer, bytes(spoilt)
    yield peer, data[: rng.integers(len(data))]
    yield peer, data + b"\0"
    yield 0, data  # not where this member is
    yield peer, _tagged(replace(decode(data), bits=33))
    yield peer, b""
    yield peer, b"not one of ours, but longer than any header of it"
    yield peer, data[:2] + bytes([VERSION + 1]) + data[3:]
    yield peer, data.ljust(MAX_PACKET_BYTES + 1, b"\0")
    yield peer, _tagged(replace(decode(data), session=77))
    session = decode(data).session
    yield peer, _tagged(Alive(session, decode(data).client, is_answer=False).write())
    yield peer, _tagged(Alive(session, 999, is_answer=False).write())


@pytest.fixture(params=["1", "0"], ids=["joined", "apart"])
def segments(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the kernel may join datagrams and cut them."""
    monkeypatch.setenv(NO_SEGMENTS, request.param)


@pytest.fixture(params=list(WHERE.values()), ids=list(WHERE))
def two(
    request: pytest.FixtureRequest,
    segments: None,  # noqa: ARG001 - sets what the loops look at
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[tuple[Bench, Bench]]:
    require_native()
    now = clock_us()  # so that both refuse the same packets now and then
    for module in (native_loop, python_loop):
        monkeypatch.setattr(module, "clock_us", lambda: now)
    with benches(*request.param) as made:
        yield made


def _rising(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> list[Datagram]:
    """Return a list of the datagrams that the control plane gets from now on."""
    risen: list[Datagram] = []
    receive = bench.plane.receive

    def spy(datagrams: Iterable[Datagram], now_us: int) -> list[Datagram]:
        risen.extend(given := list(datagrams))
        return receive(given, now_us)

    monkeypatch.setattr(bench.plane, "receive", spy)
    return risen


def _of_members(places: dict[tuple[int, int], int], sent: list[Sent]) -> set[bytes]:
    """Return the packets of exchanges that come from where their member is."""
    return {
        data
        for peer, data in sent
        if len(data) >= HEADER_BYTES
        and data[3] in EXCHANGES
        and places.get((int.from_bytes(data[4:12]), int.from_bytes(data[14:16])))
        == peer
        and is_tag_right(data, session_key(KEY, int.from_bytes(data[4:12])))
    }


def test_both_loops_give_the_same_datagrams_and_counters(
    two: tuple[Bench, Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_python, in_c = two
    all_places = [_join_all(each) for each in two]
    assert all_places[0] == all_places[1]
    stranger = pack_address(in_c.peers[0].getsockname())
    risen, of_members = _rising(in_c, monkeypatch), set()
    n_answers = 0
    for sent in _script(all_places[0], seed=1):
        got = in_c.exchange(sent)
        assert got == in_python.exchange(sent)
        n_answers += sum(map(len, got))
        of_members |= _of_members(all_places[0], sent)
    assert n_answers > 1000
    assert len(of_members) > 500
    assert not of_members & {data for place, data in risen if place != stranger}
    planes = [each.plane for each in two]
    assert planes[0].all_drops == planes[1].all_drops
    assert {"tag", "address", "foreign", "malformed", "duplicate"} <= set(
        planes[0].all_drops
    )
    for one, other in zip(planes[0].sessions, planes[1].sessions, strict=True):
        assert one.switch.counters == other.switch.counters
        assert one.switch.counters.aggregations > 4 * N_PACKETS
        assert bytes(one.switch.tables.registers) == bytes(
            other.switch.tables.registers
        )
    assert planes[0].traffic.packets_out == planes[1].traffic.packets_out > n_answers
    assert planes[0].traffic.unsent == planes[1].traffic.unsent == 0


def test_packets_of_one_job_change_no_register_of_another(
    two: tuple[Bench, Bench],
) -> None:
    places = _join_all(two[0])
    assert places == _join_all(two[1])
    script = [sent for batch in _script(places, seed=2) for sent in batch]
    mine = {places[ASKED.session, client] for client in range(3)}
    number = ASKED.session.to_bytes(8, "big")

    def is_mine(at: int, data: bytes) -> bool:
        return at in mine and number in data

    for bench in two:
        first = bench.plane.sessions[0].switch

        def state(of: Switch = first) -> tuple[bytes, Counters]:
            return bytes(of.tables.registers), of.counters

        before = state()
        bench.exchange([(at, data) for at, data in script if is_mine(at, data)])
        after = state()
        assert after != before
        others = [(at, data) for at, data in script if number not in data]
        for place in range(0, len(others), 100):
            bench.exchange(others[place : place + 100])
        assert state() == after
        assert all(each.switch.counters.aggregations for each in bench.plane.sessions)


def test_datagrams_that_the_kernel_joins_are_taken_one_by_one(
    two: tuple[Bench, Bench],
) -> None:
    places = _join_all(two[0])
    assert places == _join_all(two[1])
    job = _job(ASKED)
    answers = []
    for bench in two:
        for client in range(job.layout.n_clients):
            sent = [votes(job, client % 2, "01" * 8, packet=i) for i in range(9)]
            if client >= job.n_voters:
                sent = [observed(each, client) for each in sent]
            data = b"".join(_tagged(replace(each, client=client)) for each in sent)
            peer = bench.peers[places[ASKED.session, client]]
            n_bytes = len(data) // len(sent)
            peer.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, n_bytes)
            # The last one is shorter: it lacks a byte.
            peer.sendto(data[:-1], bench.where)
            peer.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 0)
        answers.append(bench.carry(9 * job.layout.n_clients))
    assert answers[0] == answers[1]
    place = places[ASKED.session, 0]
    assert [decode(each).packet for each in answers[1][place]] == list(range(8))
    # Two votes lack a byte, and of the observer's packet, a header, there is no more.
    assert two[1].plane.all_drops == {"tag": 2, "foreign": 1}
