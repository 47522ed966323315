"""The packet header: magic, version, field widths. The only home of wire constants.

A packet is 40 header bytes and a payload: as many bytes as the path takes behind IP,
UDP and header, rounded down to a multiple of 64; 1,408 of the usual 1,500. All fields
of the header are unsigned integers in network byte order.
"""

import struct
from enum import IntEnum, IntFlag
from math import gcd

import numpy as np

from fediac.errors import ArgumentError, say_count

MAGIC = 0xFED1
VERSION = 2
IP_UDP_BYTES = 28
HEADER_BYTES = 40
MAX_CLIENTS = 1024
EVERYONE = 0xFFFF
"""The client field of an answer that goes to all clients."""

END = 0xFFFFFFFF
"""The next block's number when no block follows."""


class Kind(IntEnum):
    """What the packet asks of the switch, one for each exchange it serves, or tells."""

    TALLY = 1
    MAX = 2
    SUM = 3
    BLOCK_SUM = 4
    INDEXED_SUM = 5
    OPEN = 16
    """From here on, see `fediac.wire.control`."""
    OPENED = 17
    CLOSE = 18
    CLOSED = 19
    JOIN = 20
    COOKIE = 21
    WELCOME = 22
    WAIT = 23
    """From the switch: the packet is counted already, and ``count`` clients are in."""
    ABORT = 24
    ERROR = 25
    """From the switch: the packet cannot be taken, see `Reason`."""
    ALIVE = 26
    STATUS = 27
    REPORT = 28


EXCHANGES = frozenset(Kind(number) for number in range(1, 6))
"""What clients may ask."""


class Reason(IntEnum):
    """In an error's ``part``: why a packet cannot be taken.

    The first two are about an exchange that runs, and their errors are a header alone.
    All others have a body with what the switch has and what the packet had; see
    `fediac.wire.control.Refusal`.
    """

    SETTINGS = 1
    """Its kind (``n_items``), or its threshold or widths (``aux``)."""
    ITEMS = 2
    """How many items the packet, or addresses the sum, has (``n_items``, ``aux``)."""
    UNKNOWN_SESSION = 3
    """There is no such session, or the switch has been started since."""
    VERSION = 4
    """The packet is of another version of the protocol."""
    KEY = 5
    """The tag is not that of the job's or session's key."""
    JOBS = 6
    """There are as many jobs as the switch takes."""
    MEMORY = 7
    """A job's registers are too few for a session of so many members and bytes."""
    MEMBERS = 8
    """A session cannot have so many members."""
    PAYLOAD = 9
    """A packet may not have so many bytes of items."""
    EPOCH = 10
    """The job's coordinator has been started again since."""
    SESSION = 11
    """The job has had a session with this number or a later one."""
    MEMBER = 12
    """The session has no member with this number in this role."""


PAYLOAD_UNIT = 64
"""Payloads are multiples of so many bytes, so that a pipeline can work in pieces."""

MAX_PAYLOAD_BYTES = 0xFFFF // 8 // PAYLOAD_UNIT * PAYLOAD_UNIT
"""Votes of a packet are counted in 16 bits."""


def payload_of(mtu: int) -> int:
    """Return the bytes of items in a packet that is at most ``mtu`` bytes long."""
    room = (mtu - IP_UDP_BYTES - HEADER_BYTES) // PAYLOAD_UNIT * PAYLOAD_UNIT
    if room < PAYLOAD_UNIT:
        least = IP_UDP_BYTES + HEADER_BYTES + PAYLOAD_UNIT
        raise ArgumentError("mtu", f"must be at least {least} bytes, got {mtu}")
    return min(room, MAX_PAYLOAD_BYTES)


PAYLOAD_BYTES = payload_of(1500)


class Flag(IntFlag):
    """Bits of the flags field."""

    ANSWER = 1
    """From the switch to clients."""
    OBSERVE = 2
    """From who adds nothing but gets every answer."""
    LAST = 4
    """The sender's last packet of an indexed sum."""
    ANNOUNCE = 8
    """A block sum's packet without a block: only the next block's number."""
    NARROW = 16
    """An indexed sum whose indices have as many bits as its size needs, not 32."""
    READ = 32
    """Asks for the totals in one range of an indexed sum's addresses."""


HEADER = np.dtype(
    [
        ("magic", ">u2"),
        ("version", "u1"),
        ("kind", "u1"),
        ("session", ">u8"),  # an attempt at a round; no number is used twice
        ("exchange", ">u2"),  # which exchange of the session, from 0
        ("client", ">u2"),
        ("packet", ">u4"),  # packet number in the exchange; the block in a block sum
        ("aux", ">u4"),  # peak's float bits; next block; size of an indexed sum
        ("n_items", ">u2"),  # votes, lanes, levels or pairs in the payload
        ("threshold_or_count", ">u2"),  # votes needed; in an answer, clients counted
        ("bits_up", "u1"),  # width of a lane on its way up, in a sum
        ("bits", "u1"),  # width of a lane or level; in a tally, the one asked for
        ("flags", "u1"),
        ("part", "u1"),  # which of the packets that answer one packet of a sum
        ("tag", ">u8"),  # of all that comes before and after; 0 inside a process
    ]
)
HEADER_STRUCT = struct.Struct(">HBBQHHIIHHBBBBQ")

LANES_UNIT = 8
"""Packets hold a multiple of so many lanes where those of sums are wider: whole bytes
of either width."""


def items_per_packet(bits: int, payload_bytes: int) -> int:
    """Return how many items of ``bits`` bits fill a packet to a whole byte.

    Packets then are slices of a client's packed bytes: no bit is ever shifted to
    build one. It costs at most seven items against the fullest packet.
    """
    unit = 8 // gcd(8, bits)
    n_items = 8 * payload_bytes // bits // unit * unit
    if n_items < 1:
        raise ArgumentError(
            "payload_bytes",
            f"must hold {say_count(unit, 'item')} of {bits} bits, got {payload_bytes}",
        )
    return n_items


def lanes_per_packet(bits_up: int, bits_down: int, payload_bytes: int) -> int:
    """Return how many lanes of a sum a client puts into a packet.

    The answer to a packet holds the sums of its lanes, so where these are wider, it
    takes more packets: see `lanes_per_part`.
    """
    if bits_up == bits_down:
        return items_per_packet(bits_up, payload_bytes)
    lanes_per_part(bits_down, payload_bytes)
    return lanes_per_part(bits_up, payload_bytes)


def lanes_per_part(bits: int, payload_bytes: int) -> int:
    """Return how many lanes fill a packet in a sum of two widths."""
    n_lanes = 8 * payload_bytes // bits // LANES_UNIT * LANES_UNIT
    if not n_lanes:
        raise ArgumentError(
            "payload_bytes",
            f"must hold {say_count(LANES_UNIT, 'lane')} of {bits} bits, "
            f"got {payload_bytes}",
        )
    return n_lanes


def bitmap_bytes(n_clients: int) -> int:
    """Return how many bytes hold one bit a client."""
    return -(-n_clients // 8)
