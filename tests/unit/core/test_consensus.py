import numpy as np
import pytest
from numpy.typing import NDArray

from fediac.core.bitpack import pack_bits, unpack_bits
from fediac.core.consensus import agree, tally_votes
from tests.support import Make, bytes_of, kind_of, refuses, to_numpy

pytestmark = pytest.mark.usefixtures("both_paths")


def random_votes(n_clients: int, dim: int) -> NDArray[np.bool_]:
    votes: NDArray[np.bool_] = np.random.default_rng(dim).random((n_clients, dim)) < 0.4
    return votes


@pytest.mark.parametrize("n_clients", [1, 2, 20])
@pytest.mark.parametrize("dim", [1, 8, 101])
def test_gia_holds_the_entries_with_enough_votes(
    make: Make, n_clients: int, dim: int
) -> None:
    votes = random_votes(n_clients, dim)
    packed = [pack_bits(make(each)) for each in votes]
    before = [bytes_of(each) for each in packed]
    tally = tally_votes(packed, dim)
    assert to_numpy(tally).dtype == np.int32
    assert np.array_equal(to_numpy(tally), votes.sum(axis=0))
    for threshold in {1, 2, n_clients, n_clients + 1}:
        gia = agree(packed, threshold)
        assert kind_of(gia) == kind_of(packed[0])
        assert to_numpy(gia).dtype == np.uint8
        expected = votes.sum(axis=0) >= threshold
        assert np.array_equal(to_numpy(gia), np.packbits(expected, bitorder="little"))
    assert [bytes_of(each) for each in packed] == before


def test_papers_example_agrees_on_two_entries(make: Make) -> None:
    ballots = np.array([[1, 1, 1, 0, 0], [0, 1, 1, 1, 0]], dtype=bool)
    packed = [pack_bits(make(each)) for each in ballots]
    assert to_numpy(tally_votes(packed, 5)).tolist() == [1, 2, 2, 1, 0]
    gia = to_numpy(unpack_bits(agree(packed, 2), 5))
    assert gia.astype(int).tolist() == [0, 1, 1, 0, 0]


@pytest.mark.usefixtures("short_chunks")
def test_gia_does_not_depend_on_chunks(make: Make) -> None:
    votes = random_votes(3, 8 * (2 * 4096 + 9) + 3)
    gia = agree([pack_bits(make(each)) for each in votes], 2)
    expected = np.packbits(votes.sum(axis=0) >= 2, bitorder="little")
    assert np.array_equal(to_numpy(gia), expected)


def test_a_thousand_clients_are_counted(make: Make) -> None:
    most, last = make(np.array([0b111, 0b101], dtype=np.uint8)).reshape(2, 1)
    assert to_numpy(agree([most] * 1023 + [last], 1024)).tolist() == [0b101]


def test_threshold_below_one_is_refused() -> None:
    with refuses("threshold must be at least 1, got 0"):
        agree([np.zeros(3, dtype=np.uint8)], 0)
