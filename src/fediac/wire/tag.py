"""The tag of a packet: whoever has the key can tell damage and forgery by it.

SipHash-2-4 (Aumasson and Bernstein, INDOCRYPT 2012) of all of the packet but the tag's
own place. It is short enough for a switch. The key is a session's own, so that no
packet of one session passes for another's; a job without a key has a public one, and
its tags then tell damage only.

Three keys are made of a job's key, none of which leads back to it: a session's, for its
members; the one that opens and closes it, for the coordinator alone; and the one that
members prove themselves with to the coordinator.
"""

import hashlib
import hmac
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from fediac import native
from fediac.errors import ArgumentError
from fediac.wire.header import HEADER_BYTES

KEY_BYTES = 16
"""Bytes of a session's key, and the fewest of a job's."""

MAX_KEY_BYTES = 64

_TAG_BYTES = 8
_TAG_AT = HEADER_BYTES - _TAG_BYTES
_MASK = (1 << 64) - 1

Rows = npt.NDArray[np.uint8]
Lengths = npt.NDArray[np.int32]


def session_key(job_key: bytes | None, session: int) -> bytes:
    """Return the key of the tags of a session's members.

    Args:
        job_key: Known to who opens the job's sessions and to the switch; None: the job
            has none.
        session: The session's number.
    """
    return _made(job_key, session, KEY_BYTES, b"fediac session")


def opening_key(job_key: bytes | None, session: int) -> bytes:
    """Return the key of the tags of what opens, keeps and closes a session.

    Who takes part in it has not got this one.
    """
    return _made(job_key, session, KEY_BYTES, b"fediac opening")


def member_key(job_key: bytes) -> bytes:
    """Return what clients of a `fediac.Conductor` prove themselves with.

    It opens no session at the switch, and leads to the key of none.

    Args:
        job_key: The job's, which the conductor and the switch have.
    """
    return _made(job_key, 0, 2 * KEY_BYTES, b"fediac member")


def _made(job_key: bytes | None, number: int, n_bytes: int, person: bytes) -> bytes:
    if job_key is not None and not KEY_BYTES <= len(job_key) <= MAX_KEY_BYTES:
        raise ArgumentError(
            "job_key",
            f"must have {KEY_BYTES} to {MAX_KEY_BYTES} bytes, got {len(job_key)}",
        )
    made = hashlib.blake2b(
        number.to_bytes(8, "big"),
        digest_size=n_bytes,
        key=job_key or b"",
        person=person,
    )
    return made.digest()


def siphash(key: bytes, data: bytes) -> int:
    """Return the SipHash-2-4 of ``data``, 64 bits, under a key of 16 bytes."""
    k0, k1 = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    state = (
        k0 ^ 0x736F6D6570736575,
        k1 ^ 0x646F72616E646F6D,
        k0 ^ 0x6C7967656E657261,
        k1 ^ 0x7465646279746573,
    )
    for word in _words(data):
        v0, v1, v2, v3 = _round(*_round(state[0], state[1], state[2], state[3] ^ word))
        state = v0 ^ word, v1, v2, v3
    state = state[0], state[1], state[2] ^ 0xFF, state[3]
    for _ in range(4):
        state = _round(*state)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def _words(data: bytes) -> Iterator[int]:
    """Yield the data as little-endian words; the last one has its length on top."""
    n_whole = len(data) // 8 * 8
    for at in range(0, n_whole, 8):
        yield int.from_bytes(data[at : at + 8], "little")
    yield (len(data) & 0xFF) << 56 | int.from_bytes(data[n_whole:], "little")


def _round(v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
    v0, v2 = v0 + v1 & _MASK, v2 + v3 & _MASK
    v1, v3 = _rotate(v1, 13) ^ v0, _rotate(v3, 16) ^ v2
    v0 = _rotate(v0, 32)
    v2, v0 = v2 + v1 & _MASK, v0 + v3 & _MASK
    v1, v3 = _rotate(v1, 17) ^ v2, _rotate(v3, 21) ^ v0
    return v0, v1, _rotate(v2, 32), v3


def _rotate(word: int, n_bits: int) -> int:
    return (word << n_bits | word >> 64 - n_bits) & _MASK


def tagged(packet: bytes, key: bytes) -> bytes:
    """Return a packet with its tag in place."""
    tag = _tag_of(packet, key)
    return packet[:_TAG_AT] + tag + packet[HEADER_BYTES:]


def is_tag_right(packet: bytes, key: bytes) -> bool:
    """Return whether a packet has its tag; how long that takes tells nothing."""
    return hmac.compare_digest(packet[_TAG_AT:HEADER_BYTES], _tag_of(packet, key))


def _tag_of(packet: bytes, key: bytes) -> bytes:
    kernels = native.host_kernels()
    if kernels is not None and len(packet) >= HEADER_BYTES:
        return kernels.tag_of(packet, key)
    others = packet[:_TAG_AT] + packet[HEADER_BYTES:]
    return siphash(key, others).to_bytes(_TAG_BYTES, "big")


def tag_packets(rows: Rows, lengths: Lengths, key: bytes) -> None:
    """Put their tags into packets in place.

    Args:
        rows: One row of bytes a packet.
        lengths: How many bytes of each row are the packet, a whole header at least.
        key: The session's.
    """
    kernels = native.host_kernels_for(rows.reshape(-1))
    if kernels is not None:
        kernels.tag_packets(rows, lengths, key)
        return
    for row, length in zip(rows, lengths, strict=True):
        tag = _tag_of(row[:length].tobytes(), key)
        row[_TAG_AT:HEADER_BYTES] = np.frombuffer(tag, dtype=np.uint8)


def check_tags(rows: Rows, lengths: Lengths, key: bytes) -> npt.NDArray[np.bool_]:
    """Return which packets have their tags; see `tag_packets`."""
    kernels = native.host_kernels_for(rows.reshape(-1))
    if kernels is not None:
        return kernels.check_tags(rows, lengths, key)
    return np.array(
        [
            is_tag_right(row[:length].tobytes(), key)
            for row, length in zip(rows, lengths, strict=True)
        ],
        dtype=np.bool_,
    )
