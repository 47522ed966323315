from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fediac.core.bitpack import count_bits, unpack_bits
from fediac.core.corrected import correct
from fediac.core.groups import (
    RANKS,
    RankBy,
    check_length,
    count_groups,
    draw_group_votes,
    group_peaks,
    group_rms,
    spread_groups,
)
from fediac.core.voting import LAWS, Law, draw_votes
from tests.support import (
    Make,
    bytes_of,
    kind_of,
    normal_update,
    refuses,
    stream,
    to_numpy,
)

pytestmark = pytest.mark.usefixtures("both_paths")

LENGTHS = (8, 16, 64, 4096)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dim", [1, 7, 8, 9, 65, 4097])
def test_a_group_is_as_large_as_its_largest_entry(
    make: Make, dtype: type[Any], dim: int, length: int
) -> None:
    values = normal_update(dim, dtype)
    found = group_peaks(make(values), length)
    starts = range(0, dim, length)
    expected = [np.abs(values[start : start + length]).max() for start in starts]
    assert kind_of(found) == kind_of(make(values))
    assert to_numpy(found).tolist() == expected
    assert count_groups(dim, length) == len(expected)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dim", [1, 7, 8, 9, 65, 4097])
def test_a_group_has_the_root_mean_square_of_its_entries(
    make: Make, dtype: type[Any], dim: int, length: int
) -> None:
    values = normal_update(dim, dtype)
    found = group_rms(make(values), length)
    padded = np.zeros(-(-dim // length) * length)
    padded[:dim] = values
    expected = np.sqrt((padded.reshape(-1, length) ** 2).mean(axis=1))
    assert kind_of(found) == kind_of(make(values))
    np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-6)


def test_the_root_mean_square_of_equal_entries_is_theirs(
    make: Make, dtype: type[Any]
) -> None:
    values = np.array([-(2.0**100)] * 8 + [2.0**-149] * 8 + [0.0] * 8, dtype=dtype)
    assert to_numpy(group_rms(make(values), 8)).tolist() == [2.0**100, 2.0**-149, 0.0]


@pytest.mark.usefixtures("short_chunks")
@pytest.mark.parametrize("magnitudes", [group_peaks, group_rms])
def test_groups_do_not_depend_on_chunks(
    make: Make, monkeypatch: pytest.MonkeyPatch, magnitudes: Callable[[Any, int], Any]
) -> None:
    values = make(normal_update(3 * 4096 + 77))
    in_chunks = bytes_of(magnitudes(values, 64))
    monkeypatch.setattr("fediac.core.chunks.HOST_CHUNK", 1 << 17)
    assert in_chunks == bytes_of(magnitudes(values, 64))


def test_the_groups_of_the_largest_entries_are_voted_for(make: Make) -> None:
    values = np.zeros(100, dtype=np.float32)
    values[[3, 4, 21, 98]] = [1.0, 9.0, -5.0, 7.0]
    corrected = correct(make(values), None)
    # 24 entries are three groups of eight.
    votes = draw_group_votes(corrected, 24, stream(), law="topk", length=8)
    assert np.flatnonzero(to_numpy(unpack_bits(votes, 13))).tolist() == [0, 2, 12]
    # 9 entries are not less than two groups.
    votes = draw_group_votes(corrected, 9, stream(), law="topk", length=8)
    assert np.flatnonzero(to_numpy(unpack_bits(votes, 13))).tolist() == [0, 12]


def test_one_large_entry_is_worth_less_than_many_by_root_mean_square(
    make: Make,
) -> None:
    values = np.zeros(16, dtype=np.float32)
    values[0], values[8:] = 5.0, 2.0
    corrected = correct(make(values), None)
    expected: dict[RankBy, list[int]] = {"peak": [1, 0], "rms": [0, 1]}
    for rank_by, voted in expected.items():
        votes = draw_group_votes(
            corrected, 8, stream(), law="topk", length=8, rank_by=rank_by
        )
        assert to_numpy(unpack_bits(votes, 2)).tolist() == voted


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("rank_by", RANKS)
def test_groups_vote_by_the_same_law_as_entries(
    make: Make, law: Law, rank_by: RankBy
) -> None:
    values = make(normal_update(1000))
    magnitudes = {"peak": group_peaks, "rms": group_rms}[rank_by](values, 8)
    found = draw_group_votes(
        correct(values, None), 160, stream(), law=law, length=8, rank_by=rank_by
    )
    expected = draw_votes(correct(magnitudes, None), 20, stream(), law=law)
    assert bytes_of(found) == bytes_of(expected)
    assert 1 <= count_bits(found) <= 40


@pytest.mark.parametrize("law", LAWS)
def test_groups_of_one_are_the_papers_votes(make: Make, law: Law) -> None:
    corrected = correct(make(normal_update(1000)), None)
    found = draw_group_votes(corrected, 50, stream(), law=law)
    assert bytes_of(found) == bytes_of(draw_votes(corrected, 50, stream(), law=law))


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dim", [1, 7, 8, 9, 64, 65, 4096, 5001])
def test_every_entry_has_the_bit_of_its_group(
    make: Make, dim: int, length: int
) -> None:
    groups = np.random.default_rng(dim).random(count_groups(dim, length)) < 0.5
    packed = make(np.packbits(groups, bitorder="little"))
    found = spread_groups(packed, dim, length)
    entries = np.repeat(groups, length)[:dim]
    assert kind_of(found) == kind_of(packed)
    assert bytes_of(found) == np.packbits(entries, bitorder="little").tobytes()


@pytest.mark.parametrize("n_bytes", [0, 1, 3])
def test_bits_of_other_groups_are_refused(make: Make, n_bytes: int) -> None:
    packed = make(np.zeros(n_bytes, np.uint8))
    text = f"packed must have 2 bytes for 100 entries in groups of 8, got {n_bytes}"
    with refuses(text):
        spread_groups(packed, 100, 8)


def test_bits_of_single_entries_stay_as_they_are(make: Make) -> None:
    packed = make(np.array([0b101], np.uint8))
    assert spread_groups(packed, 3, 1) is packed


@pytest.mark.parametrize("length", [1, 8, 64, 4096, np.int64(16)])
def test_groups_fill_whole_bytes_and_chunks(length: int) -> None:
    check_length("entries_per_vote", length)


@pytest.mark.parametrize("length", [-8, 0, 2, 4, 12, 8192])
def test_other_lengths_are_refused(length: int) -> None:
    text = f"entries_per_vote must be 1 or a power of two in 8..4096, got {length}"
    with refuses(text):
        check_length("entries_per_vote", length)


@pytest.mark.parametrize("length", [8.0, "8", None, True])
def test_lengths_are_whole_numbers(length: object) -> None:
    with refuses(f"entries_per_vote must be a whole number, got {length!r}", TypeError):
        check_length("entries_per_vote", length)
