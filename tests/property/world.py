"""A coordinator, clients and a switch in a world where anything may go wrong.

The machines are the real ones. The world has the time, the network, the disks and the
kills, and knows what must be true: it keeps its own account of every update, and makes
every committed round again in memory.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from fediac import FediAC, OmniReduce, SwitchML
from fediac.compressors.protocol import Compressor, Outcome, State
from fediac.errors import SessionError
from fediac.sessions.client import Client, ClientSettings, Holdings
from fediac.sessions.coordinator import Coordinator, CoordinatorSettings
from fediac.sessions.journal import (
    Committed,
    Numbered,
    Record,
    require_epoch,
    session_number,
)
from fediac.sessions.messages import Model, Status, Word
from fediac.sessions.replay import Compressing
from fediac.switch.control import ControlPlane, Limits
from fediac.switch.keys import Keyring
from fediac.switch.pipeline import Switch
from fediac.transports.arrays import ArrayTransport
from fediac.transports.lockstep import run_lockstep
from fediac.wire.header import EXCHANGES
from fediac.wire.packet import decode

PAYLOAD_BYTES = 64
JOB_BYTES = 930
"""Room for two slots of votes and four of lanes, so that they are used again."""

DIM = 700
POLL_US = 40_000
GATHER_US = 300_000
SILENCE_MS = 1500
ATTEMPT_US = 12_000_000
SEED = 3
KEYS = Keyring(b"the key of every job")

MAKERS: Mapping[str, Callable[[int], Compressor]] = {
    "fediac": lambda n: FediAC(n, n_votes="30%", threshold=min(n, 2), bits=8),
    "agreeing": lambda n: FediAC(n, n_votes="30%", threshold=min(n, 2)),
    "switchml": lambda n: SwitchML(n, bits=12),
    "omnireduce": lambda n: OmniReduce(n, n_sent="5%", block=16),
}


class Killed(BaseException):
    """Raised where a process is killed in the middle of what it does."""


@dataclass
class TestDisk:
    """A client's disk. A process may be killed just before or after it writes."""

    holdings: Holdings | None = None
    kill_in: int = -1

    def load(self) -> Holdings | None:
        return self.holdings

    def save(self, holdings: Holdings) -> None:
        self.kill_in -= 1
        if self.kill_in == 1:
            raise Killed
        self.holdings = holdings
        if self.kill_in == 0:
            raise Killed


@dataclass
class TestJournal:
    """A coordinator's journal, which two may have at a time although it is locked."""

    records: list[Record] = field(default_factory=list)
    kill_in: int = -1
    on_append: Callable[[Record], None] | None = None

    def load(self) -> list[Record]:
        return list(self.records)

    def append(self, record: Record) -> None:
        newest = max((each.epoch for each in self.records), default=0)
        require_epoch(record, newest)
        self.kill_in -= 1
        if self.kill_in == 1:
            raise Killed
        self.records.append(record)
        if self.on_append is not None:
            self.on_append(record)
        if self.kill_in == 0:
            raise Killed


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


@dataclass
class Account:
    """What the world knows a client must hold, beside what the client says it does."""

    state: State = field(default_factory=State)
    work: tuple[int, npt.NDArray[np.float32]] | None = None


def same(a: Any, b: Any) -> bool:
    """Return whether two vectors, or two times nothing, are the same bits."""
    if a is None or b is None:
        return a is b
    return bool(a.tobytes() == b.tobytes())


class Job:
    """One coordinator and its clients."""

    def __init__(
        self, world: "World", number: int, n_clients: int, algorithm: str
    ) -> None:
        self.world, self.number, self.n_clients = world, number, n_clients
        self.recipe = Compressing(MAKERS[algorithm], SEED + number)
        first = Model(0, np.linspace(-1, 1, DIM, dtype=np.float32))
        self.models = [first]
        self.accounts = [Account() for _ in range(n_clients)]
        self.before: dict[int, dict[int, State]] = {}
        self.committed: set[int] = set()
        self.n_rounds = 1 << 30
        self.last = 0
        self.journal = TestJournal(on_append=self.check_record)
        self.disks = [TestDisk() for _ in range(n_clients)]
        self.clients: list[Client | None] = [None] * n_clients
        self.places = [0] * n_clients
        self.coordinators: list[Coordinator | None] = [None]
        self.poll_us = [0] * n_clients
        self.said: list[Status | None] = [None] * n_clients

    # Processes

    def start_client(self, i: int) -> None:
        """Start a client, from what is on its disk."""
        settings = ClientSettings(i, self.recipe, KEYS.default, 3_000_000)
        self.clients[i] = Client(settings, self.disks[i], self.models[0])
        self.poll_us[i], self.said[i] = self.world.now_us, None

    def start_coordinator(self, place: int = 0) -> None:
        """Start a coordinator, from what is in the journal."""
        world = self.world
        settings = CoordinatorSettings(
            self.number,
            self.recipe,
            lambda last: session_number(
                world.wall_ms, last, int(world.rng.integers(1 << 16))
            ),
            KEYS.default,
            payload_bytes=PAYLOAD_BYTES,
            lease_ms=1000,
            silence_ms=SILENCE_MS,
            patience_us=3_000_000,
            attempt_us=ATTEMPT_US,
        )
        while len(self.coordinators) <= place:
            self.coordinators.append(None)
        made = Coordinator(settings, self.journal, self.models[0])
        self.coordinators[place] = made

    def address(self, i: int) -> bytes:
        """Return where a client is now."""
        return f"{self.number}/{i}/{self.places[i]}".encode()

    def home(self, place: int) -> bytes:
        """Return where a coordinator is."""
        return f"{self.number}/home/{place}".encode()

    # What must be true

    def update(self, i: int, round_number: int) -> npt.NDArray[np.float32]:
        """Return what a client's training gives, the same each time."""
        rng = np.random.default_rng((self.number, i, round_number))
        made = rng.normal(size=DIM) * rng.exponential(size=DIM) * 0.01
        return made.astype(np.float32)

    def note_update(self, i: int, round_number: int) -> None:
        """Account for a trained update: one that was not counted is in the residual."""
        account = self.accounts[i]
        if account.work is not None:
            left = account.work[1]
            if account.state.residual is not None:
                left = account.state.residual + left
            account.state = replace(account.state, residual=left)
        account.work = (round_number, self.update(i, round_number))

    def check_record(self, record: Record) -> None:
        """Check what a coordinator writes down."""
        if isinstance(record, Numbered):
            assert record.session > self.last, "a session's number is used again"
            self.last = record.session
        elif isinstance(record, Committed):
            self.check_commit(record)

    def check_commit(self, record: Committed) -> None:
        """Make a committed round again in memory, from the world's own account."""
        assert record.round_number == len(self.models), "a round is committed once"
        assert record.session not in self.committed
        outcomes = self.make_again(record)
        self.committed.add(record.session)
        self.before[record.session] = {}
        for i, outcome in outcomes.items():
            self.before[record.session][i] = self.accounts[i].state
            self.accounts[i] = Account(outcome.state)
        model = self.models[-1]
        mean = outcomes[record.members[0]].mean.dense(model.values)
        self.models.append(Model(record.round_number, model.values - mean))

    def make_again(self, record: Committed) -> Mapping[int, Outcome]:
        """Return the outcomes of a round that is made in whole arrays, not packets."""
        clients = {}
        for i in record.members:
            work = self.accounts[i].work
            assert work is not None, f"client {i} is counted and has no update"
            assert work[0] == record.round_number
            clients[i] = self.recipe.begin(
                work[1],
                self.accounts[i].state,
                round_number=record.round_number,
                client=i,
                n=len(record.members),
            )
        transport = ArrayTransport(Switch().open(len(record.members)))
        outcomes, _ = run_lockstep(clients, transport, round_number=record.round_number)
        return outcomes

    def check(self) -> None:
        """Compare what everybody holds with what they must hold."""
        for i in range(self.n_clients):
            holds = self.disks[i].holdings
            if holds is not None:
                self.check_holdings(i, holds)
        for coordinator in self.coordinators:
            if coordinator is not None:
                model = coordinator.model
                assert same(model.values, self.models[model.round_number].values)
                late = [each for each in coordinator.failures if "not over" in each]
                assert not late, "neither an answer nor an error within the bound"

    def check_holdings(self, i: int, holds: Holdings) -> None:
        model = holds.model
        assert model.round_number < len(self.models), "a mean was applied too early"
        assert same(model.values, self.models[model.round_number].values)
        session = holds.attempt.start.session if holds.attempt else 0
        account = self.accounts[i]
        if session in self.committed:  # it counts, and the client is not told yet
            assert holds.work is not None
            state = self.before[session][i]
        else:
            state, work = account.state, account.work
            assert (holds.work is None) == (work is None), "lost, or held twice"
            if holds.work is not None and work is not None:
                assert holds.work.round_number == work[0]
                assert same(holds.work.update, work[1])
        assert same(holds.state.residual, state.residual)
        assert holds.state.bits == state.bits


class World:
    """Time, network, kills; `step` does the next thing that happens."""

    def __init__(
        self,
        seed: int,
        *,
        algorithms: Sequence[str] = ("fediac",),
        n_clients: int = 3,
        enough: int = 1,
    ) -> None:
        self.rng = np.random.default_rng(seed)
        self.now_us, self.wall_ms = 0, 1_000_000
        self.weather = Weather()
        self.enough = enough
        self.n_steps = self.n_kills = 0
        self.flights: list[tuple[int, int, tuple[str, Any], Any]] = []
        self.n_flights = 0
        self.sent: dict[tuple[Any, ...], bytes] = {}
        self.unproved: dict[bytes, int] = {}
        self.switch = self.new_switch()
        self.jobs = [
            Job(self, number, n_clients, algorithm)
            for number, algorithm in enumerate(algorithms)
        ]
        for job in self.jobs:
            job.start_coordinator()
            for i in range(n_clients):
                job.start_client(i)

    def new_switch(self) -> ControlPlane:
        limits = Limits(JOB_BYTES * 3, max_jobs=3, max_members=16, buffer_packets=64)
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
        changed = bytearray(data)
        place = int(self.rng.integers(len(data)))
        changed[place] ^= 1 << int(self.rng.integers(8))
        return bytes(changed[: int(self.rng.integers(1, len(data) + 1))])

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

    def arrive_switch(self, _: None, datagram: tuple[bytes, bytes]) -> None:
        address, data = datagram
        sent = self.switch.receive([datagram], self.now_us)
        known = {a for s in self.switch.sessions for a in s.everyone()}
        if address not in known and not any(to != address for to, _ in sent):
            out = sum(len(each) for _, each in sent)
            credit = self.unproved.get(address, 0) + len(data) - out
            assert credit >= 0, "more went to an address than came from it"
            self.unproved[address] = credit
        self.from_switch(sent)

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
