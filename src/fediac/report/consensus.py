"""What to tell whose clients agree on nothing, or ever less, or on too little anyway.

A compression error near or above 1 says little about it: what is not sent is kept, and
runs with few votes get to their target all the same. Entries agreed on tell.
"""

from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean

from fediac.compressors import CATALOG
from fediac.compressors.forecast import doubts_of
from fediac.names import is_own
from fediac.number_words import join, percent, whole
from fediac.runs.records import Round
from fediac.runs.stored import Run

N_EMPTY = 3
"""Rounds running without any agreed entry that are worth a word."""

N_MEAN = 3
"""Rounds over which entries are averaged before they are compared."""

SMALL = 0.1
"""Share of what it was below which consensus dies. Of 410 stored runs the only one
below it never got to its target; the next had 0.21 and did."""


def consensus_notes(run: Run) -> list[str]:
    """Return what a reader must know of the entries that clients agreed on."""
    return died_out(run) or _doubts(run)


def died_out(run: Run) -> list[str]:
    """Return what happened to consensus, which nobody knew in advance."""
    voted = [each for each in run.rounds if _has_votes(each)]
    found = _nothing(voted) or _ever_less(voted)
    return [f"{found}; {_advice(run)}."] if found else []


def _doubts(run: Run) -> list[str]:
    """Return what speaks against the algorithm's settings, as it says itself."""
    if run.summary is None or is_own(run.algorithm):
        return []
    settings = asdict(run.settings.of(run.algorithm))
    algorithm = CATALOG[run.algorithm](run.rounds[-1].clients, **settings)
    return [f"{each}." for each in doubts_of(algorithm, run.summary.dim)]


def _has_votes(each: Round) -> bool:
    return bool(each.votes)


def _nothing(rounds: Sequence[Round]) -> str | None:
    """Say in which rounds running clients agreed on nothing, for the longest while."""
    streaks: list[list[Round]] = [[]]
    for each in rounds:
        if each.chosen:
            streaks.append([])
        else:
            streaks[-1].append(each)
    longest = max(streaks, key=len)
    if len(longest) < N_EMPTY:
        return None
    return (
        f"clients agreed on nothing in {_name(longest)} ({len(longest)} running), so "
        "the model stood still"
    )


def _ever_less(rounds: Sequence[Round]) -> str | None:
    """Say how few entries clients agree on in the end, beside the most there were."""
    parts = [rounds[i : i + N_MEAN] for i in range(len(rounds) - N_MEAN + 1)]
    if len(parts) <= N_MEAN:
        return None
    most, last = max(parts, key=_mean), parts[-1]
    if _mean(last) >= SMALL * _mean(most):
        return None
    return (
        f"clients agree on ever fewer entries: {whole(_mean(last))} a round in "
        f"{_name(last)}, {percent(_mean(last) / _mean(most))} of the "
        f"{whole(_mean(most))} in {_name(most)}"
    )


def _mean(rounds: Sequence[Round]) -> float:
    return fmean(each.chosen for each in rounds)


def _name(rounds: Sequence[Round]) -> str:
    return f"rounds {rounds[0].number} to {rounds[-1].number}"


def _advice(run: Run) -> str:
    """Say what helps clients to agree, as far as the settings leave it open."""
    if is_own(run.algorithm):
        return "more votes or a lower threshold may help"
    own = run.settings.of("fediac")
    helps = ["more votes (fediac.n_votes)"]
    if own.threshold != 1 and run.settings.tuning != "server":
        helps.append("a lower threshold (fediac.threshold)")
    if own.law != "topk":
        helps.append('votes for the largest entries (fediac.law = "topk")')
    return f"{join(helps, 'or')} may help"
