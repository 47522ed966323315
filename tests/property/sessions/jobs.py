"""A job of a world: its coordinator and clients, and what must be true of them.

The world keeps its own account of every update, and makes every committed round again
in memory: what the machines hold must be the same, to the bit.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fediac import FediAC, OmniReduce, SwitchML
from fediac.compressors.protocol import Compressor, Outcome, State
from fediac.sessions.client import Client, ClientSettings, Holdings
from fediac.sessions.coordinator import Coordinator, CoordinatorSettings
from fediac.sessions.journal import (
    Committed,
    Numbered,
    Record,
    require_epoch,
    session_number,
)
from fediac.sessions.messages import Model, Status
from fediac.sessions.replay import Compressing
from fediac.switch.keys import Keyring
from fediac.switch.pipeline import Switch
from fediac.transports.arrays import ArrayTransport
from fediac.transports.lockstep import run_lockstep

PAYLOAD_BYTES = 64
DIM = 700
GATHER_US = 300_000
SILENCE_MS = 1500
ATTEMPT_US = 12_000_000
"""How long a session may take, however bad the network is."""

GENTLE_ATTEMPT_US = 2_000_000
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
class FragileDisk:
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
class FragileJournal:
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


class Surroundings(Protocol):
    """What a job sees of its world: the time, a clock on the wall, and chance."""

    now_us: int
    wall_ms: int
    rng: np.random.Generator


class Job:
    """One coordinator and its clients; there may be two coordinators for a while."""

    def __init__(
        self,
        world: Surroundings,
        number: int,
        n_clients: int,
        algorithm: str,
        *,
        is_gentle: bool,
    ) -> None:
        self.world, self.number, self.n_clients = world, number, n_clients
        self.is_gentle = is_gentle
        self.recipe = Compressing(MAKERS[algorithm], SEED + number)
        first = Model(0, np.linspace(-1, 1, DIM, dtype=np.float32))
        self.models = [first]
        self.accounts = [Account() for _ in range(n_clients)]
        self.before: dict[int, dict[int, State]] = {}
        self.committed: set[int] = set()
        self.n_rounds = 1 << 30
        self.last = 0
        self.journal = FragileJournal(on_append=self.check_record)
        self.disks = [FragileDisk() for _ in range(n_clients)]
        self.clients: list[Client | None] = [None] * n_clients
        self.places = [0] * n_clients
        self.coordinators: list[Coordinator | None] = [None]
        self.poll_us = [0] * n_clients
        self.said: list[Status | None] = [None] * n_clients

    # Processes

    def start_client(self, i: int) -> None:
        """Start a client, from what is on its disk."""
        settings = ClientSettings(i, self.recipe, 3_000_000)
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
            attempt_us=GENTLE_ATTEMPT_US if self.is_gentle else ATTEMPT_US,
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
                failures = coordinator.failures if self.is_gentle else []
                assert not failures, f"a session failed for no reason: {failures}"

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
