"""Clients that follow the protocol, and a network that loses, doubles and reorders.

Time is a counter. Clients send again what was not answered in time; the switch has no
clock. This is the protocol from the clients' side in its shortest form.
"""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Protocol

import numpy as np

from fediac.switch.job import Job
from fediac.switch.pipeline import Switch
from fediac.wire.header import END, EVERYONE, Flag, Kind
from fediac.wire.packet import Packet
from tests.packets import announce, block, observed, reading, send

TIMEOUT = 12
MAX_TICKS = 20_000


class Asking(Protocol):
    """One exchange of one client."""

    @property
    def answers(self) -> dict[int, Packet]: ...
    @property
    def is_done(self) -> bool: ...
    def due(self) -> Iterator[Packet]:
        """Yield what should be on its way now."""

    def take(self, answer: Packet) -> None:
        """Take note of an answer, or of being told to wait."""


@dataclass
class Aligned:
    """A tally, sum or maximum: a window of half the slots.

    The answer to packet j has ``n_parts[j]`` parts, None: all have one; they stand in
    order in ``answers``.
    """

    packets: Sequence[Packet]
    n_slots: int
    n_parts: Sequence[int] | None = None
    answers: dict[int, Packet] = field(default_factory=dict)

    @property
    def is_done(self) -> bool:
        return not self._missing()

    def _missing(self) -> list[int]:
        n_parts = self.n_parts or [1] * len(self.packets)
        return [
            i
            for i, n in enumerate(n_parts)
            if any(256 * i + part not in self.answers for part in range(n))
        ]

    def due(self) -> Iterator[Packet]:
        missing = self._missing()
        stop = missing[0] + max(1, self.n_slots // 2)
        yield from (self.packets[i] for i in missing if i < stop)

    def take(self, answer: Packet) -> None:
        if answer.kind != Kind.WAIT:
            self.answers[256 * answer.packet + answer.part] = answer


@dataclass
class Indexed:
    """An indexed sum: all packets in order, then its ranges, a few at a time.

    Whoever is told to wait knows which of its packets are counted. Range 0 comes by
    itself, and is asked for as well, since it may get lost.
    """

    packets: Sequence[Packet]
    n_ranges: int
    answers: dict[int, Packet] = field(default_factory=dict)
    n_counted: int = 0

    @property
    def is_done(self) -> bool:
        return len(self.answers) == self.n_ranges

    def due(self) -> Iterator[Packet]:
        if not self.answers:
            yield from self.packets[self.n_counted :]
            yield reading(self.packets[0], 0)
            return
        missing = (i for i in range(self.n_ranges) if i not in self.answers)
        yield from (reading(self.packets[0], i) for i in islice(missing, 4))

    def take(self, answer: Packet) -> None:
        if answer.kind == Kind.WAIT:
            self.n_counted = max(self.n_counted, answer.aux)
        else:
            self.answers[answer.packet] = answer


class Blocks:
    """A block sum: follows the chain of answers, by the rules for lossy networks."""

    def __init__(
        self,
        job: Job,
        client: int,
        blocks: Mapping[int, list[int]],
        n_blocks: int,
        exchange: int,
    ) -> None:
        self.job, self.client, self.exchange = job, client, exchange
        self.blocks, self.n_blocks = blocks, n_blocks
        self.third = (job.layout.n_slots(Kind.BLOCK_SUM) + 1) // 3
        self.answers: dict[int, Packet] = {}
        self.expected: int | None = None
        self.sent: list[Packet] = []
        self.next = self._after(-1, self.third)

    @property
    def is_done(self) -> bool:
        return self.expected == END

    def _after(self, number: int, limit: int) -> int:
        following = min((i for i in self.blocks if i > number), default=END)
        following = min(following, limit)
        return following if following < self.n_blocks else END

    def due(self) -> Iterator[Packet]:
        expected = self.expected or 0
        while self.next < expected + self.third:
            number = self.next
            self.next = self._after(number, number + self.third)
            self.sent.append(self._block(number, self.blocks.get(number, [])))
        if self.expected is None:
            first = self.sent[0].packet if self.sent else self.next
            yield announce(self.job, self.client, first, exchange=self.exchange)
        yield from (packet for packet in self.sent if packet.packet >= expected)
        if self.expected is not None and self.expected < self.next:
            yield self._block(expected, [])

    def _block(self, number: int, levels: list[int]) -> Packet:
        return block(
            self.job,
            self.client,
            number,
            levels,
            following=self.next,
            exchange=self.exchange,
        )

    def take(self, answer: Packet) -> None:
        if answer.kind == Kind.WAIT:
            return
        if Flag.ANNOUNCE in answer.flags:
            self.expected = answer.aux if self.expected is None else self.expected
        else:
            self.answers[answer.packet] = answer
            if self.expected is None and answer.packet == 0:
                self.expected = 0
        while self.expected in self.answers:
            self.expected = self.answers[self.expected].aux


@dataclass
class Observing:
    """What a client without anything to add asks."""

    asking: Asking
    client: int

    @property
    def answers(self) -> dict[int, Packet]:
        return self.asking.answers

    @property
    def is_done(self) -> bool:
        return self.asking.is_done

    def due(self) -> Iterator[Packet]:
        yield from (observed(packet, self.client) for packet in self.asking.due())

    def take(self, answer: Packet) -> None:
        self.asking.take(answer)


def observe(asking: Asking, client: int) -> Observing:
    """Return what an observer asks where another client asks ``asking``."""
    match asking:
        case Aligned():
            own: Asking = Aligned(asking.packets, asking.n_slots, asking.n_parts)
        case Indexed():
            own = Indexed(asking.packets, asking.n_ranges)
        case Blocks():
            own = Blocks(asking.job, client, {}, asking.n_blocks, asking.exchange)
        case _:
            raise TypeError(asking)
    return Observing(own, client)


@dataclass
class Client:
    """Goes through its exchanges one after the other."""

    exchanges: Sequence[Asking]
    place: int = 0
    last_sent: dict[tuple[int, int, int], int] = field(default_factory=dict)

    @property
    def is_done(self) -> bool:
        return self.place == len(self.exchanges)

    def due(self, now: int) -> Iterator[Packet]:
        if self.is_done:
            return
        for packet in self.exchanges[self.place].due():
            key = (packet.exchange, packet.packet, int(packet.flags))
            if now - self.last_sent.get(key, -TIMEOUT) >= TIMEOUT:
                self.last_sent[key] = now
                yield packet

    def take(self, answer: Packet) -> None:
        if answer.exchange != self.place or self.is_done:
            return
        self.exchanges[self.place].take(answer)
        while not self.is_done and self.exchanges[self.place].is_done:
            self.place += 1


@dataclass(frozen=True)
class Links:
    """How bad the network is, both ways."""

    loss: float
    duplication: float
    max_delay: int

    def delays(self, rng: np.random.Generator) -> list[int]:
        """Return when the copies of one packet arrive, if any do."""
        n_copies = 1 + int(rng.random() < self.duplication)
        return [
            int(rng.integers(1, self.max_delay + 1))
            for _ in range(n_copies)
            if rng.random() >= self.loss
        ]


def run(
    switch: Switch,
    clients: Mapping[int, Client],
    links: Links,
    seed: int,
    *,
    max_ticks: int = MAX_TICKS,
) -> int | None:
    """Return when all clients were done; None if they never are."""
    rng = np.random.default_rng(seed)
    flights: list[tuple[int, int, int, Packet]] = []
    n_flights = 0
    for now in range(max_ticks):
        arrived = []
        while flights and flights[0][0] <= now:
            _, _, to, packet = heapq.heappop(flights)
            if to < 0:
                arrived.append(packet)
            else:
                clients[to].take(packet)
        leaving = [
            (-1, each) for client in clients.values() for each in client.due(now)
        ]
        for to, answer in send(switch, *arrived):
            receivers = clients if to == EVERYONE else (to,)
            leaving += [(receiver, answer) for receiver in receivers]
        for to, packet in leaving:
            for delay in links.delays(rng):
                n_flights += 1
                heapq.heappush(flights, (now + delay, n_flights, to, packet))
        if all(client.is_done for client in clients.values()):
            return now
    return None


def numbered(packets: Sequence[Packet]) -> list[Packet]:
    """Return the packets with their places as packet numbers."""
    return [replace(packet, packet=place) for place, packet in enumerate(packets)]
