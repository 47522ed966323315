"""Steps of a round that several algorithms take: begin, agree on a peak, add levels."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from array_api_compat import array_namespace

from fediac.compressors.protocol import Facts, Outcome, State, ask
from fediac.core.corrected import Corrected, correct, count_nonfinite
from fediac.core.exchange import Exchange, Max, Peak, Sum, Totals
from fediac.core.mean import LaneMean, Mean
from fediac.core.quantize import MIN_PEAK, Grid, Sent, float32_above, send_chosen
from fediac.core.rng import Stream
from fediac.core.types import Packed, Update
from fediac.core.widths import Lanes, make_grid
from fediac.errors import NotFiniteError, say_count


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


@dataclass(frozen=True, slots=True)
class Added:
    """The result of a sum of levels.

    Attributes:
        mean: The mean of all clients' levels.
        sent: What this client sent.
        grid: What levels were rounded to.
        energy: ΣU².
        left_energy: Σ(U − sent)² over all entries.
    """

    mean: Mean
    sent: Sent
    grid: Grid
    energy: float
    left_energy: float

    def outcome(
        self, state: State, *, peak: float, n_votes: int | None = None
    ) -> Outcome:
        """Return the outcome of a round that ends with this sum.

        Args:
            state: The next one.
            peak: What all clients agreed on.
            n_votes: Votes of this client; None: it voted for what it sent.
        """
        n_sent = self.sent.n_levels
        facts = Facts(
            n_votes=n_sent if n_votes is None else n_votes,
            n_chosen=n_sent,
            bits=self.grid.bits_down,
            peak=peak,
            scale=self.grid.scale,
            energy=self.energy,
            left_energy=self.left_energy,
            n_clamped=self.sent.n_clamped,
        )
        return Outcome(self.mean, state, facts)


def add_levels(
    corrected: Corrected,
    gia: Packed | None,
    grid: Grid,
    stream: Stream,
    *,
    kept: Update | None,
) -> Generator[tuple[Exchange, ...], Any, Added]:
    """Ask for the sum of the levels of the agreed entries; return the result.

    Args:
        corrected: The update.
        gia: Entries to send, equal on all clients; None: all of them.
        grid: What they are rounded to.
        stream: Randomness of this client and round.
        kept: Becomes what was not sent; None: it is not kept.
    """
    rounding = stream.purpose("rounding")
    sent = send_chosen(corrected.values, gia, grid, rounding, out=kept)
    totals: Totals = yield from ask(
        Sum(sent.lanes, sent.n_levels, grid.bits_up, grid.bits_down, grid.limit)
    )
    left = sent.left_energy
    if gia is not None:
        left = left_energy(corrected, chosen=sent.chosen_energy, left=left)
    mean = Mean((LaneMean(totals, grid.scale, gia),))
    return Added(mean, sent, grid, corrected.energy, left)


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
