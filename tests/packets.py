"""Packets as tests write them, and a switch to send them to."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fediac.switch.job import Job
from fediac.switch.pipeline import Switch
from fediac.wire.header import END, Flag, Kind
from fediac.wire.packet import Packet, decode, encode

Sent = tuple[int, Packet]
"""Where an answer goes, and the answer."""


def send(switch: Switch, *packets: Packet | bytes) -> list[Sent]:
    """Return the switch's answers to some packets that arrive together."""
    data = [each if isinstance(each, bytes) else encode(each) for each in packets]
    rows = np.zeros((len(data), max(map(len, data), default=0)), dtype=np.uint8)
    for row, each in zip(rows, data, strict=True):
        row[: len(each)] = np.frombuffer(each, dtype=np.uint8)
    answers = switch.process(rows, np.array([len(each) for each in data], np.int32))
    return [
        (int(to), decode(row[:length].tobytes()))
        for to, row, length in zip(
            answers.destinations, answers.packets, answers.lengths, strict=True
        )
    ]


def told(switch: Switch, *packets: Packet) -> Packet:
    """Return the only answer to some packets, which goes to who sent the last one."""
    ((to, answer),) = send(switch, *packets)
    assert to == answer.client == packets[-1].client
    return answer


def observed(packet: Packet, client: int) -> Packet:
    """Return what an observer sends where a client sends ``packet``: nothing to add."""
    tells = packet.kind in (Kind.TALLY, Kind.MAX)
    asks = packet.kind == Kind.TALLY
    return replace(
        packet,
        client=client,
        n_items=0,
        aux=0 if tells else packet.aux,
        bits=0 if asks else packet.bits,
        flags=packet.flags | Flag.OBSERVE,
        body=b"",
    )


def answer_to(switch: Switch, *packets: Packet) -> Packet:
    """Return the only answer to some packets, which goes to everyone."""
    ((to, answer),) = send(switch, *packets)
    assert to == 0xFFFF
    return answer


def pack(lanes: Iterable[int], bits: int) -> bytes:
    """Return lanes as one little-endian integer."""
    digits = [f"{lane:0{bits}b}" for lane in lanes]
    total = int("".join(reversed(digits)) or "0", base=2)
    return total.to_bytes(-(-len(digits) * bits // 8), "little")


def unpack(body: bytes, n_items: int, bits: int) -> list[int]:
    """Return the lanes that `pack` packed."""
    total = int.from_bytes(body, "little")
    return [total >> bits * place & (1 << bits) - 1 for place in range(n_items)]


def _packet(kind: Kind, job: Job, client: int, **fields: Any) -> Packet:
    """Return a packet of the first exchange, unless ``fields`` say more."""
    fields = {"exchange": 0} | fields
    return Packet(kind=kind, session=job.session, client=client, **fields)


def votes(
    job: Job, client: int, mask: str, *, threshold: int = 1, peak: int = 0, **place: int
) -> Packet:
    """Return a vote packet; ``mask`` has one 0 or 1 an entry, the first one first."""
    return _packet(
        Kind.TALLY,
        job,
        client,
        n_items=len(mask),
        aux=peak,
        threshold=threshold,
        body=pack(map(int, mask), 1),
        **place,
    )


def gia(answer: Packet) -> str:
    """Return the mask in an answer to votes."""
    return "".join(map(str, unpack(answer.body, answer.n_items, 1)))


def lanes(
    job: Job,
    client: int,
    values: Sequence[int],
    *,
    bits: int = 8,
    bits_down: int | None = None,
    **place: int,
) -> Packet:
    """Return a packet of a sum; its answers' lanes are ``bits_down`` bits wide."""
    return _packet(
        Kind.SUM,
        job,
        client,
        n_items=len(values),
        bits_up=bits,
        bits=bits if bits_down is None else bits_down,
        body=pack(values, bits),
        **place,
    )


def totals(answer: Packet) -> list[int]:
    """Return the lanes in an answer to a sum."""
    return unpack(answer.body, answer.n_items, answer.bits)


def peak(job: Job, client: int, value: int, **place: int) -> Packet:
    """Return a packet of a maximum."""
    return _packet(Kind.MAX, job, client, aux=value, **place)


def announce(job: Job, client: int, first: int = END, **place: int) -> Packet:
    """Return a block sum's first packet."""
    return _packet(Kind.BLOCK_SUM, job, client, aux=first, flags=Flag.ANNOUNCE, **place)


def block(
    job: Job,
    client: int,
    number: int,
    levels: Sequence[int],
    *,
    following: int = END,
    **place: int,
) -> Packet:
    """Return a block that names the client's next one."""
    return _packet(
        Kind.BLOCK_SUM,
        job,
        client,
        packet=number,
        n_items=len(levels),
        aux=following,
        bits=32,
        body=np.array(levels, dtype="<i4").tobytes(),
        **place,
    )


def levels(answer: Packet) -> list[int]:
    """Return the totals in a block's answer."""
    return [int(level) for level in np.frombuffer(answer.body, dtype="<i4")]


def pairs(
    job: Job,
    client: int,
    values: dict[int, int],
    *,
    size: int = 16,
    bits: int = 32,
    is_narrow: bool = False,
    is_last: bool = True,
    **place: int,
) -> Packet:
    """Return a packet of an indexed sum; ``values`` maps addresses to levels."""
    n_index = index_width(size, is_narrow=is_narrow)
    words = [i | (level % (1 << bits)) << n_index for i, level in values.items()]
    return _packet(
        Kind.INDEXED_SUM,
        job,
        client,
        n_items=len(values),
        aux=size,
        bits=bits,
        flags=Flag(Flag.LAST * is_last | Flag.NARROW * is_narrow),
        body=pack(words, n_index + bits),
        **place,
    )


def reading(pairs: Packet, number: int) -> Packet:
    """Return what asks for a range of the totals where a client sends ``pairs``."""
    flags = pairs.flags & ~Flag.LAST | Flag.READ
    return replace(pairs, packet=number, n_items=0, flags=flags, body=b"")


def read_totals(switch: Switch, pairs: Packet) -> dict[int, int]:
    """Return the totals of a complete sum, read by who sent ``pairs``."""
    n_index = index_width(pairs.aux, is_narrow=Flag.NARROW in pairs.flags)
    length = 8 * switch.payload_bytes // (n_index + pairs.bits)
    requests = (reading(pairs, i) for i in range(-(-pairs.aux // length)))
    return indexed_totals(told(switch, each) for each in requests)


def index_width(size: int, *, is_narrow: bool) -> int:
    """Return how many bits an index has: 32, or as many as the largest one needs."""
    return max(1, len(f"{size - 1:b}")) if is_narrow else 32


def indexed_totals(answers: Iterable[Packet]) -> dict[int, int]:
    """Return what the answers to an indexed sum say: address -> total."""
    totals = {}
    for answer in answers:
        n_index = index_width(answer.aux, is_narrow=Flag.NARROW in answer.flags)
        for word in unpack(answer.body, answer.n_items, n_index + answer.bits):
            total, sign = word >> n_index, 1 << answer.bits - 1
            totals[word % (1 << n_index)] = (total ^ sign) - sign
    return totals
