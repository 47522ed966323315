"""One step with unbounded memory, in NumPy: the readable reference for sim_step.c.

Nothing that comes down holds back what goes up, so all arrivals can be known first.
Clients make theirs in chunks; what lies before the first chunk's end is merged in the
order of time, served, and counted in its groups. Equal times go to the lower client.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fediac.sim.arrivals import Sender
from fediac.sim.draws import Ints
from fediac.sim.monitor import Monitor
from fediac.sim.packet_groups import Left, Rule, Step, TimedExchange
from fediac.sim.queues import Queue

CHUNK = 1 << 16
"""Arrivals that are drawn for a client at a time."""

LOG_COLUMNS = ("client", "exchange", "number", "arrival", "start", "departure")


@dataclass(slots=True)
class SimulatedSwitch:
    """The switch and the far server in the course of a round.

    Attributes:
        queue: Packets at the switch.
        far: Packets at the server.
        delay_ps: From the switch to the server, and back to a client.
        monitor: What happens at the switch over time.
        log: `LOG_COLUMNS` of the packets served; client and exchange count from 0 in
            the step. None: not kept.
    """

    queue: Queue
    far: Queue
    delay_ps: int
    monitor: Monitor = field(default_factory=Monitor)
    log: list[Ints] | None = None


@dataclass(slots=True)
class Uploads:
    """The result of a step's uploads.

    Attributes:
        done: For each exchange, when each group can be answered; -1: nothing came yet.
        last_arrival: For each client, when its last packet came to the switch.
        sending_ps: How long each client was sending, without waiting for answers.
        last_departure: When the switch was through with the step.
    """

    done: list[Ints]
    last_arrival: Ints
    sending_ps: Ints
    last_departure: int = 0

    @classmethod
    def of(cls, step: Step) -> "Uploads":
        """Return the uploads of a step before any of them."""
        done = [np.full(each.n_groups, -1, np.int64) for each in step.exchanges]
        n_clients = len(step.clients)
        return cls(done, np.zeros(n_clients, np.int64), np.zeros(n_clients, np.int64))


@dataclass(frozen=True, slots=True)
class _Packets:
    """Packets in the order in which they are served."""

    client: Ints
    exchange: Ints
    number: Ints
    departure: Ints
    done: Ints


def upload(
    step: Step,
    senders: Sequence[Sender],
    switch: SimulatedSwitch,
    *,
    chunk: int = CHUNK,
) -> Uploads:
    """Return when all groups of a step are served.

    Args:
        step: What is sent.
        senders: The step's clients on their uplinks, in its order.
        switch: Who serves it; goes on from where it was.
        chunk: Arrivals made at a time; the result is the same for any.
    """
    run = _Run(step, senders, switch)
    begins = np.array([sender.floor_ps for sender in senders])
    run.uploads.last_arrival[:] = begins
    while run.refill(chunk):
        run.serve()
    run.uploads.sending_ps[:] = run.uploads.last_arrival - begins
    return run.uploads


class _Run:
    """A step that is being simulated: each client's arrivals still to be served."""

    def __init__(
        self, step: Step, senders: Sequence[Sender], switch: SimulatedSwitch
    ) -> None:
        self.step, self.senders, self.switch = step, senders, switch
        self.uploads = Uploads.of(step)
        self.left: list[Left] = [each.left.copy() for each in step.exchanges]
        self.is_open = [np.zeros(each.n_groups, bool) for each in step.exchanges]
        counts = [
            [each.flows[client].n_packets for each in step.exchanges]
            for client in step.clients
        ]
        # Where each exchange's packets begin among those that a client sends.
        self.stops = np.cumsum(counts, axis=1)
        self.begins = self.stops - np.array(counts)
        self.n_unmade = self.stops[:, -1].tolist()
        self.n_served = np.zeros(len(step.clients), np.int64)
        self.made: list[Ints] = [np.zeros(0, np.int64)] * len(step.clients)

    def refill(self, chunk: int) -> bool:
        """Draw arrivals for clients that have none; return whether there are any."""
        for i, sender in enumerate(self.senders):
            n_packets = min(chunk, self.n_unmade[i])
            if n_packets and not len(self.made[i]):
                self.made[i] = sender.arrivals(n_packets)
                self.n_unmade[i] -= n_packets
        return any(len(times) for times in self.made)

    def serve(self) -> None:
        """Serve all packets that no packet still to be made can precede."""
        taken = self._take()
        counts = np.array([len(times) for times in taken])
        ranks = [np.arange(count) for count in counts]
        for i in np.flatnonzero(counts):
            self.uploads.last_arrival[i] = taken[i][-1]
        unordered = np.concatenate(taken)
        order = np.argsort(unordered, kind="stable")
        arrivals = unordered[order]
        client = np.repeat(np.arange(len(taken)), counts)[order]
        place = self.n_served[client] + np.concatenate(ranks)[order]
        self.n_served += counts
        exchange = np.sum(place[:, None] >= self.stops[client, :-1], axis=1)
        number = place - self.begins[client, exchange]
        starts, departures = self.switch.queue.serve(arrivals)
        self.switch.monitor.watch(arrivals, starts, departures)
        self.uploads.last_departure = int(departures[-1])
        done = self._pass_on(exchange, departures)
        self._count(_Packets(client, exchange, number, departures, done))
        if self.switch.log is not None:
            columns = (client, exchange, number, arrivals, starts, departures)
            self.switch.log.append(np.stack(columns, axis=1))

    def _take(self) -> list[Ints]:
        """Return each client's arrivals up to the first end of those still making."""
        ends = [
            (int(times[-1]), i) for i, times in enumerate(self.made) if self.n_unmade[i]
        ]
        if not ends:
            taken, self.made = self.made, [times[:0] for times in self.made]
            return taken
        end, last = min(ends)
        taken, kept = [], []
        for i, times in enumerate(self.made):
            cut = np.searchsorted(times, end, side="right" if i <= last else "left")
            taken.append(times[:cut])
            kept.append(times[cut:])
        self.made = kept
        return taken

    def _pass_on(self, exchange: Ints, departures: Ints) -> Ints:
        """Return when packets are done: at the switch, or back from the server."""
        is_far = np.array([each.is_far for each in self.step.exchanges])[exchange]
        if not is_far.any():
            return departures
        delay = self.switch.delay_ps
        done = departures.copy()
        _, served = self.switch.far.serve(departures[is_far] + delay)
        done[is_far] = served + delay
        return done

    def _count(self, packets: _Packets) -> None:
        """Count served packets in their groups, and the slots in use."""
        opened = np.zeros(len(packets.done), np.int64)
        freed = np.zeros(len(packets.done), np.int64)
        is_near = np.zeros(len(packets.done), bool)
        for i, each in enumerate(self.step.exchanges):
            places = np.flatnonzero(packets.exchange == i)
            groups, places_of = _touched(each, packets, places, self.step.clients)
            if not each.is_far:
                is_near[places] = True
            owns, places_own = groups, places_of
            if each.rule == Rule.ENDS:
                owns = _of_flows(each, "owns", packets, places, self.step.clients)
                owns, places_own = owns[owns >= 0], places[owns >= 0]
            self._open(i, owns, places_own, opened)
            self._close(i, groups, places_of, packets.done, freed)
        if is_near.any():
            self.switch.monitor.watch_slots(
                packets.departure[is_near], opened[is_near], freed[is_near]
            )

    def _open(self, i: int, groups: Ints, places: Ints, opened: Ints) -> None:
        """Note in ``opened`` the packets that first need their group's slot."""
        is_new = ~self.is_open[i][groups]
        first = np.unique(groups[is_new], return_index=True)[1]
        np.add.at(opened, places[is_new][first], 1)
        self.is_open[i][groups] = True

    def _close(
        self, i: int, groups: Ints, places: Ints, times: Ints, freed: Ints
    ) -> None:
        """Count packets in their groups; note in ``freed`` the slots that frees."""
        if not len(groups):
            return
        first, stop = int(groups.min()), int(groups.max()) + 1
        latest = np.full(stop - first, -1, np.int64)
        latest[groups - first] = places  # of several values the last one stays
        is_touched = latest >= 0
        done, left = self.uploads.done[i][first:stop], self.left[i][first:stop]
        done[is_touched] = times[latest[is_touched]]
        left -= np.bincount(groups - first, minlength=stop - first).astype(np.int32)
        is_freed = is_touched & (left == 0) & self.is_open[i][first:stop]
        np.add.at(freed, latest[is_freed], 1)


def _of_flows(
    exchange: TimedExchange,
    name: str,
    packets: _Packets,
    places: Ints,
    clients: Sequence[int],
) -> Ints:
    """Return an entry of each packet's flow at the packet's number."""
    found = np.zeros(len(places), np.int64)
    client, number = packets.client[places], packets.number[places]
    for i in np.unique(client):
        mine = client == i
        found[mine] = getattr(exchange.flows[clients[i]], name)[number[mine]]
    return found


def _touched(
    exchange: TimedExchange, packets: _Packets, places: Ints, clients: Sequence[int]
) -> tuple[Ints, Ints]:
    """Return the groups of the packets at ``places``, and for each group its packet."""
    number = packets.number[places]
    if exchange.rule == Rule.ALIGNED:
        return np.minimum(number, exchange.n_groups - 1), places
    if exchange.rule == Rule.ONE:
        return np.zeros_like(number), places
    stop = _of_flows(exchange, "ends", packets, places, clients)
    first = _of_flows(exchange, "begins", packets, places, clients)
    counts = stop - first
    steps = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(first, counts) + steps, np.repeat(places, counts)
