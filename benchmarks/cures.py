"""What was tried against starving consensus and old residuals, see docs/lean.md.

None of it is in the package. Each is the preset ``lean`` as it was then, with fewer
votes and a lower threshold, or as it is now, and one thing more. It runs as any
algorithm of one's own, from the repository's root:

    RUNS=results/digits/runs/digits-iid.zip
    fediac run $RUNS/fediac-lean-k0.5-a10/seed1/config.toml \
        --set algorithm=benchmarks.cures:rotating_4 --out runs/rotating-4

and with ``digits-noniid``, ``seed2`` and ``seed3``.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

from array_api_compat import array_namespace, device

from fediac import FediAC
from fediac.core.groups import count_groups, group_peaks, spread_groups
from fediac.core.quantize import energy_of, float32_above
from fediac.extend import (
    Consensus,
    Corrected,
    Max,
    Outcome,
    Packed,
    Peak,
    Round,
    State,
    Stream,
    Update,
    ask,
    indices_of,
    largest,
    pack_bits,
    unpack_bits,
)

THEN: dict[str, Any] = {
    "n_votes": "0.5%",
    "threshold": "10%",
    "growth": 0.0,
    "entries_per_vote": 32,
    "rank_by": "peak",
}
"""In what lean was another when most of this was tried."""


def _require(kept: Update | None) -> Update:
    if kept is None:
        raise ValueError("residual must be True to fade, got False")
    return kept


@dataclass(frozen=True, slots=True)
class FadingByAge(FediAC):
    """Entries that were not sent for ``age`` rounds lose a share of what is left."""

    age: int = 10
    share: float = 0.2

    def compress(
        self, corrected: Corrected, state: State, stream: Stream, kept: Update | None
    ) -> Round:
        """Run FediAC's round, then look at what it has left alone."""
        kept = _require(kept)
        xp = array_namespace(kept)
        before = xp.asarray(kept, copy=True)
        outcome = yield from FediAC.compress(self, corrected, state, stream, kept)
        ages = state.extras.get("age")
        if ages is None:
            ages = xp.zeros(kept.shape[0], dtype=xp.int16, device=device(kept))
        is_new = (kept != before) | (before == 0.0)
        ages = xp.where(is_new, xp.zeros_like(ages), ages + 1)
        kept *= 1.0 - self.share * xp.astype(ages > self.age, kept.dtype)
        return outcome.keeping(age=ages)


@dataclass(frozen=True, slots=True)
class FadingByShare(FediAC):
    """Residuals fade by half of the share of the update's energy that was sent."""

    part: float = 0.5

    def compress(
        self, corrected: Corrected, state: State, stream: Stream, kept: Update | None
    ) -> Round:
        """Run FediAC's round, then fade by what it has sent."""
        kept = _require(kept)
        outcome = yield from FediAC.compress(self, corrected, state, stream, kept)
        facts = outcome.facts
        sent = 1.0 - facts.left_energy / facts.energy if facts.energy else 0.0
        kept *= 1.0 - min(max(self.part * sent, 0.0), 0.5)
        return outcome


@dataclass(frozen=True, slots=True)
class FallingThreshold(FediAC):
    """One vote less is needed after a round that agreed on fewer than 4 k entries.

    All clients have to take part in all rounds: they know it from the last one.
    """

    least: int = 4

    def compress(
        self, corrected: Corrected, state: State, stream: Stream, kept: Update | None
    ) -> Round:
        """Run FediAC's round with the threshold of this round."""
        xp = array_namespace(corrected.values)
        known = state.extras.get("threshold")
        needed = self.votes_needed if known is None else int(known[0])
        inner = replace(self, threshold=needed)
        outcome = yield from FediAC.compress(inner, corrected, state, stream, kept)
        wanted = self.least * self.count_votes(corrected.values.shape[0])
        if outcome.facts.n_chosen < wanted:
            needed = max(1, needed - 1)
        elif outcome.facts.n_chosen > 4 * wanted:
            needed = min(self.votes_needed, needed + 1)
        where = device(corrected.values)
        return outcome.keeping(threshold=xp.asarray([needed], device=where))


@dataclass(frozen=True, slots=True)
class RotatingVotes(FediAC):
    """Half of the votes are for the largest groups of those whose turn it is."""

    n_turns: int = 4

    def vote(self, corrected: Corrected, state: State, stream: Stream) -> Packed:
        """Return votes for the largest groups, and for the largest in turn."""
        dim = corrected.values.shape[0]
        peaks = group_peaks(corrected.values, self.group_length(dim))
        xp = array_namespace(peaks)
        n_groups = count_groups(self.count_votes(dim, state), self.group_length(dim))
        n_turning = max(1, round(n_groups / 2))
        votes = xp.zeros_like(pack_bits(peaks != 0.0))
        if n_groups > n_turning:
            votes = votes | largest(peaks, n_groups - n_turning)
        taken = xp.astype(unpack_bits(votes, peaks.shape[0]), xp.bool)
        in_turn = xp.zeros_like(peaks)
        in_turn[stream.round_number % self.n_turns :: self.n_turns] = 1.0
        rest = xp.where(taken, xp.zeros_like(peaks), peaks * in_turn)
        return (votes | largest(rest, n_turning)) & pack_bits(peaks != 0.0)


@dataclass(frozen=True, slots=True)
class CappedResidual(FediAC):
    """A residual is at most ``ratio`` times as long as the update it is added to."""

    ratio: float = 4.0

    def run_round(
        self, update: Update, state: State, stream: Stream, *, out: Update | None = None
    ) -> Round:
        """Run FediAC's round with what the residual may be."""
        residual = state.residual
        if residual is not None:
            xp = array_namespace(residual)
            longest = self.ratio * math.sqrt(float(xp.sum(update * update)))
            length = math.sqrt(float(xp.sum(residual * residual)))
            if length > longest:
                state = replace(state, residual=residual * (longest / length))
        return (yield from FediAC.run_round(self, update, state, stream, out=out))


@dataclass(frozen=True, slots=True)
class PeakOfChosen(FediAC):
    """Clients offer a clipped peak of what was agreed on, once they know it.

    What is not agreed on is larger than what is, and makes the grid coarse.
    """

    def compress(
        self, corrected: Corrected, state: State, stream: Stream, kept: Update | None
    ) -> Round:
        """Run FediAC's round, with one more exchange before the levels."""
        inner = FediAC.compress(self, corrected, state, stream, kept)
        asked = next(inner)
        while True:
            answers = yield asked
            (answer,) = answers
            if isinstance(answer, Consensus):
                agreed: Peak = yield from ask(Max(self._peak_of(corrected, answer)))
                answers = (replace(answer, peak=min(answer.peak, agreed.peak)),)
            try:
                asked = inner.send(answers)
            except StopIteration as stopped:
                outcome: Outcome = stopped.value
                return outcome

    def _peak_of(self, corrected: Corrected, consensus: Consensus) -> float:
        dim = corrected.values.shape[0]
        gia = spread_groups(consensus.gia, dim, self.group_length(dim))
        chosen = corrected.values[indices_of(gia, dim)]
        mean = energy_of(chosen) / max(chosen.shape[0], 1)
        return float32_above((self.clip or 2.0) * math.sqrt(mean))


def fading_by_age(n_clients: int) -> FediAC:
    """A fifth of what was not sent for ten rounds is forgotten every round."""
    return FadingByAge.lean(n_clients, **THEN)


def fading_by_share(n_clients: int) -> FediAC:
    """Residuals fade by what is sent."""
    return FadingByShare.lean(n_clients, **THEN)


def falling_threshold(n_clients: int) -> FediAC:
    """The threshold falls when consensus does."""
    return FallingThreshold.lean(n_clients, **THEN)


def rotating_4(n_clients: int) -> FediAC:
    """Votes rotate over quarters of the groups."""
    return RotatingVotes.lean(n_clients, **THEN, n_turns=4)


def rotating_16(n_clients: int) -> FediAC:
    """Votes rotate over sixteenths of the groups."""
    return RotatingVotes.lean(n_clients, **THEN, n_turns=16)


def capped_residual(n_clients: int) -> FediAC:
    """Residuals are at most four times as long as updates."""
    return CappedResidual.lean(n_clients)


def peak_of_chosen(n_clients: int) -> FediAC:
    """The grid fits what was agreed on."""
    return PeakOfChosen.lean(n_clients)
