import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from fediac import native
from fediac.wire.header import HEADER, HEADER_BYTES, Kind
from fediac.wire.packet import Packet, decode, encode
from fediac.wire.tag import (
    Lengths,
    Rows,
    check_tags,
    is_tag_right,
    member_key,
    opening_key,
    session_key,
    siphash,
    tag_packets,
    tagged,
)
from tests.planes import PLANES, data_plane, require_native
from tests.support import refuses

VECTORS = json.loads(
    (Path(__file__).parents[2] / "vectors" / "siphash.json").read_text()
)
KEY = bytes.fromhex(VECTORS["key"])


def some_packets(lengths: Sequence[int]) -> tuple[Rows, Lengths]:
    """Packets of random bytes, and random bytes behind them."""
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 256, (len(lengths), 120), dtype=np.uint8)
    return rows, np.array(lengths, dtype=np.int32)


@pytest.mark.parametrize("length", range(64))
def test_hashes_are_those_that_its_authors_published(length: int) -> None:
    found = siphash(KEY, bytes(range(length)))
    assert found.to_bytes(8, "little").hex() == VECTORS["hashes"][length]


@pytest.mark.parametrize("plane", PLANES)
def test_tags_of_rows_are_those_of_packets(plane: str) -> None:
    rows, lengths = some_packets([*range(HEADER_BYTES, 121)])
    before = rows.copy()
    with data_plane(plane):
        tag_packets(rows, lengths, KEY)
    for row, was, length in zip(rows, before, lengths, strict=True):
        packet = was[:length].tobytes()
        assert row[:length].tobytes() == tagged(packet, KEY)
        assert np.array_equal(row[length:], was[length:])


@pytest.mark.parametrize("plane", PLANES)
def test_any_bit_that_changes_is_noticed(plane: str) -> None:
    rows, lengths = some_packets([47])
    tag_packets(rows, lengths, KEY)
    changed = np.repeat(rows, 8 * 47, axis=0)
    for place, row in enumerate(changed):
        row[place // 8] ^= 1 << place % 8
    with data_plane(plane):
        assert check_tags(rows, lengths, KEY).tolist() == [True]
        every = np.full(len(changed), 47, dtype=np.int32)
        assert not check_tags(changed, every, KEY).any()


@pytest.mark.parametrize("plane", PLANES)
def test_a_packet_of_another_length_is_noticed(plane: str) -> None:
    rows, lengths = some_packets([64])
    rows[0, 56:] = 0  # zeros that are cut off or added are no less a change
    tag_packets(rows, lengths, KEY)
    with data_plane(plane):
        for length in (56, 60, 63, 65, 72):
            other = np.array([length], dtype=np.int32)
            assert check_tags(rows, other, KEY).tolist() == [False]


@pytest.mark.parametrize("plane", PLANES)
def test_no_packets_have_no_tags(plane: str) -> None:
    rows, lengths = np.zeros((0, 64), np.uint8), np.zeros(0, np.int32)
    with data_plane(plane):
        tag_packets(rows, lengths, KEY)
        assert check_tags(rows, lengths, KEY).shape == (0,)


@pytest.mark.parametrize("length", [40, 41, 47, 48, 103, 1448])
def test_c_and_python_give_a_packet_the_same_tag(length: int) -> None:
    require_native()
    packet = np.random.default_rng(length).bytes(length)
    with native.disabled():
        expected = tagged(packet, KEY)
    assert tagged(packet, KEY) == expected
    assert is_tag_right(expected, KEY)


def test_a_packet_without_a_whole_header_is_not_given_to_c() -> None:
    require_native()
    kernels = native.host_kernels()
    assert kernels is not None
    with refuses(
        "packet must have at least 40 bytes and key 16, got 39 and 16", ValueError
    ):
        kernels.tag_of(bytes(39), KEY)


def test_a_tag_stands_in_the_header_in_network_byte_order() -> None:
    packet = tagged(encode(Packet(Kind.MAX, session=1, exchange=3, client=4)), KEY)
    header = np.frombuffer(packet, dtype=HEADER)[0]
    assert decode(packet).tag == int(header["tag"])
    assert decode(packet).tag == siphash(KEY, packet[:32])
    assert is_tag_right(packet, KEY)


def test_every_session_of_every_job_has_a_key_of_its_own() -> None:
    jobs = [None, b"k" * 16, b"K" * 16, b"k" * 64]
    keys = [session_key(job, number) for job in jobs for number in (0, 1, 2**64 - 1)]
    assert len(set(keys)) == len(keys)
    assert {len(key) for key in keys} == {16}
    assert session_key(b"k" * 16, 7) == session_key(b"k" * 16, 7)


def test_a_session_s_key_is_not_the_one_that_opens_it_nor_the_members() -> None:
    job = b"the key of job 7"
    own, opens, shared = session_key(job, 0), opening_key(job, 0), member_key(job)
    assert len({own, opens, shared[:16], shared[16:]}) == 4
    assert len(shared) == 32
    # What a member can make of all that it has: neither is the key that opens.
    for key in (own, shared):
        assert opens not in (session_key(key, 0), opening_key(key, 0))


@pytest.mark.parametrize("length", [0, 15, 65])
def test_a_job_s_key_has_16_to_64_bytes(length: int) -> None:
    with refuses(f"job_key must have 16 to 64 bytes, got {length}"):
        session_key(b"k" * length, 1)


@pytest.mark.parametrize("lengths", [[39], [121], [-1]])
def test_lengths_that_no_packet_has_are_refused(lengths: list[int]) -> None:
    rows, given = some_packets(lengths)
    text = f"lengths must be in 40..120, got {lengths[0]}..{lengths[0]}"
    with data_plane("native"), refuses(text):
        check_tags(rows, given, KEY)
