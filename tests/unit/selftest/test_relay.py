"""The relay: carries both ways, tells senders apart, and forgets the longest silent."""

import socket
import threading
from collections.abc import Iterator

import pytest

from fediac.network.addresses import Endpoint
from fediac.selftest.relay import Relay
from fediac.selftest.weather import Faults, Weather

LOCAL = ("127.0.0.1", 0)
END_S = 20.0


def bound() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind(LOCAL)
    made.settimeout(END_S)
    return made


@pytest.fixture
def switch() -> Iterator[socket.socket]:
    with bound() as made:
        yield made


@pytest.fixture
def relay(switch: socket.socket) -> Iterator[Relay]:
    faults = Faults(Weather(), 1)
    made = Relay(Endpoint.of(switch.getsockname()), faults, max_peers=2)
    thread = threading.Thread(target=made.run)
    thread.start()
    yield made
    made.waker.send(b"\0")
    thread.join()
    made.close()


def test_each_sender_has_an_address_of_its_own_and_gets_its_answers(
    switch: socket.socket, relay: Relay
) -> None:
    with bound() as one, bound() as other:
        where = (relay.endpoint.host, relay.endpoint.port)
        seen = {}
        for name, peer in ((b"one", one), (b"other", other)):
            peer.sendto(name, where)
            data, seen[name] = switch.recvfrom(100)
            assert data == name
        assert len({*seen.values()}) == 2
        switch.sendto(b"to one", seen[b"one"])
        assert one.recvfrom(100) == (b"to one", where)
        one.sendto(b"again", where)
        assert switch.recvfrom(100) == (b"again", seen[b"one"])
    assert relay.faults.counts["passed"] == 4


def test_the_longest_silent_is_forgotten(switch: socket.socket, relay: Relay) -> None:
    with bound() as one, bound() as other, bound() as third:
        where = (relay.endpoint.host, relay.endpoint.port)
        seen = []
        for peer in (one, other, one, third, one, other):
            peer.sendto(b"hello", where)
            seen.append(switch.recvfrom(100)[1])
        first, second, _, _, last, again = seen
        assert first == last
        assert second != again
        switch.sendto(b"for other", again)
        assert other.recv(100) == b"for other"
