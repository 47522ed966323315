"""A lossy network: datagrams to one port go on to a switch, and its answers back.

Every address that sends to the relay has a socket of its own towards the switch, so the
switch tells its members apart as it would without the relay.
"""

import selectors
import socket
import time
from collections import OrderedDict
from contextlib import suppress

from fediac.network.addresses import Endpoint, SocketAddress
from fediac.selftest.weather import Faults, Held

_MAX_DATAGRAM = 65_535
_BATCH = 64
_BUFFER_BYTES = 16 << 20


class Relay:
    """Carries datagrams between a switch and whoever sends to `endpoint`.

    Args:
        target: Where the switch is.
        faults: What happens on the way, in both directions.
        max_peers: Addresses that are remembered; the longest silent are forgotten.
    """

    def __init__(self, target: Endpoint, faults: Faults, *, max_peers: int) -> None:
        self.faults = faults
        self._max_peers = max_peers
        self._family, self._target = target.resolve(socket.SOCK_DGRAM)
        self._front = socket.socket(self._family, socket.SOCK_DGRAM)
        _enlarge(self._front)
        self._front.bind((target.host, 0))
        self._front.settimeout(0.0)
        self.endpoint = Endpoint.of(self._front.getsockname())
        self._wake, self.waker = socket.socketpair()
        self.waker.settimeout(0.0)
        self._backs: OrderedDict[SocketAddress, socket.socket] = OrderedDict()
        self._held: Held[tuple[SocketAddress, bool, bytes]] = Held()
        self._selector = selectors.DefaultSelector()
        for each in (self._front, self._wake):
            self._selector.register(each, selectors.EVENT_READ)

    def run(self) -> None:
        """Carry datagrams until something is written to `waker`."""
        while True:
            due_s = self._held.due_s
            wait_s = None if due_s is None else max(0.0, due_s - time.monotonic())
            for key, _ in self._selector.select(wait_s):
                if key.fileobj is self._wake:
                    return
                self._carry(key.data)
            for peer, goes_up, data in self._held.take(time.monotonic()):
                self._send(peer, data, goes_up=goes_up)

    def _carry(self, peer: SocketAddress | None) -> None:
        """Carry what came for an address; None: what came from any of them."""
        back = None if peer is None else self._backs.get(peer)
        if peer is not None and back is None:  # forgotten just now
            return
        for _ in range(_BATCH):
            try:
                if peer is not None and back is not None:
                    self._pass(peer, back.recv(_MAX_DATAGRAM), up=False)
                else:
                    data, sender = self._front.recvfrom(_MAX_DATAGRAM)
                    self._pass(sender, data, up=True)
            except BlockingIOError:
                return
            except OSError:  # of a datagram sent before: nobody listens there
                continue

    def _pass(self, peer: SocketAddress, data: bytes, *, up: bool) -> None:
        for delay_s, arriving in self.faults.befall(data):
            if delay_s:
                self._held.hold(time.monotonic() + delay_s, (peer, up, arriving))
            else:
                self._send(peer, arriving, goes_up=up)

    def _send(self, peer: SocketAddress, data: bytes, *, goes_up: bool) -> None:
        # What cannot be sent is lost: that is what this is for.
        with suppress(OSError):
            if goes_up:
                self._back_of(peer).send(data)
            else:
                self._front.sendto(data, peer)

    def _back_of(self, peer: SocketAddress) -> socket.socket:
        """Return the socket towards the switch that stands for an address."""
        back = self._backs.get(peer)
        if back is not None:
            self._backs.move_to_end(peer)
            return back
        while len(self._backs) >= self._max_peers:
            _, old = self._backs.popitem(last=False)
            self._selector.unregister(old)
            old.close()
        back = socket.socket(self._family, socket.SOCK_DGRAM)
        _enlarge(back)
        back.settimeout(0.0)
        back.connect(self._target)
        self._backs[peer] = back
        self._selector.register(back, selectors.EVENT_READ, peer)
        return back

    def close(self) -> None:
        """Close all sockets."""
        for each in (self._front, self._wake, self.waker, *self._backs.values()):
            each.close()
        self._selector.close()


def _enlarge(opened: socket.socket) -> None:
    for buffer in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        opened.setsockopt(socket.SOL_SOCKET, buffer, _BUFFER_BYTES)
