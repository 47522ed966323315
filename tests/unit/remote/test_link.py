"""A client's socket: many packets a call in C, one by one in Python, the same."""

import socket
from collections.abc import Iterable, Iterator
from contextlib import ExitStack

import pytest

from fediac import native
from fediac.errors import SessionError
from fediac.native.linking import N_ROWS, link_kernels
from fediac.network.addresses import Endpoint
from fediac.remote import link as module
from fediac.remote.link import Link, drive
from tests.support import refuses

HOSTS = ("127.0.0.1", "::1")


@pytest.fixture(params=["C", "Python"])
def _kernels(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param == "C":
        if link_kernels() is None:
            pytest.skip("no C kernels here")
        yield
        return
    with native.disabled():
        yield


@pytest.fixture(params=HOSTS)
def peer(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in request.param else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as opened:
        opened.bind((request.param, 0))
        opened.settimeout(5.0)
        yield opened


def link_to(peer: socket.socket) -> Link:
    return Link(Endpoint.of(peer.getsockname()))


def packets(n: int) -> list[bytes]:
    """Packets of many lengths, each of which says which one it is."""
    return [bytes([i % 251, i // 251]) * (1 + i % 700) for i in range(n)]


def test_a_link_says_which_buffer_it_got(peer: socket.socket) -> None:
    with link_to(peer) as link:
        asked = socket.SOL_SOCKET, socket.SO_RCVBUF
        assert link.buffer_bytes == link.socket.getsockopt(*asked) > 0


@pytest.mark.usefixtures("_kernels")
def test_packets_leave_in_their_order_and_whole(peer: socket.socket) -> None:
    sent = packets(70)  # more than one call takes
    with link_to(peer) as link:
        link.send(sent)
        assert [peer.recv(2048) for _ in sent] == sent


@pytest.mark.usefixtures("_kernels")
def test_packets_that_came_are_taken_together(peer: socket.socket) -> None:
    sent = packets(N_ROWS + 10)
    with link_to(peer) as link:
        link.send([b"here"])
        _, where = peer.recvfrom(2048)
        assert link.receive() == []
        for data in sent:
            peer.sendto(data, where)
        assert link.receive() + link.receive() == sent
        assert link.receive() == []


@pytest.mark.usefixtures("_kernels")
def test_nobody_there_is_counted_and_nothing_is_raised(peer: socket.socket) -> None:
    with link_to(peer) as link:
        peer.close()
        link.send([b"one"])
        link.send([b"two", b"three"])
        assert link.receive() == []
        assert link.refused >= 1
        assert link.hint == f", nobody listens at {link.endpoint}"


@pytest.mark.usefixtures("_kernels")
def test_packets_that_no_path_takes_are_named_with_both_values() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.bind(("127.0.0.1", 0))
        with link_to(peer) as link:
            text = (
                f"packets of 65568 bytes (65500 of payload) do not pass to "
                f"{link.endpoint}: the path takes shorter ones; set a smaller mtu"
            )
            with refuses(text, SessionError):
                link.send([b"short", bytes(65_540)])
            assert peer.recv(2048) == b"short"


@pytest.mark.usefixtures("_kernels")
def test_a_closed_socket_is_an_error(peer: socket.socket) -> None:
    link = link_to(peer)
    link.close()
    with pytest.raises(SessionError, match="cannot reach"):
        link.send([b"data"])


def test_a_host_that_is_none_is_an_error() -> None:
    with pytest.raises(SessionError, match=r"^cannot send to nowhere\.invalid:4900: "):
        Link(Endpoint("nowhere.invalid", 4900))


class Slow:
    """A machine whose every datagram takes a second of a clock that it moves."""

    deadline_us = None

    def __init__(self, heard: list[str], clock: list[int]) -> None:
        self._heard, self._clock = heard, clock

    def receive(self, datagrams: Iterable[bytes], _now_us: int) -> None:
        for _ in datagrams:
            self._clock[0] += 1_000_000
            self._heard.append("slow")

    def send(self, _now_us: int) -> list[bytes]:
        return []


class Due:
    """A machine that hears nothing and has something to send all the time."""

    deadline_us = 0

    def __init__(self, heard: list[str]) -> None:
        self._heard = heard

    def receive(self, _datagrams: Iterable[bytes], _now_us: int) -> None:
        raise AssertionError("nobody sends to it")

    def send(self, _now_us: int) -> list[bytes]:
        self._heard.append("due")
        return []


def test_who_is_due_does_not_wait_for_all_that_others_hear(
    peer: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    clock = [0]
    monkeypatch.setattr(module, "clock_us", lambda: clock[0])
    with ExitStack() as stack:
        links = [stack.enter_context(link_to(peer)) for _ in range(9)]
        for each in links[:8]:
            peer.sendto(b"x", each.socket.getsockname())
        machines = [(each, Slow(order, clock)) for each in links[:8]]
        drive(
            [*machines, (links[8], Due(order))],
            lambda: order.count("slow") == 8,
        )
    heard = "".join(each[0] for each in order).lstrip("d")
    assert "ss" not in heard  # with turns without an end all eight came first
