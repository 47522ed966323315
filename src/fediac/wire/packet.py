"""One packet as a frozen value; encode and decode."""

import struct
from dataclasses import dataclass
from typing import Any

from fediac.errors import RemoteProtocolError
from fediac.wire.header import (
    HEADER,
    HEADER_BYTES,
    HEADER_STRUCT,
    MAGIC,
    VERSION,
    Flag,
    Kind,
)

NO_FLAGS = Flag(0)
_FIELDS = (HEADER.names or ())[3:]
"""Those behind magic, version and kind."""

_KINDS = ", ".join(str(kind.value) for kind in Kind)


@dataclass(frozen=True, slots=True)
class Packet:
    """Header fields (see `fediac.wire.header.HEADER`) and what follows them.

    Attributes:
        count: Clients counted, in an answer.
        threshold: Votes an entry needs, in a client's tally.
        body: The payload.
    """

    kind: Kind
    session: int
    exchange: int
    client: int
    packet: int = 0
    n_items: int = 0
    count: int = 0
    aux: int = 0
    threshold: int = 0
    bits_up: int = 0
    bits: int = 0
    flags: Flag = NO_FLAGS
    part: int = 0
    tag: int = 0
    body: bytes = b""


def encode(packet: Packet) -> bytes:
    """Return the bytes of one packet."""
    is_answer = Flag.ANSWER in packet.flags
    fields = (
        MAGIC,
        VERSION,
        packet.kind,
        packet.session,
        packet.exchange,
        packet.client,
        packet.packet,
        packet.aux,
        packet.n_items,
        packet.count if is_answer else packet.threshold,
        packet.bits_up,
        packet.bits,
        packet.flags,
        packet.part,
        packet.tag,
    )
    return HEADER_STRUCT.pack(*fields) + packet.body


def decode(data: bytes) -> Packet:
    """Return the packet in ``data``.

    Raises:
        RemoteProtocolError: The bytes are not a packet of this version.
    """
    if len(data) < HEADER_BYTES:
        raise RemoteProtocolError(
            f"packet must have at least {HEADER_BYTES} bytes, got {len(data)}"
        )
    magic, version, kind, *fields = HEADER_STRUCT.unpack_from(data)
    if magic != MAGIC:
        raise RemoteProtocolError(f"magic must be {MAGIC:#06x}, got {magic:#06x}")
    if version != VERSION:
        raise RemoteProtocolError(f"version must be {VERSION}, got {version}")
    if kind not in set(Kind):
        raise RemoteProtocolError(f"kind must be one of {_KINDS}, got {kind}")
    values: dict[str, Any] = dict(zip(_FIELDS, fields, strict=True))
    flags = Flag(values.pop("flags"))
    both = values.pop("threshold_or_count")
    values["count" if Flag.ANSWER in flags else "threshold"] = both
    return Packet(Kind(kind), **values, flags=flags, body=data[HEADER_BYTES:])


def unpack_body(body: struct.Struct, packet: Packet) -> tuple[int, ...]:
    """Return the numbers behind a header.

    Raises:
        RemoteProtocolError: There is less or more behind it.
    """
    if len(packet.body) != body.size:
        raise RemoteProtocolError(
            f"{packet.kind.name.lower()} must have {body.size} bytes behind its "
            f"header, got {len(packet.body)}"
        )
    return body.unpack(packet.body)
