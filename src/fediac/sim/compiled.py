"""Steps in C: fill the kernels' structures, run them, and read the results back.

The results are those of `unbounded` and `bounded`, to the bit.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fediac.native import queueing as c
from fediac.sim import draws
from fediac.sim.answers import Receiver
from fediac.sim.arrivals import Sender
from fediac.sim.bounded import BoundedUploads, stop_error
from fediac.sim.clock import NEVER_PS
from fediac.sim.draws import Ints
from fediac.sim.monitor import N_BINS, Monitor
from fediac.sim.packet_groups import Step, TimedExchange
from fediac.sim.queues import Queue
from fediac.sim.unbounded import LOG_COLUMNS, SimulatedSwitch, Uploads

Structures: TypeAlias = Any
"""An array of C structures."""

BATCH = 1 << 22
"""Packets served in one call."""

_MIN_RING = 1 << 12


def upload(
    kernels: c.QueueKernels,
    step: Step,
    senders: Sequence[Sender],
    switch: SimulatedSwitch,
    *,
    batch: int = BATCH,
) -> Uploads:
    """Return when all groups of a step are served, as `fediac.sim.unbounded.upload`."""
    return _Run(kernels, step, senders, switch).run(batch)


def exchange_bounded(
    kernels: c.QueueKernels,
    step: Step,
    senders: Sequence[Sender],
    receivers: Sequence[Receiver],
    switch: SimulatedSwitch,
) -> BoundedUploads:
    """Return when clients have all answers; see `fediac.sim.bounded`."""
    run = _Run(kernels, step, senders, switch)
    finish = run.add_receivers(receivers)
    uploads = run.run(BATCH)
    run.read_receivers(receivers)
    return BoundedUploads(uploads, finish)


def receive(kernels: c.QueueKernels, receiver: Receiver, ready: Ints) -> int:
    """Return when a client has received all packets, given when each was ready."""
    structure = c.Downlink()
    _fill_downlink(structure, receiver)
    kernels.receive(structure, np.ascontiguousarray(ready))
    _read_downlink(structure, receiver, len(ready))
    return receiver.queue.free_at


class _Run:
    """One step in the structures of C, and the arrays that they point to."""

    def __init__(
        self,
        kernels: c.QueueKernels,
        step: Step,
        senders: Sequence[Sender],
        switch: SimulatedSwitch,
    ) -> None:
        self._kernels, self._step = kernels, step
        self._senders, self._switch = senders, switch
        self._kept: list[Any] = []
        self._uploads = Uploads.of(step)
        self._n_packets = sum(step.n_packets(client) for client in step.clients)
        self._is_bounded = False
        n_clients = len(step.clients)
        self._clients = (c.Client * n_clients)()
        self._exchanges = (c.Exchange * len(step.exchanges))()
        self._c = c.Step(n_clients=n_clients, n_exchanges=len(step.exchanges))
        self._c.n_leaves = 1 << (n_clients - 1).bit_length()
        self._c.far_delay_ps = switch.delay_ps
        for structure, exchange, done in zip(
            self._exchanges, step.exchanges, self._uploads.done, strict=True
        ):
            self._fill_exchange(structure, exchange, done)
        for i, sender in enumerate(senders):
            self._fill_client(self._clients[i], step.clients[i], sender)
        self._c.clients = self._address(self._clients)
        self._c.exchanges = self._address(self._exchanges)
        self._tree_times = np.zeros(2 * self._c.n_leaves, np.int64)
        self._c.tree_times = self._keep(self._tree_times)
        self._c.tree_clients = self._keep(np.zeros(2 * self._c.n_leaves, np.int64))
        _fill_server(self._c.server, switch.queue)
        _fill_server(self._c.far_server, switch.far)
        self._fill_monitor(switch.monitor)
        self._log = np.empty((0, len(LOG_COLUMNS)), np.int64)
        if switch.log is not None:
            self._log = np.empty((self._n_packets, len(LOG_COLUMNS)), np.int64)
            self._c.log = self._log.ctypes.data

    def run(self, batch: int) -> Uploads:
        """Serve all packets and update the switch."""
        self._kernels.open_step(self._c, is_bounded=self._is_bounded)
        n_left = self._n_packets
        while n_left:
            n_asked = min(batch, n_left)
            n_served = self._kernels.serve_step(
                self._c, n_asked, is_bounded=self._is_bounded
            )
            n_left -= n_served
            if n_served < n_asked:
                self._grow_ring(n_left)
        self._read_switch()
        uploads = self._uploads
        uploads.last_arrival[:] = [client.last_arrival for client in self._clients]
        uploads.sending_ps[:] = [client.sending_ps for client in self._clients]
        if not self._is_bounded:
            begins = [sender.floor_ps for sender in self._senders]
            uploads.sending_ps[:] = uploads.last_arrival - np.array(begins)
        uploads.last_departure = self._c.last_departure
        return uploads

    def add_receivers(self, receivers: Sequence[Receiver]) -> list[Ints]:
        """Bound the memory; return where each client's last answers will be noted."""
        self._is_bounded = True
        n_clients = len(receivers)
        self._downlinks = (c.Downlink * n_clients)()
        for structure, receiver in zip(self._downlinks, receivers, strict=True):
            _fill_downlink(structure, receiver)
        self._c.downlinks = self._address(self._downlinks)
        finish = []
        for structure, exchange in zip(
            self._exchanges, self._step.exchanges, strict=True
        ):
            finish.append(np.zeros(n_clients, np.int64))
            structure.finish = self._keep(finish[-1])
            structure.n_ring = _ring_length(exchange)
            received = np.zeros(n_clients * structure.n_ring, np.int64)
            structure.received = self._keep(received)
        return finish

    def read_receivers(self, receivers: Sequence[Receiver]) -> None:
        """Update the downlinks."""
        n_answers = sum(each.n_answers for each in self._step.exchanges)
        for structure, receiver in zip(self._downlinks, receivers, strict=True):
            _read_downlink(structure, receiver, n_answers)

    def _keep(self, array: NDArray[Any]) -> int:
        """Return the address of an array that lives as long as this run."""
        self._kept.append(array)
        address: int = array.ctypes.data
        return address

    def _address(self, structures: Structures) -> int:
        self._kept.append(structures)
        return c.address_of(structures)

    def _fill_exchange(
        self, structure: c.Exchange, exchange: TimedExchange, done: Ints
    ) -> None:
        structure.done = self._keep(done)
        structure.left = self._keep(exchange.left.copy())
        structure.is_open = self._keep(np.zeros(exchange.n_groups, np.uint8))
        structure.n_groups = exchange.n_groups
        structure.rule = int(exchange.rule)
        structure.is_far = int(exchange.is_far)
        structure.n_parts, structure.n_last = exchange.n_parts, exchange.n_last

    def _fill_client(self, structure: c.Client, client: int, sender: Sender) -> None:
        uplink = structure.uplink
        rates = sender.rates
        uplink.totals = self._keep(rates.totals)
        uplink.ps_per_unit = self._keep(rates.ps_per_unit)
        uplink.units_per_ps = self._keep(rates.units_per_ps)
        uplink.n_seconds = rates.n_seconds
        uplink.second, uplink.lap_ps = sender.second, sender.lap_ps
        uplink.position, uplink.floor_ps = sender.position, sender.floor_ps
        _fill_draws(uplink.gaps, sender.gaps)
        flows = (c.Flow * (len(self._step.exchanges) + 1))()
        n_flows = 0
        for number, exchange in enumerate(self._step.exchanges):
            flow = exchange.flows[client]
            if flow.n_packets:
                filled = flows[n_flows]
                filled.exchange, filled.n_packets = number, flow.n_packets
                filled.window = exchange.window
                for name in ("ends", "owns", "needs"):
                    numbers = getattr(flow, name)
                    if numbers is not None:
                        setattr(filled, name, self._keep(numbers))
                n_flows += 1
        structure.flow = self._address(flows)
        structure.n_left = self._step.n_packets(client)
        structure.last_arrival = sender.floor_ps

    def _fill_monitor(self, monitor: Monitor) -> None:
        filled = self._c.monitor
        filled.n_bins, filled.shift = N_BINS, monitor.shift
        for name in ("n_arrivals", "n_starts", "busy_ps", "most_waiting", "most_open"):
            setattr(filled, name, getattr(monitor, name).ctypes.data)
        for name in ("n_open", "max_waiting", "max_open", "open_bin"):
            setattr(filled, name, getattr(monitor, name))
        self._set_ring(monitor.pending, _MIN_RING)

    def _set_ring(self, pending: Ints, n_ring: int) -> None:
        while n_ring < len(pending) + c.N_BATCH:
            n_ring *= 2
        self._ring = np.zeros(n_ring, np.int64)
        self._ring[: len(pending)] = pending
        filled = self._c.monitor
        filled.starts = self._ring.ctypes.data
        filled.n_ring, filled.n_pushed, filled.n_popped = n_ring, len(pending), 0

    def _pending(self) -> Ints:
        filled = self._c.monitor
        places = np.arange(filled.n_popped, filled.n_pushed) % filled.n_ring
        pending: Ints = self._ring[places]
        return pending

    def _grow_ring(self, n_left: int) -> None:
        pending = self._pending()
        if len(pending) + c.N_BATCH <= self._c.monitor.n_ring:
            is_late = bool(np.any(self._tree_times > NEVER_PS))
            raise stop_error(self._step, self._n_packets - n_left, is_late=is_late)
        self._set_ring(pending, 2 * self._c.monitor.n_ring)

    def _read_switch(self) -> None:
        switch, monitor = self._switch, self._switch.monitor
        _read_server(self._c.server, switch.queue)
        _read_server(self._c.far_server, switch.far)
        filled = self._c.monitor
        for name in ("shift", "n_open", "max_waiting", "max_open", "open_bin"):
            setattr(monitor, name, getattr(filled, name))
        monitor.pending = self._pending()
        if switch.log is not None:
            switch.log.append(self._log)


def _fill_draws(structure: c.Draws, numbers: draws.Draws) -> None:
    if numbers.table is not None:
        structure.table = numbers.table.ctypes.data
    structure.next, structure.place = numbers.next, c.N_DRAWS
    structure.key[:] = numbers.stream.key
    structure.tail[:] = numbers.stream.counter_tail


def _fill_server(structure: c.Server, queue: Queue) -> None:
    _fill_draws(structure.services, queue.draws)
    structure.free_at, structure.busy_ps = queue.free_at, queue.busy_ps
    structure.n_served, structure.max_wait = queue.n_served, queue.max_wait_ps
    structure.wait_low = queue.wait_ps & 0xFFFFFFFFFFFFFFFF
    structure.wait_high = queue.wait_ps >> 64


def _read_server(structure: c.Server, queue: Queue) -> None:
    queue.draws.next += structure.n_served - queue.n_served
    queue.free_at, queue.busy_ps = structure.free_at, structure.busy_ps
    queue.n_served, queue.max_wait_ps = structure.n_served, structure.max_wait
    queue.wait_ps = structure.wait_high << 64 | structure.wait_low


def _fill_downlink(structure: c.Downlink, receiver: Receiver) -> None:
    _fill_draws(structure.gaps, receiver.gaps)
    structure.ps_per_unit = receiver.ps_per_unit
    structure.arrival, structure.link_ps = receiver.arrival, receiver.link_ps
    _fill_server(structure.server, receiver.queue)


def _read_downlink(structure: c.Downlink, receiver: Receiver, n_packets: int) -> None:
    receiver.gaps.next += n_packets
    receiver.arrival, receiver.link_ps = structure.arrival, structure.link_ps
    _read_server(structure.server, receiver.queue)


def _ring_length(exchange: TimedExchange) -> int:
    """Return how many answers, from the last one back, a client may need the time of.

    A group is complete only when this client has sent its packet, so a client's next
    packet waits for an answer at most this far behind the last one.
    """
    lengths = [
        int(np.max(flow.ends[:-1] - flow.needs[1:], initial=0)) + 1
        for flow in exchange.flows.values()
        if flow.ends is not None and flow.needs is not None
    ]
    return max(lengths, default=exchange.window)
