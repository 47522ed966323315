"""The switch's sockets: what the kernel says of datagrams that nobody took."""

import errno
import os
import select
import socket
import sys

import pytest

from fediac.errors import StartError
from fediac.network.addresses import Endpoint
from fediac.network.sockets import (
    NO_SEGMENTS,
    count_overruns,
    join_segments,
    open_socket,
    say_why_not,
)
from tests.support import refuses


@pytest.mark.skipif(sys.platform != "linux", reason="Linux counts them")
def test_datagrams_that_found_the_receive_buffer_full_are_counted() -> None:
    opened = open_socket(Endpoint("127.0.0.1", 0)).socket
    with opened, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        assert count_overruns(opened) == 0
        n_sent, n_received = 100, 0
        for _ in range(n_sent):
            sending.sendto(bytes(1000), opened.getsockname())
        while select.select([opened], [], [], 0)[0]:
            opened.recv(2000)
            n_received += 1
        assert count_overruns(opened) == n_sent - n_received > 0


def test_where_the_system_does_not_say_there_are_none() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        pass
    assert count_overruns(ours) == 0


def test_joining_is_done_without_where_the_kernel_or_somebody_does_not_want_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert not join_segments(ours)
    monkeypatch.setenv(NO_SEGMENTS, "0")
    opened = open_socket(Endpoint("127.0.0.1", 0)).socket
    with opened:
        assert not join_segments(opened)


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.EADDRINUSE, 3),
        (errno.EACCES, 4),
        (errno.EPERM, 4),
        (errno.EADDRNOTAVAIL, 5),
    ],
)
def test_why_a_switch_cannot_listen_is_an_exit_code(number: int, code: int) -> None:
    reason = os.strerror(number)
    message = f"cannot listen on [::1]:1: {reason[0].lower()}{reason[1:]}"
    with refuses(message, StartError) as caught, say_why_not(Endpoint("::1", 1)):
        raise OSError(number, reason)
    assert caught.value.exit_code == code
