"""What a compressor is: a generator that asks exchanges and returns a mean.

A compressor sees one client's round. Each ``yield from ask(...)`` carries one exchange,
or several that travel together; all clients must ask the same ones. It knows no
transport, so every transport runs it.
"""

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias, runtime_checkable

from fediac.core.exchange import Answer, Exchange
from fediac.core.mean import Mean
from fediac.core.rng import Stream
from fediac.core.types import Array, Indices, Update


@dataclass(frozen=True, slots=True)
class State:
    """What a client keeps between rounds.

    Attributes:
        residual: What earlier rounds left unsent; None stands for zeros.
        bits: The lane width to ask for: what the clients agreed on, once they have.
        extras: What else an algorithm keeps, such as momentum: arrays by name, of any
            shape, of the library and on the device that updates are. A round that is
            interrupted must find them as they were: return new ones. Those that an
            algorithm does not know it passes on.
    """

    residual: Update | None = None
    bits: int | None = None
    extras: Mapping[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.extras, Mapping):  # clients may begin with one state
            object.__setattr__(self, "extras", MappingProxyType(dict(self.extras)))

    def __reduce__(self) -> tuple[type["State"], tuple[Any, ...]]:
        """Replace the read-only mapping, so that states can be copied and pickled."""
        return type(self), (self.residual, self.bits, dict(self.extras))


@dataclass(frozen=True, slots=True)
class Facts:
    """One client's statistics of a round, for logs.

    Attributes:
        n_votes: Votes of this client, each for an entry or a group of them, or entries
            it picked to send.
        n_chosen: Entries sent by this client.
        bits: Width of a sum of levels; 0 when clients send floats.
        peak: The largest magnitude of all clients; 0 when they did not agree on one.
        scale: Multiplier before rounding; 0 when nothing was rounded.
        energy: ΣU².
        left_energy: Σ(U − sent)².
        n_clamped: Levels that were cut to the limit, because the agreed peak is below
            their entries'; what was cut stays in the residual.
    """

    n_votes: int
    n_chosen: int
    bits: int
    peak: float
    scale: float
    energy: float
    left_energy: float
    n_clamped: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a client has at the end of its round."""

    mean: Mean
    state: State
    facts: Facts

    def keeping(self, **extras: Array) -> "Outcome":
        """Return this outcome with more arrays in the state, for the next round."""
        state = replace(self.state, extras={**self.state.extras, **extras})
        return replace(self, state=state)


Round: TypeAlias = Generator[tuple[Exchange, ...], tuple[Answer, ...], Outcome]


class Compressor(Protocol):
    """An algorithm for one client's side of a round."""

    @property
    def n_clients(self) -> int:
        """Clients in the round; levels are limited so that their sum fits a lane."""
        ...

    def run_round(
        self, update: Update, state: State, stream: Stream, *, out: Update | None = None
    ) -> Round:
        """Yield exchanges; return the mean update, the next state and the facts.

        Args:
            update: This client's model change. Never written to.
            state: What the last round returned.
            stream: Randomness of this client and round.
            out: Memory for the next residual; it may be the current one.
        """
        ...


@runtime_checkable
class LearnsHot(Protocol):
    """An algorithm whose field ``hot`` is learned from a training before the run."""

    @property
    def hot(self) -> Indices:
        """The hot entries; none: they have yet to be found."""
        ...

    @property
    def hot_rounds(self) -> int:
        """Rounds of that training."""
        ...

    def find_hot(self, updates: Iterable[Update], n_addresses: int) -> Indices:
        """Return the hot entries, by the updates of all clients in all these rounds."""
        ...


def can_run_rounds(given: object) -> bool:
    """Return whether this is a compressor, not a class that makes one."""
    return not isinstance(given, type) and callable(getattr(given, "run_round", None))


def ask(*exchanges: Exchange) -> Generator[tuple[Exchange, ...], Any, Any]:
    """Yield exchanges that travel together, each of another kind; return their answers.

    One exchange gives its answer, several give a tuple. The type of an answer follows
    from the exchange's, so callers annotate what they get.
    """
    answers = yield exchanges
    return answers[0] if len(exchanges) == 1 else answers
