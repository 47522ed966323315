"""The simulator once more, event by event: slow, plain, and written on its own.

An event is a tuple in a heap, a packet is an object. Nothing is computed ahead: a
packet's service begins in the event that frees the server, an answer goes down in the
event that completes its group. It shares with the package only the definitions of the
random numbers (which word of which stream, quantile table, rate table).
"""

import heapq
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from fediac.core.ledger import Row
from fediac.core.rng import Stream
from fediac.sim import Network, Service, Uplink

PS = 10**12
DEPARTURE, READY, ARRIVAL = range(3)
"""Events of one time happen in this order; arrivals in the order of clients."""


def exponential(word: int) -> int:
    """−ln((word + ½) / 2**32) in units of 2**-32, in the package's order of steps."""
    m, k = math.frexp(word + 0.5)
    if m < 0.7071067811865476:
        m, k = 2.0 * m, k - 1
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    series = 2.0 / 15.0
    for odd in (13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0):
        series = 2.0 / odd + z * series
    return round(((32.0 - k) * 0.6931471805599453 - s * series) * 2.0**32)


class Numbers:
    """One number after another from a stream."""

    def __init__(self, stream: Stream, service: Service | None = None) -> None:
        self.stream, self.service = stream, service
        self.n_drawn = 0

    def draw(self) -> int:
        word = int(self.stream.words_at(np.array([self.n_drawn]))[0])
        self.n_drawn += 1
        if self.service is None:
            return exponential(word)
        left = int(self.service.table[word >> 16])
        right = int(self.service.table[(word >> 16) + 1])
        return left + ((right - left) * (2 * (word & 0xFFFF) + 1) >> 17)


class Trace:
    """Walks through the seconds of an uplink; never looks at a table of sums."""

    def __init__(self, uplink: Uplink, origin_ps: int) -> None:
        self.units = [round(float(rate) * 2**32) for rate in uplink.rates.per_second]
        self.second_began = -((origin_ps + uplink.offset_s * PS) % PS)
        self.second = (origin_ps + uplink.offset_s * PS) // PS
        self.inside = 0

    @property
    def rate(self) -> int:
        return self.units[self.second % len(self.units)]

    def next_second(self) -> None:
        self.second += 1
        self.second_began += PS

    def begin(self, now: int) -> None:
        while now >= self.second_began + PS:
            self.next_second()
        self.inside = int(float(now - self.second_began) * (self.rate / PS))

    def advance(self, gap: int) -> int:
        self.inside += gap
        while self.inside >= self.rate:
            self.inside -= self.rate
            self.next_second()
        return self.second_began + int(float(self.inside) * (PS / self.rate))


@dataclass
class Group:
    """Packets that one answer waits for."""

    waits_for: set[tuple[int, int]]
    n_answers: int = 1
    own: set[tuple[int, int]] | None = None
    is_open: bool = False

    def needs_slot_for(self, client: int, number: int) -> bool:
        """Whether the packet is one of the group's own; by default all are."""
        return (client, number) in (self.waits_for if self.own is None else self.own)


@dataclass
class Exchange:
    """Groups in order; for each client what it must have before each packet."""

    is_far: bool
    groups: list[Group]
    n_packets: dict[int, int]
    needs: dict[int, Callable[[int], int]]

    @property
    def n_answers(self) -> int:
        return sum(group.n_answers for group in self.groups)


@dataclass
class Packet:
    step: int
    client: int
    exchange: int
    number: int
    arrival: int
    start: int = 0


@dataclass
class Server:
    """A queue and one packet in service."""

    numbers: Numbers
    waiting: deque[Any] = field(default_factory=deque)
    serving: Any = None


@dataclass
class Client:
    trace: Trace
    gaps: Numbers
    down_gaps: Numbers
    down_services: Numbers
    begins_at: int = 0
    last_arrival: int = -1
    exchange: int = 0
    number: int = 0
    is_blocked: bool = False
    ready: deque[tuple[int, int]] = field(default_factory=deque)
    is_receiving: bool = False
    arrived: deque[tuple[int, int]] = field(default_factory=deque)
    is_serving: bool = False
    got: dict[int, int] = field(default_factory=dict)


def make_exchanges(rows: Sequence[Row], network: Network) -> list[list[Exchange]]:
    """The exchanges of each step, literally by the rules."""
    keys = list(dict.fromkeys((row.step, row.phase, row.kind) for row in rows))
    steps: dict[int, list[Exchange]] = {}
    for key in sorted(keys, key=lambda each: each[0]):
        mine = [row for row in rows if (row.step, row.phase, row.kind) == key]
        ups = {row.client: row for row in mine if row.direction == "up"}
        downs = {row.client: row for row in mine if row.direction == "down"}
        steps.setdefault(key[0], []).append(make_exchange(ups, downs, network))
    return list(steps.values())


def make_exchange(
    ups: dict[int, Row], downs: dict[int, Row], network: Network
) -> Exchange:
    first, down = next(iter(ups.values())), next(iter(downs.values()))
    if first.kind == "blocksum":
        return make_block_exchange(ups, down, network)
    counts = {client: row.n_packets(network.view) for client, row in ups.items()}
    n_answers = down.n_packets(network.view)
    sizes = {(r.n_items, r.bits_per_item) for r in [*ups.values(), *downs.values()]}
    is_aligned = first.kind in ("tally", "max", "sum")
    is_aligned |= first.kind == "serversum" and len(sizes) == 1
    if not is_aligned:
        every = {(c, j) for c, count in counts.items() for j in range(count)}
        groups = [Group(every, n_answers)]
    else:
        groups = [
            Group({(c, j) for c, count in counts.items() if j < count})
            for j in range(max(counts.values()))
        ]
    is_far = first.destination == "server"
    window = 0
    if network.memory is not None and is_aligned and not is_far:
        window = network.memory.window_of(first.kind)

    def needs(number: int) -> int:
        return max(0, number - window + 1) if window else 0

    return Exchange(is_far, groups, counts, dict.fromkeys(ups, needs))


def make_block_exchange(ups: dict[int, Row], down: Row, network: Network) -> Exchange:
    """Packet 0 of every client announces; packet p carries its (p − 1)-th block."""
    union = blocks_of(down)
    blocks = {client: blocks_of(row) for client, row in ups.items()}
    counts = {client: len(each) + 1 for client, each in blocks.items()}
    memory = network.memory

    def closes(client: int, block: int) -> int:
        """The client's packet after which ``block`` needs nothing more of it."""
        own = blocks[client]
        if memory is None:
            later = [p for p, b in enumerate(own, start=1) if b >= block]
            return later[0] if later else len(own)
        # The first packet that names a next block beyond, or none.
        return next((p for p, b in enumerate(own) if b > block), len(own))

    groups = [Group({(c, 0) for c in ups}, own=set())] * down.n_bare
    for block in union:
        carriers = [c for c in ups if block in blocks[c]]
        own = {(c, blocks[c].index(block) + 1) for c in carriers}
        groups.append(Group({(c, closes(c, block)) for c in ups}, own=own))
    needs: dict[int, Callable[[int], int]] = dict.fromkeys(ups, lambda _: 0)
    if memory is not None:
        window = memory.window_of("blocksum")
        for client, sent in blocks.items():
            needs[client] = block_needs(sent, union, down.n_bare, window)
    return Exchange(is_far=False, groups=groups, n_packets=counts, needs=needs)


def blocks_of(row: Row) -> list[int]:
    assert row.blocks is not None
    return [int(block) for block in row.blocks]


def block_needs(
    own: list[int], union: list[int], n_bare: int, window: int
) -> Callable[[int], int]:
    def needs(number: int) -> int:
        if number == 0 or own[number - 1] < window:
            return 0
        return n_bare + sum(block <= own[number - 1] - window for block in union)

    return needs


class Simulation:
    """One round; after `run`, what the tests compare."""

    def __init__(
        self, rows: Sequence[Row], network: Network, *, seed: int, start_ps: int = 0
    ) -> None:
        self.network = network
        self.steps = make_exchanges(rows, network)
        number = rows[0].round_number
        self.events: list[tuple[int, int, int, int, Callable[[], None]]] = []
        self.n_events = 0

        def numbers(name: str, client: int, service: Service | None = None) -> Numbers:
            return Numbers(Stream(seed, number, client, f"sim {name}"), service)

        self.switch = Server(numbers("switch", 0, network.switch))
        self.far = Server(numbers("server", 0, network.server.service))
        self.clients = {
            c: Client(
                Trace(network.uplinks[c], start_ps),
                numbers("uplink", c),
                numbers("downlink", c),
                numbers("download", c, network.downlink.service),
            )
            for c in sorted({row.client for row in rows})
        }
        self.step_of = dict.fromkeys(self.clients, -1)
        self.packets: list[tuple[int, ...]] = []
        self.finish: dict[int, int] = {}
        self.now = self.area = self.max_waiting = 0
        self.n_open = self.max_open = 0
        self.delay = round(network.server.delay_s * PS)

    def run(self) -> "Simulation":
        for c in self.clients:
            time = self.network.compute_ps(c)
            self.at(time, READY, -1, partial(self.begin_step, c))
        while self.events:
            time, _, _, _, happen = heapq.heappop(self.events)
            self.area += len(self.switch.waiting) * (time - self.now)
            self.now = time
            happen()
        return self

    def at(self, time: int, kind: int, order: int, happen: Callable[[], None]) -> None:
        self.n_events += 1
        heapq.heappush(self.events, (time, kind, order, self.n_events, happen))

    def begin_step(self, c: int) -> None:
        self.step_of[c] += 1
        if self.step_of[c] == len(self.steps):
            self.finish[c] = self.now
            return
        client = self.clients[c]
        client.exchange = client.number = 0
        client.begins_at = self.now
        client.last_arrival = -1
        client.got = dict.fromkeys(range(len(self.steps[self.step_of[c]])), 0)
        client.trace.begin(self.now)
        self.send_next(c)

    def send_next(self, c: int) -> None:
        """Put the client's next packet on its way, if it may be sent."""
        client, exchanges = self.clients[c], self.steps[self.step_of[c]]
        while client.exchange < len(exchanges):
            exchange = exchanges[client.exchange]
            if client.number < exchange.n_packets[c]:
                break
            client.exchange, client.number = client.exchange + 1, 0
        else:
            return
        if client.got[client.exchange] < exchange.needs[c](client.number):
            client.is_blocked = True
            return
        if client.is_blocked and self.now > client.last_arrival:
            client.trace.begin(self.now)
            client.begins_at = self.now
        client.is_blocked = False
        time = max(client.trace.advance(client.gaps.draw()), client.begins_at)
        step, number = self.step_of[c], client.number
        packet = Packet(step, c, client.exchange, number, time)
        client.number += 1
        self.at(time, ARRIVAL, c, lambda: self.arrive(packet))

    def arrive(self, packet: Packet) -> None:
        self.switch.waiting.append(packet)
        if self.switch.serving is None:
            self.start_service()
        self.max_waiting = max(self.max_waiting, len(self.switch.waiting))
        self.clients[packet.client].last_arrival = self.now
        self.send_next(packet.client)

    def start_service(self) -> None:
        packet = self.switch.waiting.popleft()
        packet.start = self.now
        self.switch.serving = packet
        time = self.now + self.switch.numbers.draw()
        self.at(time, DEPARTURE, 0, self.depart)

    def depart(self) -> None:
        p = self.switch.serving
        self.switch.serving = None
        self.packets.append(
            (p.step, p.client, p.exchange, p.number, p.arrival, p.start, self.now)
        )
        if self.steps[p.step][p.exchange].is_far:
            self.at(self.now + self.delay, READY, -1, lambda: self.arrive_far(p))
        else:
            self.count(p)
        if self.switch.waiting:
            self.start_service()

    def arrive_far(self, packet: Packet) -> None:
        self.far.waiting.append(packet)
        if self.far.serving is None:
            self.start_far()

    def start_far(self) -> None:
        self.far.serving = self.far.waiting.popleft()
        time = self.now + self.far.numbers.draw()
        self.at(time, DEPARTURE, 1, self.depart_far)

    def depart_far(self) -> None:
        packet, self.far.serving = self.far.serving, None
        self.count(packet)
        if self.far.waiting:
            self.start_far()

    def count(self, p: Packet) -> None:
        exchange = self.steps[p.step][p.exchange]
        for group in exchange.groups:
            if not group.is_open and group.needs_slot_for(p.client, p.number):
                group.is_open = True
                self.n_open += not exchange.is_far
        self.max_open = max(self.max_open, self.n_open)
        for group in exchange.groups:
            if (p.client, p.number) in group.waits_for:
                group.waits_for.discard((p.client, p.number))
                if not group.waits_for:
                    self.n_open -= group.is_open and not exchange.is_far
                    self.answer(p, group)

    def answer(self, p: Packet, group: Group) -> None:
        delay = self.delay if self.steps[p.step][p.exchange].is_far else 0

        def go_down() -> None:
            for c in self.clients:
                self.clients[c].ready.extend([(p.exchange, 0)] * group.n_answers)
                self.receive_next(c)

        self.at(self.now + delay, READY, p.exchange, go_down)

    def receive_next(self, c: int) -> None:
        client = self.clients[c]
        if client.is_receiving or not client.ready:
            return
        client.is_receiving = True
        answer = client.ready.popleft()
        per_unit = PS / (self.network.download_rate * 2**32)
        gap = int(float(client.down_gaps.draw()) * per_unit)

        def arrived() -> None:
            client.is_receiving = False
            client.arrived.append(answer)
            self.process_next(c)
            self.receive_next(c)

        self.at(self.now + gap, DEPARTURE, 2, arrived)

    def process_next(self, c: int) -> None:
        client = self.clients[c]
        if client.is_serving or not client.arrived:
            return
        client.is_serving = True
        exchange, _ = client.arrived.popleft()

        def done() -> None:
            client.is_serving = False
            client.got[exchange] += 1
            self.process_next(c)
            exchanges = self.steps[self.step_of[c]]
            if all(client.got[i] == e.n_answers for i, e in enumerate(exchanges)):
                self.begin_step(c)
            elif client.is_blocked:
                self.send_next(c)

        self.at(self.now + client.down_services.draw(), DEPARTURE, 3, done)
