import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fediac import native
from fediac.switch.job import Job
from fediac.switch.pipeline import Switch
from fediac.wire.header import EVERYONE, HEADER_BYTES, Flag
from fediac.wire.packet import Packet, encode
from tests.packets import (
    announce,
    answer_to,
    block,
    lanes,
    pairs,
    peak,
    send,
    totals,
    votes,
)
from tests.support import refuses


def test_answers_come_in_rows_that_hold_the_longest(switch: Switch, job: Job) -> None:
    data = [np.frombuffer(encode(peak(job, i, 5)), np.uint8) for i in range(3)]
    answers = switch.process(np.stack(data), np.full(3, HEADER_BYTES, np.int32))
    assert answers.packets.shape == (1, HEADER_BYTES + 16)
    assert answers.lengths.tolist() == [HEADER_BYTES]
    assert answers.destinations.tolist() == [EVERYONE]
    assert not answers.packets[0, HEADER_BYTES:].any()
    assert answers.lengths.dtype == np.dtype(np.int32)
    assert answers.destinations.dtype == np.dtype(np.uint16)


def test_no_packets_give_no_answers(switch: Switch) -> None:
    answers = switch.process(np.zeros((0, 48), np.uint8), np.zeros(0, np.int32))
    assert answers.packets.shape == (0, HEADER_BYTES + 16)
    assert switch.counters.packets_in == 0


@pytest.mark.parametrize(
    ("packets", "lengths"), [((2, 48), (1,)), ((48,), (1,)), ((2, 48), (2, 0))]
)
def test_packets_are_rows_with_a_length_each(
    switch: Switch, packets: tuple[int, ...], lengths: tuple[int, ...]
) -> None:
    with refuses(
        "packets must be rows of bytes with a length each, got shapes "
        f"{packets} and {lengths}"
    ):
        switch.process(np.zeros(packets, np.uint8), np.zeros(lengths, np.int32))


@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.int8, bool])
def test_packets_are_bytes_and_nothing_like_them(switch: Switch, dtype: Any) -> None:
    rows, lengths = np.zeros((1, 48), dtype), np.full(1, 48, np.int32)
    name = np.dtype(dtype).name
    with refuses(f"packets must be uint8, got {name}", TypeError):
        switch.process(rows, lengths)
    assert switch.counters.packets_in == 0


@pytest.mark.parametrize("dtype", [np.int64, np.float64, np.uint32, ">i4"])
def test_lengths_are_of_one_width(switch: Switch, dtype: Any) -> None:
    lengths: Any = np.full(1, 48, dtype)
    name = np.dtype(dtype)
    with refuses(f"lengths must be int32, got {name}", TypeError):
        switch.process(np.zeros((1, 48), np.uint8), lengths)


def test_packets_in_a_list_are_no_rows(switch: Switch) -> None:
    rows: Any = [b"packet"]
    with refuses("packets must be a NumPy array of uint8, got list", TypeError):
        switch.process(rows, np.zeros(1, np.int32))


def test_a_switch_can_be_copied(switch: Switch, job: Job) -> None:
    assert send(switch, lanes(job, 0, [1]), lanes(job, 1, [2])) == []
    for copied in (deepcopy(switch), pickle.loads(pickle.dumps(switch))):
        ((_, answer),) = send(copied, lanes(job, 2, [3]))
        assert answer.body == b"\6"


def test_batches_of_two_threads_never_meet(
    monkeypatch: pytest.MonkeyPatch, switch: Switch
) -> None:
    both, met = threading.Barrier(2), []

    class Kernels:
        def process_packets(self, *_: Any, **__: Any) -> Any:
            with suppress(threading.BrokenBarrierError):
                both.wait(timeout=0.2)
                met.append("inside")
            return np.zeros((0, 48), np.uint8), np.zeros(0, np.int32), np.zeros(0)

    monkeypatch.setattr(native, "host_kernels_for", lambda *_: Kernels())
    rows, lengths = np.zeros((1, 48), np.uint8), np.zeros(1, np.int32)
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(switch.process, rows, lengths) for _ in range(2)]:
            done.result()
    assert met == []


def test_a_capacity_is_for_a_whole_number_of_clients(switch: Switch) -> None:
    number: Any = 2.5
    with refuses("n_clients must be a whole number, got 2.5", TypeError):
        switch.indexed_capacity(number)


def test_a_batch_is_taken_in_order(switch: Switch, job: Job) -> None:
    packets = [lanes(job, i, [1], packet=p) for p in (4, 2, 3) for i in range(3)]
    assert [answer.packet for _, answer in send(switch, *packets)] == [4, 2, 3]


def test_packets_in_and_out_are_counted(switch: Switch, job: Job) -> None:
    send(switch, *(lanes(job, i, [1]) for i in (0, 1, 2, 2)), b"")
    counters = switch.counters
    assert (counters.packets_in, counters.packets_out) == (5, 2)


@pytest.mark.parametrize("length", [-1, -(2**31), 0, 31])
def test_a_row_too_short_for_a_header_is_foreign(
    switch: Switch, job: Job, length: int
) -> None:
    row = np.frombuffer(encode(lanes(job, 0, [1])), np.uint8)[None]
    assert len(switch.process(row, np.array([length], np.int32)).lengths) == 0
    assert switch.counters.drops == {"foreign": 1}


def test_a_length_beyond_the_row_means_the_row(switch: Switch) -> None:
    job = switch.open(1)
    row = np.frombuffer(encode(lanes(job, 0, [1])), np.uint8)[None]
    answers = switch.process(row, np.array([2**31 - 1], np.int32))
    assert answers.lengths.tolist() == [HEADER_BYTES + 1]


def test_rows_need_not_be_contiguous(switch: Switch) -> None:
    job = switch.open(1)
    data = np.frombuffer(encode(lanes(job, 0, [1])), np.uint8)
    rows = np.zeros((2, 2 * len(data)), np.uint8)
    rows[:, ::2] = data
    lengths = np.full((2, 2), len(data), np.int32)
    assert len(switch.process(rows[:, ::2], lengths[:, 0]).lengths) == 2


@pytest.mark.parametrize(
    ("place", "value"), [(0, 0xD2), (1, 0xFF), (2, 0), (2, 1), (3, 0), (3, 6), (3, 255)]
)
def test_other_magic_version_or_kind_is_foreign(
    switch: Switch, job: Job, place: int, value: int
) -> None:
    data = bytearray(encode(lanes(job, 0, [1])))
    data[place] = value
    assert send(switch, bytes(data)) == []
    assert switch.counters.drops == {"foreign": 1}


def malformed(job: Job) -> dict[str, Packet]:
    vote, lane, top = votes(job, 0, "1"), lanes(job, 0, [1]), peak(job, 0, 1)
    pair, level = pairs(job, 0, {1: 1}), block(job, 0, 0, [1])
    return {
        "an answer": replace(lane, flags=Flag.ANSWER),
        "votes without items": replace(vote, n_items=0, body=b""),
        "votes without threshold": replace(vote, threshold=0),
        "votes that need more clients": replace(vote, threshold=4),
        "votes with a byte too few": replace(vote, n_items=9),
        "votes with a byte too many": replace(vote, body=b"\1\1"),
        "lanes without items": replace(lane, n_items=0, body=b""),
        "lanes without width": replace(lane, bits=0, body=b""),
        "lanes of 33 bits": replace(lane, bits=33, body=bytes(5)),
        "lanes with a threshold": replace(lane, threshold=1),
        "lanes longer than a payload": lanes(job, 0, [1] * 17),
        "a peak with items": replace(top, n_items=1),
        "a peak with a body": replace(top, body=b"\0"),
        "a peak with a threshold": replace(top, threshold=1),
        "a peak with a number": replace(top, packet=1),
        "a block with a threshold": replace(level, threshold=1),
        "a block with half a level": replace(level, body=bytes(6)),
        "an announcement with items": replace(level, flags=Flag.ANNOUNCE),
        "an announcement with a threshold": replace(announce(job, 0), threshold=1),
        "pairs without a size": replace(pair, aux=0),
        "pairs with a threshold": replace(pair, threshold=1),
        "pairs with half a pair": replace(pair, body=bytes(12)),
        "pairs with one too few": replace(pair, n_items=2),
    }


@pytest.mark.parametrize("name", malformed(Switch().open(3)))
def test_fields_that_contradict_each_other_are_malformed(
    switch: Switch, job: Job, name: str
) -> None:
    assert send(switch, malformed(job)[name]) == []
    assert switch.counters.drops == {"malformed": 1}


def test_a_client_that_is_absent_is_a_stranger(switch: Switch) -> None:
    job = switch.open(11, present=0b010_0000_0101)
    assert send(switch, *(lanes(job, i, [5]) for i in (1, 10, 11, 1024, 65535))) == []
    assert switch.counters.drops == {"stranger": 5}


def test_those_present_complete_a_sum(switch: Switch) -> None:
    job = switch.open(11, present=0b101)
    answer = answer_to(switch, lanes(job, 0, [1]), lanes(job, 2, [1]))
    assert (answer.flags, answer.count, totals(answer)) == (Flag.ANSWER, 2, [2])


def test_sizes_may_be_numbers_of_numpy() -> None:
    number: Any = np.int64
    switch = Switch(number(1 << 16), payload_bytes=number(100))
    job = switch.open(number(2), present=number(3))
    assert (job.layout.n_clients, job.present) == (2, 3)
