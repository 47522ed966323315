"""The simulator once more, event by event: slow, plain, and written on its own.

An event is a tuple in a heap, a packet is an object. Nothing is computed ahead: a
packet's service begins in the event that frees the server, an answer goes down in the
event that completes its group. It shares with the package only the definitions of the
random numbers (which word of which stream, quantile table, rate table).
"""

import heapq
from collections.abc import Callable, Sequence
from functools import partial

from fediac.core.ledger import Row
from fediac.core.rng import Stream
from fediac.sim import Network, Service
from tests.reference.draws import PS, Numbers, Trace
from tests.reference.exchanges import (
    Client,
    Group,
    Packet,
    Server,
    make_exchanges,
)

DEPARTURE, READY, ARRIVAL = range(3)
"""Events of one time happen in this order; arrivals in the order of clients."""


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
