"""What carries a round's exchanges; and a switch elsewhere, with a session a round."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

from fediac.compressors.protocol import Compressor, Outcome, State
from fediac.core.exchange import Answer, Exchange
from fediac.core.ledger import Ledger
from fediac.core.rng import Stream
from fediac.core.types import Update
from fediac.switch.counters import Counters
from fediac.switch.registers import Layout

T = TypeVar("T")


class Transport(Protocol):
    """Carries one exchange of all clients and returns the answer."""

    @property
    def payload_bytes(self) -> int:
        """Room for items in a packet."""
        ...

    def carry(self, requests: Mapping[int, Exchange]) -> Answer:
        """Return the answer to what all clients ask."""
        ...


class SessionTransport(Transport, Protocol):
    """Carries the exchanges of one session."""

    @property
    def layout(self) -> Layout:
        """Where its registers are."""
        ...

    @property
    def counters(self) -> Counters:
        """What the switch's registers count of a session in which nothing is lost."""
        ...


@runtime_checkable
class SwitchElsewhere(Protocol):
    """A switch that has to be asked for a session."""

    def run_session(
        self, members: tuple[int, ...], run: Callable[[SessionTransport], T]
    ) -> T:
        """Return what ``run`` returns, in a session of these members.

        Where a session is lost, ``run`` is called again, in another one: it must begin
        anew and leave what it was given alone.
        """
        ...


@dataclass(frozen=True, slots=True)
class ClientRound:
    """What one client begins a round with."""

    compressor: Compressor
    update: Update
    state: State
    stream: Stream


@dataclass(frozen=True, slots=True)
class RoundRun:
    """What clients elsewhere end a round with.

    Attributes:
        outcomes: Each client's.
        ledger: What all of them sent and got.
        counters: What the switch's registers count of it if nothing is lost.
    """

    outcomes: Mapping[int, Outcome]
    ledger: Ledger
    counters: Counters


@runtime_checkable
class ClientsElsewhere(SwitchElsewhere, Protocol):
    """A switch elsewhere, and clients that are not in this process either."""

    def run_clients(
        self, clients: Mapping[int, ClientRound], *, round_number: int
    ) -> RoundRun:
        """Return what a round of these clients gives."""
        ...
