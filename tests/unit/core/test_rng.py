import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fediac
from fediac.core.rng import MAX_ENTRIES, Stream, philox, purpose_word, to_unit
from tests.support import Make, kind_of, refuses, stream, to_numpy

ONES = 0xFFFFFFFF
# From the distribution of Random123, kat_vectors, philox4x32-10.
KNOWN_ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (
        (ONES, ONES, ONES, ONES),
        (ONES, ONES),
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


def philox_by_integers(
    counter: tuple[int, ...], key: tuple[int, ...]
) -> tuple[int, ...]:
    """The published algorithm in Python's own integers."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & ONES, (a >> 32) ^ c[3] ^ k[1], a & ONES]
        k = [(k[0] + 0x9E3779B9) & ONES, (k[1] + 0xBB67AE85) & ONES]
    return tuple(c)


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_philox_gives_the_published_vectors(
    make: Make, counter: tuple[int, ...], key: tuple[int, int], expected: Any
) -> None:
    c0, c1, c2, c3 = (make(np.array([word], dtype=np.int64)) for word in counter)
    found = tuple(int(word[0]) for word in philox((c0, c1, c2, c3), key))
    assert found == expected
    assert philox_by_integers(counter, key) == expected


def test_word_of_an_entry_is_philox_of_its_counter(make: Make) -> None:
    keyed = Stream(0x1122334455667788, 9, 1023).purpose("votes")
    words = to_numpy(keyed.words(0, 40, like=make(np.zeros(1))))
    for entry in range(40):
        counter = (entry // 4, purpose_word("votes"), 9, 1023)
        block = philox_by_integers(counter, (0x55667788, 0x11223344))
        assert words[entry] == block[entry % 4]


@pytest.mark.parametrize(("start", "stop"), [(0, 0), (0, 1), (3, 4), (5, 23), (7, 8)])
def test_words_do_not_depend_on_where_a_range_begins(
    make: Make, start: int, stop: int
) -> None:
    like = make(np.zeros(1, dtype=np.float32))
    whole = stream().words(0, 32, like=like)
    part = stream().words(start, stop, like=like)
    assert kind_of(part) == kind_of(like)
    assert to_numpy(part).dtype == np.int64
    assert np.array_equal(to_numpy(part), to_numpy(whole)[start:stop])


def test_words_at_indices_are_those_of_the_range(make: Make) -> None:
    indices = np.array([0, 1, 2, 3, 4, 11, 4095, 4096, 9999], dtype=np.int64)
    picked = stream().words_at(make(indices))
    whole = to_numpy(stream().words(0, 10000, like=make(np.zeros(1))))
    assert np.array_equal(to_numpy(picked), whole[indices])


def test_last_entries_of_a_stream_are_served(make: Make) -> None:
    like = make(np.zeros(1))
    words = to_numpy(stream().words(MAX_ENTRIES - 2, MAX_ENTRIES, like=like))
    tail = stream().counter_tail
    block = philox_by_integers((ONES, *tail), stream().key)
    assert words.tolist() == [block[2], block[3]]


def test_entries_beyond_a_stream_are_refused() -> None:
    with refuses(f"stop must be at most {MAX_ENTRIES}, got {MAX_ENTRIES + 1}"):
        stream().words(MAX_ENTRIES - 2, MAX_ENTRIES + 1, like=np.zeros(1))


def test_seed_round_client_and_purpose_each_change_every_word() -> None:
    streams = [
        stream(),
        stream(seed=8),
        stream(seed=7 + (1 << 32)),
        stream(round_number=4),
        stream(client=3),
        stream("other"),
    ]
    words = np.stack([each.words(0, 64, like=np.zeros(1)) for each in streams])
    # 15 pairs of 64 words: two unrelated words agree with probability 2**-32, so
    # false alarms are below 15 * 64 / 2**32 = 2.3e-7.
    for i, one in enumerate(words):
        for other in words[i + 1 :]:
            assert not np.any(one == other)


def test_purposes_used_in_the_package_never_share_a_word() -> None:
    folder = Path(fediac.__file__).parent
    source = "".join(path.read_text() for path in sorted(folder.rglob("*.py")))
    purposes = set(re.findall(r"purpose\(\s*\"([^\"]+)\"\s*\)", source))
    assert {"votes", "rounding"} <= purposes
    phases = set(re.findall(r"phase=\"([^\"]+)\"", source))
    purposes |= {f"{phase}/{purpose}" for phase in phases for purpose in purposes}
    assert len({purpose_word(each) for each in purposes}) == len(purposes)


def test_purpose_of_a_purpose_is_a_part_of_it() -> None:
    nested = Stream(7, 3, 2).purpose("statistics").purpose("rounding")
    assert nested == Stream(7, 3, 2, "statistics/rounding")


def test_uniforms_are_words_over_two_to_the_32(make: Make) -> None:
    indices = make(np.arange(1000))
    unit, words = stream().uniform_at(indices), stream().words_at(indices)
    assert to_numpy(unit).dtype == np.float64
    assert np.array_equal(to_numpy(unit) * 2.0**32, to_numpy(words))
    assert float(to_unit(make(np.array([ONES])))[0]) < 1.0


def test_stream_without_a_purpose_gives_nothing() -> None:
    with refuses("stream has no purpose yet, call stream.purpose(name)"):
        Stream(1, 1, 1).words(0, 4, like=np.zeros(1))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ((-1, 0, 0), "seed must be in 0..2**64-1, got -1"),
        ((1 << 64, 0, 0), f"seed must be in 0..2**64-1, got {1 << 64}"),
        ((0, 1 << 32, 0), f"round_number must be in 0..2**32-1, got {1 << 32}"),
        ((0, 0, -5), "client must be in 0..2**32-1, got -5"),
    ],
)
def test_keys_that_do_not_fit_the_counter_are_refused(
    fields: tuple[int, int, int], message: str
) -> None:
    with refuses(message):
        Stream(*fields)
