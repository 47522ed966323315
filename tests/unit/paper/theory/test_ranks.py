import numpy as np
import pytest
import torch

from fediac.paper.theory.ranks import (
    RankGrid,
    sort_by_rank,
    sums_between,
)

DIMS = (1, 2, 7, 150, 5_000)


@pytest.mark.parametrize("dim", DIMS)
def test_bins_and_steps_cover_every_rank_once(dim: int) -> None:
    grid = RankGrid.of(dim)
    for edges in (grid.edges, grid.steps):
        assert edges[0] == 1
        assert edges[-1] == dim + 1
        assert (np.diff(edges) > 0).all()
    assert set(grid.edges) <= set(grid.steps)
    assert grid.lengths.sum() == dim


def test_the_first_ranks_have_a_step_each() -> None:
    assert RankGrid.of(5_000).steps[:200].tolist() == list(range(1, 201))


def test_bins_grow_evenly_on_the_log_scale() -> None:
    edges = RankGrid.of(1_000_000).edges
    late = edges[edges > 100]
    # Rounding to whole ranks moves an edge above 100 by at most half a percent.
    assert late[1:-1] / late[:-2] == pytest.approx(10 ** (1 / 8), rel=0.011)


def test_no_ranks_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^dim must be at least 1, got 0$"):
        RankGrid.of(0)


@pytest.mark.parametrize("dim", DIMS)
def test_bin_means_are_means_over_ranks(dim: int) -> None:
    grid = RankGrid.of(dim)
    ranks = np.arange(1.0, dim + 1.0)
    direct = [
        ranks[first - 1 : last - 1].mean()
        for first, last in zip(grid.edges[:-1], grid.edges[1:], strict=True)
    ]
    # The mean rank of a step is its middle, so both ways are exact but for rounding.
    assert grid.bin_means(grid.middles) == pytest.approx(direct, rel=1e-12)
    assert grid.bin_means_of(ranks) == pytest.approx(direct, rel=1e-12)


def test_sums_between_edges_are_those_of_slices() -> None:
    values = np.random.default_rng(1).normal(size=50)
    edges = np.array([1, 2, 10, 11, 51])
    direct = [values[0:1].sum(), values[1:9].sum(), values[9:10].sum()]
    direct.append(values[10:50].sum())
    assert sums_between(values, edges) == pytest.approx(direct, abs=1e-12)
    tensor = torch.from_numpy(values)
    assert sums_between(tensor, edges) == pytest.approx(direct, abs=1e-12)


def test_sums_of_a_mask_are_counts() -> None:
    mask = torch.tensor([True, False, True, True, False])
    assert sums_between(mask, np.array([1, 3, 6])).tolist() == [1.0, 2.0]


def test_entries_are_sorted_by_magnitude_and_equal_ones_by_number() -> None:
    values = np.array([0.5, -2.0, 0.0, 2.0, -0.5], dtype=np.float32)
    assert sort_by_rank(values).tolist() == [1, 3, 0, 4, 2]
    assert sort_by_rank(torch.from_numpy(values)).tolist() == [1, 3, 0, 4, 2]
