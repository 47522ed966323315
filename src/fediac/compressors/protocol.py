"""What a compressor is: a generator that asks exchanges and returns a mean.

A compressor sees one client's round. Each ``yield from ask(...)`` carries one exchange,
or several that travel together; all clients must ask the same ones. It knows no
transport, so every transport runs it.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

from array_api_compat import array_namespace

from fediac.core.corrected import Corrected, correct, count_nonfinite
from fediac.core.exchange import Answer, Exchange, Max, Peak
from fediac.core.integers import as_whole
from fediac.core.mean import Mean
from fediac.core.quantize import MIN_PEAK, Grid, float32_above
from fediac.core.residual import check_fade
from fediac.core.rng import Stream
from fediac.core.types import Array, Update
from fediac.core.widths import Lanes, make_grid
from fediac.errors import NotFiniteError, say_count


@dataclass(frozen=True, slots=True)
class State:
    """What a client keeps between rounds.

    Attributes:
        residual: What earlier rounds left unsent; None stands for zeros.
        bits: The lane width to ask for: what the clients agreed on, once they have.
        extras: What else an algorithm keeps, such as momentum: arrays by name, of any
            shape, of the library and on the device that updates are. A round that is
            interrupted must find them as they were: return new ones.
    """

    residual: Update | None = None
    bits: int | None = None
    extras: Mapping[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.extras, Mapping):  # clients may begin with one state
            object.__setattr__(self, "extras", MappingProxyType(dict(self.extras)))

    def __reduce__(self) -> tuple[type["State"], tuple[Any, ...]]:
        """Let states be copied and pickled, which a read-only mapping cannot be."""
        return type(self), (self.residual, self.bits, dict(self.extras))


@dataclass(frozen=True, slots=True)
class Facts:
    """One client's numbers of a round, for logs.

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


Round: TypeAlias = Generator[tuple[Exchange, ...], tuple[Answer, ...], Outcome]


class Compressor(Protocol):
    """An algorithm for one client's side of a round."""

    @property
    def n_clients(self) -> int:
        """Clients of the round; levels are limited so that as many fit a lane."""
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


def ask(*exchanges: Exchange) -> Generator[tuple[Exchange, ...], Any, Any]:
    """Yield exchanges that travel together, each of another kind; return their answers.

    One exchange gives its answer, several give a tuple. The type of an answer follows
    from the exchange's, so callers annotate what they get.
    """
    answers = yield exchanges
    return answers[0] if len(exchanges) == 1 else answers


def check_whole(name: str, number: object, *, at_least: int | None = None) -> None:
    """Raise unless a setting is a whole number, Python's or NumPy's, and not too small.

    Args:
        name: What the setting is called.
        number: What it was given.
        at_least: The smallest that is allowed; None: whoever calls checks that.
    """
    whole = as_whole(name, number)
    if at_least is not None and whole < at_least:
        raise ValueError(f"{name} must be at least {at_least}, got {number}")


def check_flag(name: str, flag: object) -> None:
    """Raise unless a setting is True or False."""
    if not isinstance(flag, bool):
        raise TypeError(f"{name} must be True or False, got {flag!r}")


def check_common(
    compressor: "Compressor", *, residual: object = True, fade: object = 0.0
) -> None:
    """Raise unless what most algorithms have is of the right kind.

    Numbers of NumPy become Python's: a round may take them anywhere, and one of 64 bits
    would make products with 32-bit arrays others.
    """
    for each in fields(compressor):  # type: ignore[arg-type] # algorithms are dataclasses
        number = getattr(compressor, each.name)
        if isinstance(number, Integral) and not isinstance(number, int):
            object.__setattr__(compressor, each.name, int(number))
        elif isinstance(number, Real) and not isinstance(number, int):
            object.__setattr__(compressor, each.name, float(number))
    check_whole("n_clients", compressor.n_clients, at_least=1)
    check_flag("residual", residual)
    check_fade(fade, residual=bool(residual))


def check_count(name: str, count: int, update: Update | None = None) -> None:
    """Raise unless ``count`` entries can be taken, of ``update`` if it is given.

    A round checks this first of all: later its residual may be overwritten already.
    """
    if update is None:
        check_whole(name, count, at_least=1)
    elif not 1 <= count <= len(update):
        raise ValueError(f"{name} must be in 1..{len(update)} (dim), got {count}")


def begin(
    update: Update,
    state: State,
    stream: Stream,
    *,
    keeps_residual: bool,
    out: Update | None,
) -> Corrected:
    """Return the corrected update; its values may be changed into the next residual.

    Without a residual to keep, its values are ``update`` itself and must be left alone.

    Raises:
        UpdateError: Some entries are not finite or too large, so nothing may be sent.
    """
    if keeps_residual:
        out = array_namespace(update).empty_like(update) if out is None else out
        corrected = correct(update, state.residual, out=out)
    else:
        corrected = correct(update, None)
    if corrected.n_nonfinite:
        raise nonfinite_error(stream, update, corrected.n_nonfinite)
    return corrected


def scale_to_peak(
    corrected: Corrected, *, bits: int, n_clients: int, lanes: Lanes = "same"
) -> Generator[tuple[Exchange, ...], Any, tuple[float, Grid | None]]:
    """Ask for the peak of all clients; return it, and the grid of levels up to it.

    There is no grid where the peak is too small for anything to be sent.

    Args:
        corrected: The update.
        bits: Width of a lane of sums.
        n_clients: Levels that a sum has.
        lanes: How wide lanes are, see `fediac.core.widths`.
    """
    agreed: Peak = yield from ask(Max(float32_above(corrected.peak)))
    if agreed.peak < MIN_PEAK:
        return agreed.peak, None
    grid = make_grid(peak=agreed.peak, bits=bits, n_clients=n_clients, lanes=lanes)
    return agreed.peak, grid


def unsent(
    corrected: Corrected, state: State, *, n_votes: int, bits: int, peak: float
) -> Outcome:
    """Return the outcome of a legal round in which nothing is sent.

    All clients see the same peak and gia, so all of them stop here or none does.
    """
    energy = corrected.energy
    facts = Facts(n_votes, 0, bits, peak, 0.0, energy, energy)
    return Outcome(Mean(), state, facts)


def left_energy(corrected: Corrected, *, chosen: float, left: float = 0.0) -> float:
    """Return Σ(U − sent)² over all entries.

    The energies come from sums over different entries, so where all is sent rounding
    could take their difference below zero.

    Args:
        corrected: U.
        chosen: ΣU² over the sent entries.
        left: Σ(U − sent)² over them.
    """
    return max(corrected.energy - chosen, 0.0) + left


def nonfinite_error(stream: Stream, update: Update, n_nonfinite: int) -> NotFiniteError:
    """Return the error for an update that must not reach the switch.

    Args:
        stream: The client's in this round.
        update: Without the residual, which may be to blame.
        n_nonfinite: Entries of their sum that cannot be sent.
    """
    n_own = count_nonfinite(update, None)
    whose = "update" if n_own else "update + residual"
    what = say_count(n_own or n_nonfinite, "entry that is", "entries that are")
    hint = "" if n_own else " (update has none); State() starts without a residual"
    return NotFiniteError(
        f"client {stream.client}, round {stream.round_number}: "
        f"{whose} has {what} NaN, infinite or beyond 2**100{hint}"
    )
