"""From a round's ledger and a network to the time of every packet.

A round begins with local compute. Then each step's uploads go through the switch, and
its answers come down; a client begins the next step when it has all answers of this
one, and has computed what the next one needs. All groups of a step are served by then,
so steps do not meet at the switch.
"""

from collections.abc import Iterable

import numpy as np

from fediac.core.ledger import Ledger, Row
from fediac.core.rng import Stream
from fediac.errors import ArgumentError, say_count
from fediac.native.queueing import queue_kernels
from fediac.sim import bounded, compiled, unbounded
from fediac.sim.answers import Receiver, order_answers
from fediac.sim.arrivals import Sender
from fediac.sim.clock import PS_PER_S, to_ps, to_s, whole_ps
from fediac.sim.draws import UNIT, Draws, Ints
from fediac.sim.limits import check_duration
from fediac.sim.network import Network
from fediac.sim.packet_groups import Step, list_steps
from fediac.sim.pauses import Pause, check_pauses, first_steps
from fediac.sim.queues import Queue
from fediac.sim.service import Service
from fediac.sim.timing import (
    ClientTiming,
    QueueTiming,
    RoundTiming,
    Series,
    StepTimes,
    divide_round,
    name_bottleneck,
    time_phases,
)
from fediac.sim.unbounded import CHUNK, SimulatedSwitch, Uploads


def simulate_round(  # noqa: PLR0913 - what is timed, then settings by name
    ledger: Ledger | Iterable[Row],
    network: Network,
    *,
    seed: int,
    round_number: int,
    start_s: float = 0.0,
    pauses: Iterable[Pause] = (),
    keeps_packets: bool = False,
) -> RoundTiming:
    """Return how long a round took, packet by packet.

    The same arguments give the same times on every machine, with and without kernels.

    Args:
        ledger: Its rows of this round are timed.
        network: Links, switch and server; client i has uplink i.
        seed: The run's seed.
        round_number: Tells the random numbers of rounds apart.
        start_s: When the round begins; traces go on from there.
        pauses: What clients compute between exchanges.
        keeps_packets: Also return the times of every packet at the switch.

    Raises:
        ValueError: The ledger has no rows of this round, or they or the pauses do not
            fit each other or the network.
    """
    rows = ledger.rows if isinstance(ledger, Ledger) else tuple(ledger)
    rows = tuple(row for row in rows if row.round_number == round_number)
    if not rows:
        raise ArgumentError("ledger", f"has no rows of round {round_number}")
    highest = max(row.client for row in rows)
    if highest >= network.n_clients:
        raise ArgumentError(
            "network",
            f"has {say_count(network.n_clients, 'client')} but the ledger has "
            f"a row of client {highest}",
        )
    plan = list_steps(rows, network.view, network.memory)
    check_duration(plan, network)
    pauses = tuple(pauses)
    check_pauses(pauses, plan, network)
    # The clock starts anew with every round; only traces go on, and they are laps.
    origin_ps = whole_ps(start_s, name="start_s")
    run = _Round(network, Stream(seed, round_number, 0), origin_ps)
    if keeps_packets:
        run.switch.log = []
    first = first_steps(plan)
    for number, step in enumerate(plan):
        for pause in pauses:
            if first[pause.phase] == number:
                run.pause(pause, step.clients)
        run.run_step(number, step)
    return run.timing()


class _Round:
    """A round that is being simulated."""

    def __init__(self, network: Network, stream: Stream, origin_ps: int) -> None:
        self._network, self._stream, self._origin_ps = network, stream, origin_ps
        self._kernels = queue_kernels()
        self.switch = SimulatedSwitch(
            self._queue(network.switch, "switch"),
            self._queue(network.server.service, "server"),
            to_ps(network.server.delay_s, name="server delay"),
        )
        # A mean over all uplinks, and the same for every client.
        self._download_unit_ps = PS_PER_S / (network.download_rate * UNIT)
        self._compute_ps = {i: network.compute_ps(i) for i in range(network.n_clients)}
        self._ready = dict(self._compute_ps)
        self._uplink_ps = dict.fromkeys(self._ready, 0)
        self._n_sent = dict.fromkeys(self._ready, 0)
        self._receivers: dict[int, Receiver] = {}
        self._times: list[StepTimes] = []
        self._packets: list[Ints] = []

    def pause(self, pause: Pause, clients: Iterable[int]) -> None:
        """Let clients compute before they begin the next step."""
        for client in clients:
            time_ps = pause.time_ps(client, self._network)
            self._ready[client] += time_ps
            self._compute_ps[client] += time_ps

    def run_step(self, number: int, step: Step) -> None:
        """Time one step; clients are then ready for the next."""
        begin = max(self._ready[client] for client in step.clients)
        senders = [self._sender(client) for client in step.clients]
        receivers = [self._receiver(client) for client in step.clients]
        if self._network.memory is None:
            uploads = self._upload(step, senders)
            finish = self._download(step, uploads, receivers)
        else:
            both = self._exchange_bounded(step, senders, receivers)
            uploads, finish = both.uploads, both.finish
        for i, client in enumerate(step.clients):
            self._uplink_ps[client] += int(uploads.sending_ps[i])
            self._ready[client] = int(max(times[i] for times in finish))
            self._n_sent[client] += step.n_packets(client)
        self._times.append(
            StepTimes(
                phases=tuple(each.phase for each in step.exchanges),
                is_far=any(each.is_far for each in step.exchanges),
                begin=begin,
                last_arrival=int(uploads.last_arrival.max()),
                last_departure=uploads.last_departure,
                done=tuple(int(times[-1]) for times in uploads.done),
                finish=tuple(int(times.max()) for times in finish),
            )
        )
        self._keep_packets(number, step)

    def timing(self) -> RoundTiming:
        """Return the round's timing."""
        clients = tuple(self._client_timing(client) for client in self._receivers)
        round_ps = max(self._ready[client] for client in self._receivers)
        switch = self._queue_timing(self.switch.queue, self._network.switch, round_ps)
        server = None
        if self.switch.far.n_served:
            service = self._network.server.service
            server = self._queue_timing(self.switch.far, service, round_ps)
        demands = self._demands(clients, round_ps)
        slowest = max(clients, key=lambda each: each.uplink_s).client
        return RoundTiming(
            round_s=to_s(round_ps),
            phases=tuple(
                phase for times in self._times for phase in time_phases(times)
            ),
            clients=clients,
            switch=switch,
            server=server,
            max_waiting=self.switch.monitor.max_waiting,
            max_open_slots=self.switch.monitor.max_open,
            series=self._series(round_ps),
            shares=divide_round(self._times, round_ps),
            demands=demands,
            bottleneck=name_bottleneck(demands, slowest, switch, server),
            packets=np.concatenate(self._packets) if self._packets else None,
        )

    def _queue(self, service: Service, name: str, client: int = 0) -> Queue:
        stream = Stream(self._stream.seed, self._stream.round_number, client)
        return Queue(Draws(stream.purpose(f"sim {name}"), table=service.table))

    def _draws(self, name: str, client: int, start: int = 0) -> Draws:
        stream = Stream(self._stream.seed, self._stream.round_number, client)
        return Draws(stream.purpose(f"sim {name}"), start=start)

    def _sender(self, client: int) -> Sender:
        return Sender(
            self._network.uplinks[client],
            self._draws("uplink", client, self._n_sent[client]),
            origin_ps=self._origin_ps,
            start_ps=self._ready[client],
        )

    def _receiver(self, client: int) -> Receiver:
        if client not in self._receivers:
            network = self._network
            self._receivers[client] = Receiver(
                self._draws("downlink", client),
                self._download_unit_ps,
                self._queue(network.downlink.service, "download", client),
            )
        return self._receivers[client]

    def _upload(self, step: Step, senders: list[Sender]) -> Uploads:
        if self._kernels is None:
            return unbounded.upload(step, senders, self.switch)
        return compiled.upload(self._kernels, step, senders, self.switch)

    def _exchange_bounded(
        self, step: Step, senders: list[Sender], receivers: list[Receiver]
    ) -> bounded.BoundedUploads:
        if self._kernels is None:
            return bounded.exchange_bounded(step, senders, receivers, self.switch)
        return compiled.exchange_bounded(
            self._kernels, step, senders, receivers, self.switch
        )

    def _download(
        self, step: Step, uploads: Uploads, receivers: list[Receiver]
    ) -> list[Ints]:
        """Return for each exchange when each client has its answers."""
        ready, stops = order_answers(step, uploads)
        finish = [np.zeros(len(receivers), np.int64) for _ in step.exchanges]
        for i, receiver in enumerate(receivers):
            start = 0
            for stop, exchange in stops:
                finish[exchange][i] = self._receive(receiver, ready[start:stop])
                start = stop
        return finish

    def _receive(self, receiver: Receiver, ready: Ints) -> int:
        if self._kernels is not None:
            return compiled.receive(self._kernels, receiver, ready)
        for start in range(0, len(ready), CHUNK):
            receiver.receive(ready[start : start + CHUNK])
        return receiver.queue.free_at

    def _keep_packets(self, number: int, step: Step) -> None:
        if self.switch.log is None:
            return
        log = np.concatenate(self.switch.log)
        self.switch.log = []
        log[:, 0] = np.array(step.clients)[log[:, 0]]
        self._packets.append(np.insert(log, 0, number, axis=1))

    def _client_timing(self, client: int) -> ClientTiming:
        return ClientTiming(
            client=client,
            compute_s=to_s(self._compute_ps[client]),
            uplink_s=to_s(self._uplink_ps[client]),
            finish_s=to_s(self._ready[client]),
        )

    def _queue_timing(
        self, queue: Queue, service: Service, round_ps: int
    ) -> QueueTiming:
        uplinks = [self._network.uplinks[client] for client in self._receivers]
        rate = sum(uplink.rates.mean for uplink in uplinks)
        return QueueTiming(
            n_packets=queue.n_served,
            utilization=queue.busy_ps / round_ps,
            load=rate * service.mean_s,
            mean_wait_s=to_s(queue.wait_ps) / queue.n_served,
            max_wait_s=to_s(queue.max_wait_ps),
            mean_waiting=queue.wait_ps / round_ps,
        )

    def _demands(
        self, clients: tuple[ClientTiming, ...], round_ps: int
    ) -> dict[str, float]:
        """Return the share of the round that each part would need by itself."""
        n_far = sum(times.is_far for times in self._times)
        far_ps = self.switch.far.busy_ps + 2 * n_far * self.switch.delay_ps
        links = [receiver.link_ps for receiver in self._receivers.values()]
        needed_s = {
            "compute": max(client.compute_s for client in clients),
            "uplinks": max(client.uplink_s for client in clients),
            "switch": to_s(self.switch.queue.busy_ps),
            "server": to_s(far_ps),
            "downlinks": to_s(max(links)),
        }
        return {name: time / to_s(round_ps) for name, time in needed_s.items()}

    def _series(self, round_ps: int) -> Series:
        monitor = self.switch.monitor
        width = 1 << monitor.shift
        n_bins = min(len(monitor.busy_ps), -(-round_ps // width))
        return Series(
            bin_s=to_s(width),
            waiting=monitor.waiting()[:n_bins],
            utilization=monitor.busy_ps[:n_bins] / width,
            open_slots=monitor.most_open[:n_bins],
        )
