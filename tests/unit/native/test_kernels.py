import numpy as np
import pytest
import torch

from fediac.core.corrected import correct
from tests.support import KINDS, stream
from tests.unit.native.equality import (
    DIMS,
    LONG_DIMS,
    VECTORS,
    check_agree,
    check_correct,
    check_count_bits,
    check_count_nonfinite,
    check_groups,
    check_lanes,
    check_largest,
    check_patterns,
    check_send,
    check_votes,
    packed_mask,
)

SHARES_OF_VOTES = (0.0, 0.05, 1.0)


def n_votes_of(dim: int) -> list[int]:
    return sorted({max(1, int(share * dim)) for share in SHARES_OF_VOTES})


@pytest.mark.usefixtures("isa")
@pytest.mark.parametrize(
    ("vector", "dim"),
    [("mixed", dim) for dim in DIMS] + [(vector, 4099) for vector in VECTORS],
)
def test_every_kernel_equals_core(vector: str, dim: int) -> None:
    values = VECTORS[vector](dim)
    residual = (VECTORS["normal"](dim + 1)[:dim] * np.float32(1e-3)).copy()
    source = stream("votes", seed=dim)
    check_correct(values, None)
    check_correct(values, residual)
    check_count_nonfinite(values, residual)
    check_patterns(values)
    mass = correct(values, None).mass
    for n_votes in n_votes_of(dim):
        check_votes(values, mass, n_votes, source)
        check_largest(values, n_votes)
    for bits, share in ((3, 0.5), (10, 0.05), (17, 1.0), (32, 0.9)):
        check_send(values, packed_mask(dim, share), bits, source)
    check_send(values, None, 12, source)
    for length in (8, 64, 4096):
        check_groups(values, length)


@pytest.mark.parametrize("dim", LONG_DIMS)
@pytest.mark.usefixtures("isa")
def test_long_updates_equal_core(dim: int) -> None:
    values = VECTORS["power law"](dim)
    source = stream("votes")
    check_correct(values, VECTORS["normal"](dim))
    check_votes(values, correct(values, None).mass, dim // 20, source)
    check_largest(values, dim // 20)
    check_groups(values, 16)
    check_send(values, packed_mask(dim, 0.05), 10, source)
    check_send(values, packed_mask(dim, 0.5), 10, source, clip=0.25)
    check_send(values, None, 8, source, clip=0.25)


@pytest.mark.usefixtures("n_threads")
@pytest.mark.parametrize(
    ("kind", "dim"), [("numpy", 1), ("torch", 4097), ("numpy", 40_000)]
)
def test_no_number_of_threads_changes_a_result(kind: str, dim: int) -> None:
    values = KINDS[kind](VECTORS["power law"](dim))
    residual = KINDS[kind](VECTORS["normal"](dim))
    source = stream("votes")
    check_correct(values, residual)
    check_patterns(values)
    check_votes(values, correct(values, None).mass, max(1, dim // 20), source)
    check_largest(values, max(1, dim // 20))
    gia = KINDS[kind](packed_mask(dim, 0.3))
    check_send(values, gia, 10, source)
    check_send(values, None, 9, source)
    check_agree([gia, KINDS[kind](packed_mask(dim, 0.5, seed=1)), gia], 2)


@pytest.mark.usefixtures("n_threads")
@pytest.mark.parametrize("value", [0.0, 0.5])
def test_ties_go_to_the_lowest_entries_for_any_number_of_threads(value: float) -> None:
    values = np.full(20_000, value, np.float32)
    values[::3] *= -1.0
    for n_largest in (1, 4096, 4097, 12_345, 20_000):
        check_largest(values, n_largest)


@pytest.mark.usefixtures("n_threads")
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_entries_that_are_not_finite_are_counted(bad: float) -> None:
    values = VECTORS["normal"](20_000)
    for places in ([0], [19_999], [4095, 4096, 12_288], range(0, 20_000, 7)):
        broken = values.copy()
        broken[list(places)] = bad
        check_count_nonfinite(broken, None)
        check_count_nonfinite(values, broken)
        assert correct(broken, None).n_nonfinite == len(places)


def test_a_sum_that_overflows_counts_as_not_finite() -> None:
    values = np.full(5000, 3e38, np.float32)
    with np.errstate(over="ignore"):
        check_count_nonfinite(values, values)
    assert correct(values, values).n_nonfinite == 5000


@pytest.mark.usefixtures("isa")
@pytest.mark.parametrize("n_votes", [1, 2, 3, 50, 4096, 558_698, 11_173_962, 1 << 33])
@pytest.mark.parametrize("mass", [1.0, 3e-7])
def test_no_bound_overrules_the_power(n_votes: int, mass: float) -> None:
    """Entries at the very edge of a bound or of the probability are decided alike."""
    dim = 4097
    source = stream("votes", seed=n_votes)
    units = source.words(0, dim, like=np.zeros(1)) / 2.0**32
    shares = {
        "probability": -np.expm1(np.log1p(-units) / n_votes),
        "necessary": units / n_votes,
        "sufficient": units / (1.0 - units) / n_votes,
    }
    for share in shares.values():
        edges = (np.minimum(share, 1.0) * mass).astype(np.float32)
        for step in (-2, -1, 0, 1):
            near = edges.view(np.int32) + np.int32(step)
            values = np.maximum(near, 0).astype(np.int32).view(np.float32)
            check_votes(values, mass, n_votes, source)


@pytest.mark.usefixtures("isa")
@pytest.mark.parametrize(
    "mass", [5e-324, 1e-300, 1e-45, 1e-38, 1e-20, 0.3, 1e20, 1e38, 1e46, 1e300, np.inf]
)
def test_votes_are_those_of_core_for_any_mass(mass: float) -> None:
    for vector in ("normal", "mixed", "denormal", "huge"):
        values = VECTORS[vector](1001)
        for n_votes in (1, 2, 77, 1001):
            check_votes(values, mass, n_votes, stream("votes"))


@pytest.mark.usefixtures("isa")
@pytest.mark.parametrize("n_votes", [2, 558_698, 1 << 33])
def test_a_probability_is_compared_as_float64_rounds_it(n_votes: int) -> None:
    """Tiny p are where 1 − p loses most, and tiny words are where it shows.

    The bounds alone would decide p = u / k by chance. The 100 smallest of many words
    meet probabilities around their own, some of which round to zero.
    """
    source = stream("votes")
    words = source.words(0, 1 << 16, like=np.zeros(1))
    smallest = np.argsort(words)[:100]
    values = np.zeros(words.size, np.float32)
    for factor in (1e-12, 0.99, 0.999, 1.0, 1.001, 1.01):
        values[smallest] = factor * words[smallest] / 2.0**32 / n_votes
        check_votes(values, 1.0, n_votes, source)


@pytest.mark.usefixtures("isa")
@pytest.mark.parametrize("n_clients", [1, 2, 3, 5, 20, 33])
def test_agreement_is_that_of_core_for_every_threshold(n_clients: int) -> None:
    dim = 8 * 520 + 3
    votes = [packed_mask(dim, 0.5, seed=client) for client in range(n_clients)]
    for threshold in range(1, n_clients + 2):
        check_agree(votes, threshold)


@pytest.mark.usefixtures("isa")
@pytest.mark.parametrize("n_bytes", [0, 1, 7, 8, 9, 511, 512, 513, 70_000])
def test_bits_are_counted(n_bytes: int) -> None:
    packed = np.random.default_rng(1).integers(0, 256, n_bytes).astype(np.uint8)
    check_count_bits(packed)
    check_count_bits(np.full(n_bytes, 255, np.uint8))


@pytest.mark.usefixtures("isa")
@pytest.mark.parametrize("bits", range(1, 33))
def test_lanes_survive_packing(bits: int) -> None:
    rng = np.random.default_rng(bits)
    for n_lanes in (0, 1, 7, 9, 128, 137, 1025):
        lanes = rng.integers(0, 1 << bits, n_lanes)
        lanes[::3] = (1 << bits) - 1
        check_lanes(lanes, bits)
        if bits < 32:
            check_lanes(lanes.astype(np.int32), bits)


@pytest.mark.parametrize("share", [0.0, 0.0005, 0.02, 0.5, 0.999, 1.0])
@pytest.mark.usefixtures("isa", "_short_shares")
def test_sparse_and_dense_choices_are_sent_alike(share: float) -> None:
    values = VECTORS["normal"](30_001)
    check_send(values, packed_mask(values.size, share), 11, stream())


def test_unused_bits_of_the_gia_choose_nothing() -> None:
    values = VECTORS["normal"](13)
    check_send(values, np.full(2, 255, np.uint8), 8, stream())


def test_a_value_above_the_peak_is_clamped() -> None:
    values = np.array([1e9, -1e9, 0.5, -0.0], np.float32)
    check_send(np.minimum(values, 7.0), None, 6, stream())


def test_an_empty_update_is_legal() -> None:
    empty = np.zeros(0, np.float32)
    check_correct(empty, None)
    check_send(empty, None, 8, stream())
    check_send(empty, np.zeros(0, np.uint8), 8, stream())


def test_tensors_that_need_gradients_are_read() -> None:
    update = torch.ones(9, requires_grad=True)
    assert correct(update, None).mass == 9.0
