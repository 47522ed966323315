import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fediac.errors import RemoteProtocolError
from fediac.wire.header import HEADER, HEADER_BYTES, Flag, Kind, Reason
from fediac.wire.packet import Packet, decode, encode
from fediac.wire.tag import is_tag_right, session_key, tagged
from tests.support import refuses

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "vectors" / "packets.json").read_text()
)
TAGGED = [vector for vector in VECTORS if "key" in vector]


def for_each(vectors: list[dict[str, Any]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("vector", vectors, ids=lambda vector: vector["name"])


by_name = for_each(VECTORS)


def packet_of(vector: dict[str, Any]) -> Packet:
    fields = dict(vector["fields"])
    kind, flags = Kind[fields.pop("kind")], Flag(fields.pop("flags"))
    return Packet(kind, **fields, flags=flags, body=bytes.fromhex(vector["body"]))


KINDS = "1, 2, 3, 4, 5, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28"


@by_name
def test_golden_packets_are_encoded_to_the_byte(vector: dict[str, Any]) -> None:
    assert encode(packet_of(vector)).hex() == vector["packet"]


@by_name
def test_golden_packets_are_decoded_to_the_field(vector: dict[str, Any]) -> None:
    assert decode(bytes.fromhex(vector["packet"])) == packet_of(vector)


@by_name
def test_arrays_of_headers_read_the_same_fields(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["packet"])
    header = np.frombuffer(data[:HEADER_BYTES], dtype=HEADER)[0]
    fields = vector["fields"] | {"kind": Kind[vector["fields"]["kind"]]}
    shared = "threshold" if "threshold" in fields else "count"
    fields["threshold_or_count"] = fields.pop(shared)
    assert {name: int(header[name]) for name in fields} == fields


def test_golden_packets_have_all_kinds_flags_and_reasons() -> None:
    packets = [packet_of(vector) for vector in VECTORS]
    errors = [packet for packet in packets if packet.kind == Kind.ERROR]
    assert {packet.kind for packet in packets} == set(Kind)
    assert {flag for packet in packets for flag in packet.flags} == set(Flag)
    assert {packet.part for packet in errors} == set(Reason)


@for_each(TAGGED)
def test_golden_tags_are_made_to_the_bit(vector: dict[str, Any]) -> None:
    untagged = replace(packet_of(vector), tag=0)
    key = bytes.fromhex(vector["key"])
    assert tagged(encode(untagged), key).hex() == vector["packet"]


@for_each(TAGGED)
def test_golden_tags_are_right_under_the_key_of_their_session(
    vector: dict[str, Any],
) -> None:
    job_key = None if vector["job_key"] is None else bytes.fromhex(vector["job_key"])
    session = vector["fields"]["session"]
    data = bytes.fromhex(vector["packet"])
    assert session_key(job_key, session).hex() == vector["key"]
    assert is_tag_right(data, session_key(job_key, session))
    assert not is_tag_right(data, session_key(job_key, session + 1))


VALID = encode(Packet(Kind.MAX, session=1, exchange=3, client=4))


@pytest.mark.parametrize("length", [0, 1, 39])
def test_a_packet_shorter_than_a_header_is_refused(length: int) -> None:
    message = f"packet must have at least 40 bytes, got {length}"
    with pytest.raises(RemoteProtocolError, match=f"^{message}$"):
        decode(VALID[:length])


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (0, 0x00, "magic must be 0xfed1, got 0x00d1"),
        (2, 1, "version must be 2, got 1"),
        (3, 0, f"kind must be one of {KINDS}, got 0"),
        (3, 6, f"kind must be one of {KINDS}, got 6"),
    ],
)
def test_what_another_protocol_says_is_refused(
    place: int, value: int, message: str
) -> None:
    data = bytearray(VALID)
    data[place] = value
    with refuses(message, RemoteProtocolError):
        decode(bytes(data))


def test_unknown_flags_are_kept() -> None:
    data = bytearray(VALID)
    data[30] = 0xF0
    assert encode(decode(bytes(data))) == data
