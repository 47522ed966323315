from itertools import product
from math import prod

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats

from fediac.core.bounds import Setting
from fediac.core.corrected import Corrected, correct
from fediac.core.powerlaw import PowerLaw
from fediac.core.quantize import Grid
from fediac.paper.theory.predict import (
    ClientRanks,
    chance_of_consensus,
    predict_by_entry,
    predict_by_law,
    predict_with_equal_ranks,
    votes_by_law,
    voting_chance,
)
from fediac.paper.theory.ranks import RankGrid

Floats = NDArray[np.float64]


def enumerate_consensus(chances: list[float], threshold: int) -> float:
    """Add up the chances of all outcomes with enough votes."""
    return sum(
        prod(q if vote else 1.0 - q for q, vote in zip(chances, votes, strict=True))
        for votes in product((0, 1), repeat=len(chances))
        if sum(votes) >= threshold
    )


@pytest.mark.parametrize("threshold", [1, 2, 3, 4, 5])
def test_consensus_is_the_sum_over_all_outcomes(threshold: int) -> None:
    columns = [[0.2, 0.0], [0.5, 1.0], [0.9, 1.0], [0.01, 0.3]]
    chances = chance_of_consensus(map(np.array, columns), threshold=threshold)
    direct = [enumerate_consensus([c[i] for c in columns], threshold) for i in (0, 1)]
    assert np.broadcast_to(chances, 2) == pytest.approx(direct, abs=1e-15)


def test_consensus_of_equal_clients_is_binomial() -> None:
    chances = np.array([1e-6, 0.03, 0.5, 0.999])
    found = chance_of_consensus([chances] * 20, threshold=3)
    # Relative, so that the smallest chance, about 1e-15, counts as well.
    assert found == pytest.approx(stats.binom.sf(2, 20, chances), rel=1e-9)


def test_consensus_is_the_same_on_tensors() -> None:
    columns = np.random.default_rng(1).random((6, 40))
    found = chance_of_consensus(map(torch.from_numpy, columns), threshold=2)
    assert isinstance(found, torch.Tensor)
    assert found.numpy() == pytest.approx(chance_of_consensus(columns, threshold=2))


def test_voting_chance_is_that_of_k_draws() -> None:
    magnitudes = np.array([0.0, 1.0, 3.0, 6.0])
    found = voting_chance(magnitudes, 10.0, 3)
    assert found == pytest.approx(1.0 - (1.0 - magnitudes / 10.0) ** 3)


def test_an_entry_with_all_the_mass_is_voted_for() -> None:
    # As means over steps may be: above the mass by a rounding error.
    assert voting_chance(np.array([1.0 + 1e-15]), 1.0, 5).tolist() == [1.0]


def make_updates(dim: int, n_clients: int) -> list[Floats]:
    rng = np.random.default_rng(3)
    return [rng.normal(size=dim) * rng.random(dim) ** 3 for _ in range(n_clients)]


def by_step(client: Corrected, ranks: RankGrid) -> ClientRanks:
    ranked = np.sort(np.abs(client.values))[::-1]
    lengths, starts = ranks.lengths, ranks.steps[:-1] - 1
    return ClientRanks(
        mass=client.mass,
        magnitudes=np.add.reduceat(ranked, starts) / lengths,
        squares=np.add.reduceat(ranked**2, starts) / lengths,
    )


def test_own_is_the_sum_over_entries_and_outcomes() -> None:
    dim, n_clients, n_votes, threshold = 9, 4, 3, 2
    updates = make_updates(dim, n_clients)
    setting = Setting(dim, n_clients, n_votes, threshold, -0.5)
    grid = Grid.of(peak=2.0, bits=8, n_clients=n_clients)
    chances = []
    for entry in range(dim):
        votes = [1 - (1 - abs(u[entry]) / abs(u).sum()) ** n_votes for u in updates]
        chances.append(enumerate_consensus(votes, threshold))
    energies = np.sum([u**2 for u in updates], axis=0)
    rounding = n_clients * sum(chances) / (4 * grid.scale**2)
    lost = (energies * (1 - np.array(chances))).sum() + rounding

    for kind in (np.asarray, torch.from_numpy):
        clients = [correct(kind(update), None) for update in updates]
        found = predict_by_entry(clients, setting, grid)
        assert np.asarray(found.chances) == pytest.approx(chances, rel=1e-12)
        assert found.chosen == pytest.approx(sum(chances), rel=1e-12)
        assert found.gamma == pytest.approx(lost / energies.sum(), rel=1e-12)


def test_own_does_not_depend_on_where_chunks_end() -> None:
    # A chunk on a CPU has 131,072 entries.
    dim = 131_072 + 100
    updates = make_updates(dim, 3)
    setting = Setting(dim, 3, dim // 20, 2, -0.5)
    grid = Grid.of(peak=4.0, bits=10, n_clients=3)
    whole = predict_by_entry([correct(each, None) for each in updates], setting, grid)
    shares = [abs(each) / abs(each).sum() for each in updates]
    votes = [-np.expm1(dim // 20 * np.log1p(-each)) for each in shares]
    direct = chance_of_consensus(votes, threshold=2)
    np.testing.assert_allclose(whole.chances, direct, rtol=1e-9)
    assert whole.chosen == pytest.approx(direct.sum(), rel=1e-9)


def test_alike_is_own_where_clients_do_rank_alike() -> None:
    dim, n_clients = 120, 5  # every rank has a step of its own
    rng = np.random.default_rng(4)
    places = rng.permutation(dim)
    updates = [np.sort(abs(each))[places] for each in make_updates(dim, n_clients)]
    clients = [correct(each, None) for each in updates]
    setting = Setting(dim, n_clients, 30, 2, -0.5)
    grid = Grid.of(peak=3.0, bits=9, n_clients=n_clients)
    ranks = RankGrid.of(dim)
    alike = predict_with_equal_ranks(
        [by_step(c, ranks) for c in clients], ranks, setting, grid
    )
    own = predict_by_entry(clients, setting, grid)
    assert alike.chosen == pytest.approx(own.chosen, rel=1e-12)
    assert alike.gamma == pytest.approx(own.gamma, rel=1e-12)


def test_own_falls_short_of_alike_where_clients_rank_differently() -> None:
    dim, n_clients = 120, 5
    magnitudes = np.arange(1.0, dim + 1.0) ** -1.5
    rng = np.random.default_rng(5)
    clients = [correct(rng.permutation(magnitudes), None) for _ in range(n_clients)]
    setting = Setting(dim, n_clients, 20, 3, -1.5)
    grid = Grid.of(peak=1.0, bits=16, n_clients=n_clients)
    ranks = RankGrid.of(dim)
    alike = predict_with_equal_ranks(
        [by_step(c, ranks) for c in clients], ranks, setting, grid
    )
    own = predict_by_entry(clients, setting, grid)
    # Alike, the three largest entries hold most of the energy and all get their votes.
    assert alike.gamma < 0.2 < 0.8 < own.gamma


@pytest.mark.parametrize("dim", [150, 20_000])
def test_alike_is_the_law_where_magnitudes_follow_it(dim: int) -> None:
    alpha, phi, n_clients, bits = -0.6, 0.3, 8, 10
    setting = Setting(dim, n_clients, dim // 20, 3, alpha)
    update = phi * np.arange(1.0, dim + 1.0) ** alpha
    client = correct(update, None)
    ranks = RankGrid.of(dim)
    alike = predict_with_equal_ranks(
        [by_step(client, ranks)] * n_clients,
        ranks,
        setting,
        Grid.of(peak=phi, bits=bits, n_clients=n_clients),
    )
    law = predict_by_law(
        PowerLaw(alpha=alpha, phi=phi, peak=phi), setting, ranks, peak=phi, bits=bits
    )
    # A step is h = 0.45 % of its rank wide. Taking its mean instead of all its ranks is
    # off by h²/24 of the second derivative by log l, here at most (threshold·alpha)²
    # and a half more, of each term: 3e-6.
    assert alike.chosen == pytest.approx(law.chosen, rel=5e-6)
    assert alike.gamma == pytest.approx(law.gamma, rel=5e-6)
    assert alike.chances == pytest.approx(law.chances, rel=5e-5)
    votes = by_step(client, ranks).voting_chances(dim // 20)
    assert votes == pytest.approx(votes_by_law(setting, ranks), rel=5e-5)
