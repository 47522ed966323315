"""One step with bounded memory, in Python: the readable reference for sim_bounded.c.

A client sends a packet only when it has the answers that free the packet's slot, so
what comes down clocks what goes up, and packets must be taken one after another. The
next one is the earliest of all clients' next arrivals: whatever its service sets free
can only arrive later.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fediac.errors import ArgumentError, FediacError
from fediac.sim.answers import Receiver
from fediac.sim.arrivals import Sender
from fediac.sim.clock import NEVER_PS, PS_PER_S
from fediac.sim.draws import Ints
from fediac.sim.packet_groups import Rule, Step, TimedExchange
from fediac.sim.unbounded import SimulatedSwitch, Uploads


@dataclass(frozen=True, slots=True)
class BoundedUploads:
    """The result of a step.

    Attributes:
        uploads: The clients' uploads.
        finish: For each exchange, when each client has all of its answers.
    """

    uploads: Uploads
    finish: list[Ints]


def exchange_bounded(
    step: Step,
    senders: Sequence[Sender],
    receivers: Sequence[Receiver],
    switch: SimulatedSwitch,
) -> BoundedUploads:
    """Return when all groups of a step are served, and when clients have the answers.

    Args:
        step: What is sent.
        senders: The step's clients on their uplinks, in its order.
        receivers: The same clients on their downlinks.
        switch: Who serves it; goes on from where it was.
    """
    run = _Run(step, senders, receivers, switch)
    while run.serve_next():
        pass
    return run.finish()


def stop_error(step: Step, n_served: int, *, is_late: bool) -> Exception:
    """Return the error for a step that ends before everything is served.

    How long clients wait for answers is known only when they do, so this cannot be
    refused before as in `fediac.sim.limits`.

    Args:
        step: What was sent.
        n_served: Packets that were served.
        is_late: The others would arrive when the clock has ended; else never.
    """
    if not is_late:
        return FediacError("all clients wait for answers that never come")
    n_packets = sum(step.n_packets(client) for client in step.clients)
    phases = " and ".join(each.phase for each in step.exchanges)
    return ArgumentError(
        "memory",
        f"must let a round end within {NEVER_PS // PS_PER_S // 86400} days "
        f"(the clock's end), got {n_served} of {n_packets} packets of {phases} by then",
    )


@dataclass(slots=True)
class _Exchange:
    """An exchange that is being simulated.

    Attributes:
        n_answered: Groups that were sent down.
        received: For each client, when it got the answer of each group.
    """

    plan: TimedExchange
    done: Ints
    left: list[int]
    is_open: list[bool]
    received: list[list[int]]
    n_answered: int = 0

    @property
    def is_ready(self) -> bool:
        """Whether the next group can be answered."""
        next_group = self.n_answered
        return next_group < self.plan.n_groups and not self.left[next_group]


@dataclass(slots=True)
class _Client:
    """A client during a step: its flows, and the next packet's number in the first."""

    sender: Sender
    flows: list[int]
    number: int = 0
    arrival: int | None = None
    last_arrival: int = 0


class _Run:
    def __init__(
        self,
        step: Step,
        senders: Sequence[Sender],
        receivers: Sequence[Receiver],
        switch: SimulatedSwitch,
    ) -> None:
        self._step, self._receivers, self._switch = step, receivers, switch
        self._uploads = Uploads.of(step)
        self._exchanges = [
            _Exchange(
                plan,
                done,
                plan.left.tolist(),
                [False] * plan.n_groups,
                [[] for _ in senders],
            )
            for plan, done in zip(step.exchanges, self._uploads.done, strict=True)
        ]
        self._log: list[tuple[int, ...]] = []
        self._slots: list[tuple[int, int, int]] = []
        self._clients = [
            _Client(sender, self._flows_of(client), last_arrival=sender.floor_ps)
            for sender, client in zip(senders, step.clients, strict=True)
        ]
        for i in range(len(self._clients)):
            self._go_on(i)

    def serve_next(self) -> bool:
        """Serve the packet that arrives next; return whether there was one in time."""
        waiting = [
            (client.arrival, i)
            for i, client in enumerate(self._clients)
            if client.arrival is not None
        ]
        if not waiting:
            return False
        arrival, i = min(waiting)
        if arrival >= NEVER_PS:
            return False
        client = self._clients[i]
        number = client.flows[0]
        n_closed = self._serve(i, arrival)
        if n_closed and not self._exchanges[number].plan.is_far:
            self._answer_far(self._uploads.last_departure, number)
            for _ in range(n_closed):
                self._answer(number)
        self._go_on(i)
        return True

    def finish(self) -> BoundedUploads:
        """Send the remaining answers down and update the switch."""
        if any(client.flows for client in self._clients):
            is_late = any(client.arrival is not None for client in self._clients)
            raise stop_error(self._step, len(self._log), is_late=is_late)
        self._answer_far(None, 0)
        log = np.array(self._log, np.int64)
        self._switch.monitor.watch(log[:, 3], log[:, 4], log[:, 5])
        if self._slots:
            slots = np.array(self._slots, np.int64)
            self._switch.monitor.watch_slots(slots[:, 0], slots[:, 1], slots[:, 2])
        if self._switch.log is not None:
            self._switch.log.append(log)
        self._uploads.last_arrival[:] = [each.last_arrival for each in self._clients]
        finish = [
            np.array([times[-1] for times in each.received], np.int64)
            for each in self._exchanges
        ]
        return BoundedUploads(self._uploads, finish)

    def _flows_of(self, client: int) -> list[int]:
        exchanges = enumerate(self._step.exchanges)
        return [i for i, each in exchanges if each.flows[client].n_packets]

    def _n_needed(self, i: int) -> int:
        """Return how many answers client ``i`` must have before its next packet."""
        client = self._clients[i]
        plan = self._exchanges[client.flows[0]].plan
        flow = plan.flows[self._step.clients[i]]
        if flow.needs is not None:
            return int(flow.needs[client.number])
        return max(0, client.number - plan.window + 1) if plan.window else 0

    def _go_on(self, i: int) -> None:
        """Let a client send its next packet, or wait for an answer, or stop."""
        client = self._clients[i]
        client.arrival = None
        if not client.flows:
            return
        exchange = self._exchanges[client.flows[0]]
        n_needed = self._n_needed(i)
        if n_needed > exchange.n_answered:
            return
        begin = client.last_arrival
        if n_needed and exchange.received[i][n_needed - 1] > begin:
            begin = exchange.received[i][n_needed - 1]
            client.sender.restart(begin)
        client.arrival = client.sender.next_arrival()
        self._uploads.sending_ps[i] += client.arrival - begin

    def _serve(self, i: int, arrival: int) -> int:
        """Serve a client's next packet; return how many groups that completes."""
        client = self._clients[i]
        number, packet = client.flows[0], client.number
        exchange = self._exchanges[number]
        start, departure = self._switch.queue.serve_one(arrival)
        done = departure
        if exchange.plan.is_far:
            delay = self._switch.delay_ps
            done = self._switch.far.serve_one(departure + delay)[1] + delay
        self._log.append((i, number, packet, arrival, start, departure))
        n_closed = n_freed = 0
        n_opened = self._open(exchange, i, packet)
        for group in self._groups_of(exchange.plan, i, packet):
            exchange.done[group] = done
            exchange.left[group] -= 1
            n_closed += not exchange.left[group]
            n_freed += not exchange.left[group] and exchange.is_open[group]
        if not exchange.plan.is_far:
            self._slots.append((departure, n_opened, n_freed))
        self._uploads.last_departure = departure
        client.last_arrival = arrival
        client.number += 1
        if client.number == exchange.plan.flows[self._step.clients[i]].n_packets:
            client.flows, client.number = client.flows[1:], 0
        return n_closed

    def _open(self, exchange: _Exchange, i: int, packet: int) -> int:
        """Return 1 if a packet is the first that needs its group's slot, else 0."""
        owns = exchange.plan.flows[self._step.clients[i]].owns
        if owns is not None:
            own = int(owns[packet])
        else:
            own = self._groups_of(exchange.plan, i, packet).start
        if own < 0 or exchange.is_open[own]:
            return 0
        exchange.is_open[own] = True
        return 1

    def _groups_of(self, plan: TimedExchange, i: int, packet: int) -> range:
        ends = plan.flows[self._step.clients[i]].ends
        if ends is not None:
            return range(int(ends[packet - 1]) if packet else 0, int(ends[packet]))
        group = min(packet, plan.n_groups - 1) if plan.rule == Rule.ALIGNED else 0
        return range(group, group + 1)

    def _answer(self, number: int) -> None:
        """Send the next group's answers down and resume the clients that wait."""
        exchange = self._exchanges[number]
        group = exchange.n_answered
        exchange.n_answered += 1
        is_last = exchange.n_answered == exchange.plan.n_groups
        n_packets = exchange.plan.n_last if is_last else exchange.plan.n_parts
        for i, receiver in enumerate(self._receivers):
            times = [
                receiver.receive_one(int(exchange.done[group]))
                for _ in range(n_packets)
            ]
            exchange.received[i].append(times[-1])
            client = self._clients[i]
            is_waiting = client.arrival is None and client.flows[:1] == [number]
            if is_waiting and self._n_needed(i) == exchange.n_answered:
                self._go_on(i)

    def _answer_far(self, now: int | None, number: int) -> None:
        """Send down what the server has ready before ``now``, the earliest first.

        At the same time, exchanges before ``number`` go first. None: send all.
        """
        while True:
            ready = [
                (int(each.done[each.n_answered]), i)
                for i, each in enumerate(self._exchanges)
                if each.plan.is_far and each.is_ready
            ]
            if not ready or (now is not None and min(ready) >= (now, number)):
                return
            self._answer(min(ready)[1])
