from dataclasses import dataclass

import numpy as np
import pytest

from fediac import native
from fediac.native.kernels import Kernels
from tests.support import stream


@dataclass(frozen=True)
class RawStream:
    key: tuple[int, int]
    counter_tail: tuple[int, int, int]


def kernels() -> Kernels:
    found = native.host_kernels_for(np.zeros(1, np.float32))
    assert found is not None
    return found


ONES = 0xFFFFFFFF


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ((0, 0, 0, 0), (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((ONES,) * 4, (ONES,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_words_are_those_of_the_authors_of_philox(
    isa: str,
    counter: tuple[int, int, int, int],
    key: tuple[int, int],
    words: str,
) -> None:
    raw = RawStream(key, counter[1:])
    found = kernels().words(4 * counter[0], 4, raw)
    assert " ".join(f"{word:08x}" for word in found) == words, isa


@pytest.mark.usefixtures("isa")
@pytest.mark.parametrize("first", [0, 4, 1 << 20, (4 << 32) - 4096])
def test_words_are_those_of_core(first: int) -> None:
    source = stream()
    found = kernels().words(first, 1000, source)
    expected = source.words(first, first + 1000, like=np.zeros(1))
    assert (found == expected).all()
