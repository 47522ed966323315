"""A SwitchML round in SimPy, an event a packet and more: what a textbook would write.

It draws the same random numbers as ``fediac.sim``, so both end at the same picosecond.
"""

from collections.abc import Generator
from typing import Any

import numpy as np
import simpy

from fediac.core.rng import Stream
from fediac.sim import Network
from fediac.sim.arrivals import Sender
from fediac.sim.draws import UNIT, Draws

Process = Generator[simpy.Event, Any, None]


class Round:
    """One exchange of ``n_packets`` packets of each client, aligned by number."""

    def __init__(self, network: Network, n_packets: int, *, seed: int) -> None:
        self.env = simpy.Environment()
        self.network, self.n_packets, self.seed = network, n_packets, seed
        n_clients = network.n_clients
        self.queue = simpy.Store(self.env)
        self.links = [simpy.Store(self.env) for _ in range(n_clients)]
        self.inboxes = [simpy.Store(self.env) for _ in range(n_clients)]
        self.n_served = np.zeros(n_packets, np.int64).tolist()
        services = self.draws("switch", 0, n_clients * n_packets, network.switch.table)
        self.env.process(self.switch(services))
        for client in range(n_clients):
            self.env.process(self.upload(client))
            self.env.process(self.download(client))
            self.env.process(self.update(client))

    def draws(self, name: str, client: int, n: int, table: Any = None) -> list[int]:
        stream = Stream(self.seed, 1, client, f"sim {name}")
        numbers: list[int] = Draws(stream, table=table).take(n).tolist()
        return numbers

    def run(self) -> int:
        """Return when the last client has the last answer."""
        self.env.run()
        return int(self.env.now)

    def upload(self, client: int) -> Process:
        gaps = Draws(Stream(self.seed, 1, client, "sim uplink"))
        uplink = self.network.uplinks[client]
        sender = Sender(uplink, gaps, origin_ps=0, start_ps=0)
        for number, time in enumerate(sender.arrivals(self.n_packets).tolist()):
            yield self.env.timeout(time - self.env.now)
            yield self.queue.put(number)

    def switch(self, services: list[int]) -> Process:
        for service in services:
            number = yield self.queue.get()
            yield self.env.timeout(service)
            self.n_served[number] += 1
            if self.n_served[number] == self.network.n_clients:
                for link in self.links:
                    yield link.put(number)

    def download(self, client: int) -> Process:
        ps_per_unit = 10**12 / (self.network.download_rate * UNIT)
        for gap in self.draws("downlink", client, self.n_packets):
            number = yield self.links[client].get()
            yield self.env.timeout(int(float(gap) * ps_per_unit))
            yield self.inboxes[client].put(number)

    def update(self, client: int) -> Process:
        table = self.network.downlink.service.table
        for service in self.draws("download", client, self.n_packets, table):
            yield self.inboxes[client].get()
            yield self.env.timeout(service)
