"""Theory against measurement in one round: who voted for what, and what was predicted.

Memory is bounded by one more copy of the updates and a sort of one client's; nothing
but sums over ranks leaves the device that the updates are on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from fediac.compressors import FediAC
from fediac.core.bitpack import unpack_bits
from fediac.core.bounds import Setting
from fediac.core.consensus import agree
from fediac.core.corrected import Corrected, correct
from fediac.core.powerlaw import PowerLaw, fit_power_law
from fediac.core.quantize import Grid
from fediac.core.rng import Stream
from fediac.core.tuning import median_law
from fediac.core.types import Array, Packed
from fediac.core.voting import draw_votes
from fediac.errors import RunError
from fediac.paper.theory.predict import (
    ClientRanks,
    Prediction,
    predict_by_entry,
    predict_by_law,
    predict_with_equal_ranks,
    votes_by_law,
)
from fediac.paper.theory.ranks import (
    Floats,
    RankGrid,
    sort_by_rank,
    sums_between,
)
from fediac.paper.theory.stored import Compared, RankBin, RoundCheck
from fediac.training.federation import FederatedRound, Progress


@dataclass(frozen=True, slots=True)
class _Round:
    """What one round's check is made of.

    Attributes:
        clients: The corrected updates of who took part.
        votes: What each of them voted for.
        gia: What they agreed on.
        grid: What chosen entries were rounded to.
    """

    clients: list[Corrected]
    votes: list[Packed]
    gia: Packed
    grid: Grid
    setting: Setting
    ranks: RankGrid


def check_round(
    before: Progress, done: FederatedRound, compressor: FediAC, *, seed: int
) -> RoundCheck:
    """Return theory and measurement of a round.

    Args:
        before: What the round began with; its residuals are needed.
        done: The round.
        compressor: What it was run with.
        seed: The run's seed; with it the votes are repeated.
    """
    facts = done.result.facts
    clients = _correct(before, done, keeps_residual=compressor.residual)
    fits = _fit(clients, done)
    law = median_law(fits)
    dim, n = clients[0].values.shape[0], compressor.n_clients
    votes = _repeat_votes(clients, compressor, done, seed=seed)
    seen = _Round(
        clients=clients,
        votes=votes,
        gia=agree(votes, compressor.votes_needed),
        grid=Grid.of(peak=facts.peak, bits=facts.bits, n_clients=n),
        setting=Setting(
            dim, n, compressor.count_votes(dim), compressor.votes_needed, law.alpha
        ),
        ranks=RankGrid.of(dim),
    )
    by_law = predict_by_law(
        law, seen.setting, seen.ranks, peak=facts.peak, bits=facts.bits
    )
    own = predict_by_entry(clients, seen.setting, seen.grid)
    ranked = _rank_clients(seen, own)
    alike = predict_with_equal_ranks(
        [each.by_step for each in ranked], seen.ranks, seen.setting, seen.grid
    )
    return RoundCheck(
        round_number=done.progress.round_number,
        n_clients=len(clients),
        bits=facts.bits,
        peak=facts.peak,
        accuracy=done.evaluation.accuracy,
        fits=tuple(fits),
        law=law,
        chosen=Compared(by_law.chosen, alike.chosen, own.chosen, facts.chosen),
        gamma=Compared(by_law.gamma, alike.gamma, own.gamma, facts.gamma),
        bins=_make_bins(seen, ranked, law, by_law.chances, alike.chances),
    )


def _correct(
    before: Progress, done: FederatedRound, *, keeps_residual: bool
) -> list[Corrected]:
    return [
        correct(
            trained.update, before.states[client].residual if keeps_residual else None
        )
        for client, trained in zip(done.clients, done.trained, strict=True)
    ]


def _fit(clients: Sequence[Corrected], done: FederatedRound) -> list[PowerLaw]:
    fits = []
    for client, each in zip(done.clients, clients, strict=True):
        try:
            fits.append(fit_power_law(each.values, peak=each.peak))
        except ValueError as error:
            raise RunError(
                f"client {client}, round {done.progress.round_number}: "
                f"no power law fits its update ({error})"
            ) from error
    return fits


def _repeat_votes(
    clients: Sequence[Corrected], compressor: FediAC, done: FederatedRound, *, seed: int
) -> list[Packed]:
    """Return the round's votes once more: a stream's numbers depend on its key only."""
    number = done.progress.round_number
    return [
        draw_votes(
            each,
            compressor.count_votes(each.values.shape[0]),
            Stream(seed, number, client).purpose("votes"),
            law=compressor.law,
        )
        for client, each in zip(done.clients, clients, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _Ranked:
    """One client's entries by its own ranks; shares are means over bins.

    Attributes:
        voted: Share of entries that the client voted for.
        chosen: Share of entries that all agreed on.
        predicted: Mean chance of that, from every entry's real magnitudes.
    """

    by_step: ClientRanks
    voted: Floats
    chosen: Floats
    predicted: Floats


def _rank_clients(seen: _Round, own: Prediction) -> list[_Ranked]:
    dim = seen.setting.dim
    is_chosen = unpack_bits(seen.gia, dim)
    return [
        _rank(client, unpack_bits(votes, dim), is_chosen, own.chances, seen.ranks)
        for client, votes in zip(seen.clients, seen.votes, strict=True)
    ]


def _rank(
    client: Corrected,
    is_voted: Array,
    is_chosen: Array,
    chances: Array,
    ranks: RankGrid,
) -> _Ranked:
    xp = array_namespace(client.values)
    order = sort_by_rank(client.values)
    magnitudes = xp.astype(xp.abs(client.values[order]), xp.float64)
    by_step = ClientRanks(
        mass=client.mass,
        magnitudes=sums_between(magnitudes, ranks.steps) / ranks.lengths,
        squares=sums_between(magnitudes * magnitudes, ranks.steps) / ranks.lengths,
    )
    return _Ranked(
        by_step,
        voted=ranks.bin_means_of(is_voted[order]),
        chosen=ranks.bin_means_of(is_chosen[order]),
        predicted=ranks.bin_means_of(chances[order]),
    )


def _make_bins(
    seen: _Round,
    ranked: Sequence[_Ranked],
    law: PowerLaw,
    chances_by_law: Floats,
    chances_alike: Floats,
) -> tuple[RankBin, ...]:
    ranks, setting = seen.ranks, seen.setting
    magnitudes = [ranks.bin_means(each.by_step.magnitudes) for each in ranked]
    votes = [each.by_step.voting_chances(setting.n_votes) for each in ranked]
    columns = {
        "first": ranks.edges[:-1],
        "last": ranks.edges[1:] - 1,
        "magnitude": np.mean(magnitudes, axis=0),
        "lowest": np.min(magnitudes, axis=0),
        "highest": np.max(magnitudes, axis=0),
        "fitted": ranks.bin_means(law.phi * ranks.middles**law.alpha),
        "voted_law": ranks.bin_means(votes_by_law(setting, ranks)),
        "voted_actual": ranks.bin_means(np.mean(votes, axis=0)),
        "voted": np.mean([each.voted for each in ranked], axis=0),
    }
    chosen = {
        "law": ranks.bin_means(chances_by_law),
        "alike": ranks.bin_means(chances_alike),
        "own": np.mean([each.predicted for each in ranked], axis=0),
        "measured": np.mean([each.chosen for each in ranked], axis=0),
    }
    return tuple(
        RankBin(**row, chosen=Compared(**shares))
        for row, shares in zip(_rows(columns), _rows(chosen), strict=True)
    )


def _rows(columns: Mapping[str, NDArray[Any]]) -> list[dict[str, Any]]:
    """Return columns of equal length as rows of plain numbers."""
    values = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in values]
