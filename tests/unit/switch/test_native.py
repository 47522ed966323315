"""What only the compiled data plane has: rows that may not suffice, and checks."""

import re
from collections.abc import Iterable

import numpy as np
import pytest

from fediac import native
from fediac.native.packets import Room
from fediac.switch.counters import N_COUNTS
from fediac.switch.job import JOB_RECORD
from fediac.switch.pipeline import Answers, Switch
from fediac.wire.header import Kind
from fediac.wire.packet import Packet, encode
from tests.packets import announce, answer_to, block, lanes, send


def test_more_answers_than_expected_come_back_in_order(switch: Switch) -> None:
    job = switch.open(1)
    answers = send(switch, *(lanes(job, 0, [p % 100], packet=p) for p in range(600)))
    assert [answer.packet for _, answer in answers] == list(range(600))
    assert all(answer.body[0] == answer.packet % 100 for _, answer in answers)


def test_one_packet_may_cause_more_answers_than_a_chunk_of_rows() -> None:
    # A client without blocks ends what others have sent ahead of it.
    switch = Switch(1 << 15, payload_bytes=8)
    job = switch.open(2)
    n_blocks = 300
    assert job.layout.n_slots(Kind.BLOCK_SUM) > n_blocks
    mine = [block(job, 0, i, [i], following=i + 1) for i in range(n_blocks)]
    ends = block(job, 1, 0, [7])
    assert send(switch, announce(job, 0, 0), announce(job, 1, 0), *mine) == []
    answers = send(switch, ends)
    assert [answer.packet for _, answer in answers] == list(range(n_blocks))


def process(switch: Switch, packets: Iterable[Packet], room: Room | None) -> Answers:
    rows = np.stack([np.frombuffer(encode(each), np.uint8) for each in packets])
    lengths = np.full(len(rows), rows.shape[1], np.int32)
    return switch.process(rows, lengths, out=room)


@pytest.mark.parametrize("n_packets", [20, 600])
def test_answers_are_the_same_in_room_that_was_used_before(n_packets: int) -> None:
    room = Room()
    for payload_bytes in (16, 16, 24):
        used, other = (Switch(4096, payload_bytes=payload_bytes) for _ in "ab")
        job, _ = used.open(1), other.open(1)
        sent = [lanes(job, 0, [p % 100, 7], packet=p) for p in range(n_packets)]
        given, expected = process(used, sent, room), process(other, sent, None)
        assert np.array_equal(given.packets, expected.packets)
        assert np.array_equal(given.lengths, expected.lengths)
        assert np.array_equal(given.destinations, expected.destinations)
        assert len(given.packets) == n_packets


def test_answers_go_to_a_room_alone(switch: Switch) -> None:
    job, wrong = switch.open(1), np.zeros((256, 64), np.uint8)
    with pytest.raises(TypeError, match="out must be a Room, got ndarray"):
        process(switch, [lanes(job, 0, [7])], wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("plane", ["native"], indirect=True)
def test_answers_take_the_place_of_those_before_in_the_same_room(
    switch: Switch,
) -> None:
    job, room = switch.open(1), Room()
    sent = [lanes(job, 0, [p], packet=p) for p in range(3)]
    first, second = (process(switch, [each], room) for each in sent[:2])
    other = process(switch, sent[2:], None)
    assert np.shares_memory(first.packets, second.packets)
    assert not np.shares_memory(other.packets, second.packets)


@pytest.mark.parametrize("plane", ["native"], indirect=True)
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("base", 1),
        ("base", 2**64 - 1),
        ("register_bytes", 4097),
        ("register_bytes", 100),
        ("n_clients", 0),
        ("n_clients", 1025),
        ("n_clients", 1),
        ("payload_bytes", 17),
    ],
)
def test_a_job_outside_the_registers_is_an_error(
    switch: Switch, field: str, value: int
) -> None:
    registers = np.zeros(4096, np.uint8)
    kernels = native.host_kernels_for(registers)
    assert kernels is not None
    jobs = np.array([switch.open(3).record()], dtype=JOB_RECORD)
    jobs[field] = value
    packets, lengths = np.zeros((1, 32), np.uint8), np.zeros(1, np.int32)
    message = re.escape(
        "jobs must lie in 4096 register bytes and have 16 payload bytes"
    )
    with pytest.raises(ValueError, match=message):
        kernels.process_packets(
            registers,
            jobs,
            np.zeros(N_COUNTS, np.int64),
            packets,
            lengths,
            payload_bytes=16,
        )


def test_planes_may_change_between_batches(switch: Switch) -> None:
    job = switch.open(3)
    with native.disabled():
        assert send(switch, lanes(job, 0, [1])) == []
    assert send(switch, lanes(job, 1, [2])) == []
    with native.disabled():
        answer = answer_to(switch, lanes(job, 2, [3]))
    assert answer.body == b"\6"
