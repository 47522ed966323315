"""A coordinator, clients and a switch in a world where anything may go wrong.

The machines are the real ones. The world has the time, the network, the disks and the
kills. What must be true of a job is said in `jobs`; what must be true of the switch, in
`World.arrive_switch`.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from fediac.errors import SessionError
from fediac.sessions.coordinator import Coordinator
from fediac.sessions.messages import Status, Word
from fediac.switch.control import ControlPlane, Limits
from fediac.switch.sessions import Datagram
from fediac.wire.header import EXCHANGES
from fediac.wire.packet import decode
from tests.property.sessions.jobs import GATHER_US, KEYS, Job, Killed

MAX_JOBS = 3
JOB_BYTES = 930
"""Room for two slots of votes and four of lanes, so that they are used again."""

POLL_US = 100_000
"""How often clients say how they stand, even if that is no news."""


@dataclass(frozen=True)
class Weather:
    """How bad the network is: shares of packets, and the longest delay.

    Attributes:
        late: Share of packets that take twenty times as long.
    """

    loss: float = 0.0
    duplication: float = 0.0
    corruption: float = 0.0
    max_delay_us: int = 3_000
    late: float = 0.0


class World:
    """Time, network, kills; `step` does the next thing that happens.

    Args:
        seed: Of all chance in it.
        algorithms: One for each job.
        n_clients: Of each job.
        enough: With so many of them a round goes on without the others.
        is_gentle: Nobody will be killed and little be lost, so no session may fail.
    """

    def __init__(
        self,
        seed: int,
        *,
        algorithms: Sequence[str] = ("fediac",),
        n_clients: int = 3,
        enough: int = 1,
        is_gentle: bool = False,
    ) -> None:
        self.rng = np.random.default_rng(seed)
        self.now_us, self.wall_ms = 0, 1_000_000
        self.weather = Weather()
        self.enough = enough
        self.n_steps = self.n_kills = self.n_strangers = 0
        self.flights: list[tuple[int, int, tuple[str, Any], Any]] = []
        self.n_flights = 0
        self.sent: dict[tuple[Any, ...], bytes] = {}
        self.proved: set[bytes] = set()
        self.unproved: dict[bytes, int] = {}
        self.seen: deque[bytes] = deque(maxlen=50)
        self.switch = self.new_switch()
        self.jobs = [
            Job(self, number, n_clients, algorithm, is_gentle=is_gentle)
            for number, algorithm in enumerate(algorithms)
        ]
        for job in self.jobs:
            job.start_coordinator()
            for i in range(n_clients):
                job.start_client(i)

    def new_switch(self) -> ControlPlane:
        limits = Limits(
            JOB_BYTES * MAX_JOBS, max_jobs=MAX_JOBS, max_members=16, buffer_packets=64
        )
        return ControlPlane(limits, KEYS, self.rng.bytes(16))

    # The network

    def launch(self, to: tuple[str, Any], what: Any) -> None:
        """Let something travel, if it is not lost."""
        weather = self.weather
        for _ in range(1 + int(self.rng.random() < weather.duplication)):
            if self.rng.random() < weather.loss:
                continue
            carried = what
            if isinstance(what, tuple) and self.rng.random() < weather.corruption:
                carried = (what[0], self.damage(what[1]))
            self.n_flights += 1
            delay = int(self.rng.integers(50, weather.max_delay_us + 51))
            delay *= 20 if self.rng.random() < weather.late else 1
            flight = (self.now_us + delay, self.n_flights, to, carried)
            heapq.heappush(self.flights, flight)

    def damage(self, data: bytes) -> bytes:
        """Return a packet with a bit that is another, or only its beginning."""
        if not data or self.rng.random() < 0.5:
            return data[: int(self.rng.integers(len(data) + 1))]
        changed = bytearray(data)
        changed[int(self.rng.integers(len(data)))] ^= 1 << int(self.rng.integers(8))
        return bytes(changed)

    def to_switch(self, address: bytes, packets: Sequence[bytes]) -> None:
        for data in packets:
            self.check_repeats(data)
            self.launch(("switch", None), (address, data))

    def check_repeats(self, data: bytes) -> None:
        """A packet that is sent again is the same, bit for bit."""
        if data[3] not in EXCHANGES:
            return
        packet = decode(data)
        who = packet.session, packet.exchange, packet.client, packet.packet
        key = (*who, int(packet.flags) & ~1)
        if packet.n_items:  # a block that others have is asked for without items
            assert self.sent.setdefault(key, data) == data, f"{key} differs"

    # What happens

    def run(self, n_steps: int) -> None:
        """Let so many things happen."""
        for _ in range(n_steps):
            self.step()

    def step(self) -> None:
        """Do the next thing: something arrives, or somebody's time is up."""
        self.n_steps += 1
        due = min(self.deadlines(), key=lambda pair: pair[0], default=None)
        if self.flights and (due is None or self.flights[0][0] <= due[0]):
            at, _, (kind, who), what = heapq.heappop(self.flights)
            self.advance(at)
            getattr(self, f"arrive_{kind}")(who, what)
        elif due is not None:
            self.advance(due[0])
            due[1]()
        for job in self.jobs:
            job.check()

    def advance(self, at_us: int) -> None:
        ahead = max(0, at_us - self.now_us)
        self.now_us += ahead
        self.wall_ms += ahead // 1000

    def deadlines(self) -> Iterator[tuple[int, Callable[[], None]]]:
        at = self.switch.deadline_us
        if at is not None:
            yield at, self.expire_switch
        for job in self.jobs:
            for place, coordinator in enumerate(job.coordinators):
                if coordinator is not None and coordinator.deadline_us is not None:
                    yield coordinator.deadline_us, partial(self.coordinate, job, place)
            for i, client in enumerate(job.clients):
                if client is None:
                    continue
                yield job.poll_us[i], partial(self.poll, job, i)
                if client.deadline_us is not None:
                    yield client.deadline_us, partial(self.attend, job, i)

    # The switch

    def expire_switch(self) -> None:
        self.from_switch(self.switch.expire(self.now_us))

    def arrive_switch(self, _: None, datagram: Datagram) -> None:
        """Let a packet arrive; it may touch the registers of its own session alone."""
        self.seen.append(datagram[1])
        before = self.registers()
        sent = self.switch.receive([datagram], self.now_us)
        after = self.registers()
        session = int.from_bytes(datagram[1][4:12], "big")
        for number in before.keys() & after.keys() - {session}:
            assert before[number] == after[number], "a job's packet touched another job"
        self.check_amplification(datagram, sent)
        self.from_switch(sent)

    def registers(self) -> dict[int, bytes]:
        """Return the registers of each session."""
        return {
            each.asked.session: each.switch._registers.tobytes()
            for each in self.switch.sessions
        }

    def check_amplification(self, datagram: Datagram, sent: Sequence[Datagram]) -> None:
        """No address gets more bytes than came from it before it is proved."""
        address, data = datagram
        self.proved.update(a for s in self.switch.sessions for a in s.everyone())
        if address in self.proved or any(to != address for to, _ in sent):
            return
        out = sum(len(each) for _, each in sent)
        credit = self.unproved.get(address, 0) + len(data) - out
        assert credit >= 0, "more went to an address than came from it"
        self.unproved[address] = credit

    def from_switch(self, sent: Sequence[tuple[bytes, bytes]]) -> None:
        for to, data in sent:
            self.launch(("datagram", to), (to, data))

    def arrive_datagram(self, to: bytes, datagram: tuple[bytes, bytes]) -> None:
        data = datagram[1]
        for job in self.jobs:
            for place, coordinator in enumerate(job.coordinators):
                if coordinator is not None and to == job.home(place):
                    self.coordinate(job, place, data)
            for i, client in enumerate(job.clients):
                if client is not None and to == job.address(i):
                    self.attend(job, i, data)

    # Clients

    def attend(self, job: Job, i: int, *data: bytes) -> None:
        """Let a client take datagrams, and send."""
        client = job.clients[i]
        if client is None:
            return
        with self.killing(job, i):
            client.receive(data, self.now_us)
            packets = client.send(self.now_us)
            self.to_switch(job.address(i), packets)
            self.report(job, i)

    def poll(self, job: Job, i: int) -> None:
        job.poll_us[i] = self.now_us + POLL_US
        job.said[i] = None
        with self.killing(job, i):
            self.report(job, i)

    def report(self, job: Job, i: int) -> None:
        """Train if that is wanted, and say how the client stands if that is news."""
        client = job.clients[i]
        if client is None:
            return
        wanted = client.training_round
        if wanted is not None:
            disk, before = job.disks[i], job.disks[i].holdings
            try:
                client.take_update(job.update(i, wanted))
            finally:
                if disk.holdings is not before:
                    job.note_update(i, wanted)
        if client.status != job.said[i]:
            job.said[i] = client.status
            for place in range(len(job.coordinators)):
                self.launch(("status", (job.number, place)), client.status)

    def arrive_word(self, who: tuple[int, int], word: Word) -> None:
        job, i = self.jobs[who[0]], who[1]
        client = job.clients[i]
        if client is None:
            return
        with self.killing(job, i):
            client.hear(word, self.now_us)
            self.attend(job, i)

    # Coordinators

    def coordinate(self, job: Job, place: int, *data: bytes) -> None:
        """Let a coordinator take datagrams, send, and tell its clients."""
        coordinator = job.coordinators[place]
        if coordinator is None:
            return
        with self.killing_coordinator(job, place):
            coordinator.receive(data, self.now_us)
            self.want(job, coordinator)
            packets = coordinator.send(self.now_us)
            self.to_switch(job.home(place), packets)
            for i, word in coordinator.words_due():
                self.launch(("word", (job.number, i)), word)
            coordinator.take_made()

    def want(self, job: Job, coordinator: Coordinator) -> None:
        is_free = coordinator.wanted_round is None
        if is_free and coordinator.model.round_number < job.n_rounds:
            coordinator.want_round(
                range(job.n_clients),
                enough=self.enough,
                gather_us=GATHER_US,
                now_us=self.now_us,
            )

    def arrive_status(self, who: tuple[int, int], status: Status) -> None:
        job, place = self.jobs[who[0]], who[1]
        coordinator = job.coordinators[place]
        if coordinator is None:
            return
        with self.killing_coordinator(job, place):
            word = coordinator.hear(status, self.now_us)
            self.launch(("word", (job.number, status.client)), word)
        self.coordinate(job, place)

    # Kills

    def killing(self, job: Job, i: int) -> Any:
        """Let the client die if its disk says so."""
        return _Dying(lambda: self.kill_client(job, i))

    def killing_coordinator(self, job: Job, place: int) -> Any:
        """Let the coordinator die if its journal says so, or a newer one runs."""

        def die() -> None:
            coordinator = job.coordinators[place]
            newest = max(each.epoch for each in job.journal.records)
            if coordinator is not None and coordinator.epoch < newest:
                job.coordinators[place] = None
            else:
                self.kill_coordinator(job, place)

        return _Dying(die, lambda: self.is_old(job, place))

    def is_old(self, job: Job, place: int) -> bool:
        """Return whether a coordinator must notice that there is a newer one."""
        coordinator = job.coordinators[place]
        newest = max(each.epoch for each in job.journal.records)
        return coordinator is not None and coordinator.epoch < newest

    def double_coordinator(self, job: Job) -> None:
        """Start another coordinator on the same journal, as if it were not locked."""
        self.n_kills += 1
        old = job.coordinators[-1]
        job.coordinators = [old, None]
        with suppress(Killed):
            job.start_coordinator(1)
            return
        self.kill_coordinator(job, 1)  # while it wrote that it has started

    def kill_client(self, job: Job, i: int) -> None:
        """Kill a client; it comes back from its disk, elsewhere."""
        self.n_kills += 1
        job.clients[i] = None
        job.places[i] += 1
        job.disks[i].kill_in = -1
        job.start_client(i)

    def kill_coordinator(self, job: Job, place: int = 0) -> None:
        """Kill a coordinator; it comes back from its journal."""
        self.n_kills += 1
        job.coordinators[place] = None
        job.journal.kill_in = -1
        job.start_coordinator(place)

    def kill_switch(self) -> None:
        """Kill the switch; the next one knows nothing."""
        self.n_kills += 1
        self.switch = self.new_switch()
        self.proved.clear()

    def stop_client(self, job: Job, i: int) -> None:
        """Kill a client; it does not come back by itself."""
        self.n_kills += 1
        job.clients[i] = None
        job.disks[i].kill_in = -1

    def start_clients(self) -> None:
        """Start all clients that do not run."""
        for job in self.jobs:
            for i, client in enumerate(job.clients):
                if client is None:
                    job.start_client(i)

    def move_client(self, job: Job, i: int) -> None:
        """Change a client's address, without its knowing."""
        job.places[i] += 1

    def replay_packets(self) -> None:
        """Send the last packets again from somewhere else, as whoever saw them might.

        The place is new each time: it must be told no more than it said.
        """
        self.n_strangers += 1
        address = f"stranger {self.n_strangers}".encode()
        for data in self.seen:
            self.launch(("switch", None), (address, data))


@dataclass
class _Dying:
    die: Callable[[], None]
    may_fail: Callable[[], bool] = bool

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        is_end = kind is not None and issubclass(kind, Killed)
        if is_end or (kind is SessionError and self.may_fail()):
            self.die()
            return True
        return False
