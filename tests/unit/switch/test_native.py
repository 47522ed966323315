"""What only the compiled data plane has: rows that may not suffice, and checks."""

import re

import numpy as np
import pytest

from fediac import native
from fediac.switch.counters import N_COUNTS
from fediac.switch.job import JOB_RECORD
from fediac.switch.pipeline import Switch
from fediac.wire.header import Kind
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
