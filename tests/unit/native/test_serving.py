"""The compiled loop of a switch: found where the library has it, refused misuse."""

import re
import socket
import sys
from dataclasses import replace

import numpy as np
import pytest

from fediac import native
from fediac.native import library, serving
from fediac.native.packets import AnswerRows
from fediac.native.serving import Served, ServeKernels, ServeLoop, serve_kernels
from fediac.switch.pipeline import Switch
from tests.planes import require_native


@pytest.fixture
def kernels() -> ServeKernels:
    require_native()
    loop = serve_kernels()
    assert loop is not None
    return loop


def served(n_members: int = 3) -> Served:
    switch = Switch(4096, payload_bytes=64)
    switch.open(3)
    tables = switch.tables
    return Served(
        number=1,
        job=tables.jobs,
        registers=tables.registers,
        counts=tables.counts,
        key=np.zeros(16, np.uint8),
        heard_us=np.zeros(n_members, np.int64),
        addresses=np.zeros((n_members, serving.ADDRESS_BYTES), np.uint8),
        joined=np.zeros(0, np.uint16),
    )


def loop_on(kernels: ServeKernels, fd: int) -> ServeLoop:
    return ServeLoop(kernels, fd, fd, is_v6=False, joins=False, max_bytes=100)


@pytest.mark.usefixtures("kernels")
def test_the_loop_is_not_used_where_kernels_are_disabled_or_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with native.disabled():
        assert serve_kernels() is None
    monkeypatch.setattr(sys, "platform", "darwin")
    assert serve_kernels() is None


def test_structures_of_other_lengths_are_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    require_native()
    reasons: list[str] = []
    monkeypatch.setattr(serving, "_STRUCTURES", (AnswerRows,) * 4)
    monkeypatch.setattr(library, "reject", reasons.append)
    assert serve_kernels() is None
    assert reasons == ["its C kernels were built from older sources"]


def test_a_session_outside_its_registers_or_without_members_is_an_error(
    kernels: ServeKernels,
) -> None:
    loop = loop_on(kernels, 0)
    good = served()
    loop.set_sessions([good])
    message = re.escape("served must be a job in 4095 register bytes with its members")
    with pytest.raises(ValueError, match=message):
        loop.set_sessions([replace(good, registers=good.registers[:4095])])
    message = re.escape("served must be a job in 4096 register bytes with its members")
    with pytest.raises(ValueError, match=message):
        loop.set_sessions([served(n_members=2)])


def test_a_socket_that_is_none_is_an_error(kernels: ServeKernels) -> None:
    with socket.socket() as closed:
        fd = closed.fileno()
    with pytest.raises(OSError, match="Bad file descriptor"):
        loop_on(kernels, fd).serve(1 << 62)
