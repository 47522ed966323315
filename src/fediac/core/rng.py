"""Randomness as a parameter: counter-based uniforms, one for every entry of an update.

Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011)
maps a 128-bit counter and a 64-bit key to 128 random bits. The key is the seed; the
counter is (entry // 4, purpose, round, client), so no two draws of a run share one,
and entry ``l`` has the same number on any machine, in any chunk, on any thread.
"""

import zlib
from dataclasses import dataclass, replace

from array_api_compat import array_namespace, device

from fediac.core.integers import as_whole
from fediac.core.types import Array, Indices
from fediac.errors import ArgumentError

_MASK = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_N_ROUNDS = 10

MAX_ENTRIES = 4 << 32
"""Entries one stream can serve: four for each value of the counter's first word."""

Words = tuple[Array, Array, Array, Array]


def philox(counter: Words, key: tuple[int, int]) -> Words:
    """Return the four random 32-bit words of each counter, as int64 arrays.

    A product of two words is taken in wrapping int64: its upper half is the high word,
    its lower half the low one. Only words that are multiplied need their upper halves
    cleared; the others are cleared where they end up.
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_N_ROUNDS):
        product0, product1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0 = ((product1 >> 32) ^ c1 ^ k0) & _MASK
        c2 = ((product0 >> 32) ^ c3 ^ k1) & _MASK
        c1, c3 = product1, product0
        k0, k1 = (k0 + _WEYL[0]) & _MASK, (k1 + _WEYL[1]) & _MASK
    return c0, c1 & _MASK, c2, c3 & _MASK


def purpose_word(name: str) -> int:
    """Return the counter word of a purpose: the CRC-32 of its name."""
    return zlib.crc32(name.encode())


@dataclass(frozen=True, slots=True)
class Stream:
    """Uniform numbers keyed by (seed, purpose, round, client), indexed by entry.

    Attributes:
        seed: One number for a whole run, 0..2**64-1.
        name: What the numbers are for. Two draws that must be independent need
            two purposes; see `purpose`.
    """

    seed: int
    round_number: int
    client: int
    name: str = ""

    def __post_init__(self) -> None:
        for field, top in (("seed", 64), ("round_number", 32), ("client", 32)):
            value = as_whole(field, getattr(self, field))
            object.__setattr__(self, field, value)
            if not 0 <= value < 1 << top:
                raise ArgumentError(field, f"must be in 0..2**{top}-1, got {value}")

    def purpose(self, name: str) -> "Stream":
        """Return the stream of the same seed, round and client for one purpose.

        The purpose of a stream that has one already is a part of it: "statistics" and
        "rounding" make "statistics/rounding".
        """
        return replace(self, name=f"{self.name}/{name}" if self.name else name)

    @property
    def key(self) -> tuple[int, int]:
        """The Philox key: the seed's low and high 32 bits."""
        return self.seed & _MASK, self.seed >> 32

    @property
    def counter_tail(self) -> tuple[int, int, int]:
        """The counter's last three words: purpose, round, client."""
        if not self.name:
            raise ValueError("stream has no purpose yet, call stream.purpose(name)")
        return purpose_word(self.name), self.round_number, self.client

    def words(self, start: int, stop: int, *, like: Array) -> Array:
        """Return one random 32-bit word for each entry in ``start..stop-1``, as int64.

        Args:
            start: First entry.
            stop: One past the last entry, at most ``MAX_ENTRIES``.
            like: An array of the kind and on the device to use.
        """
        xp = array_namespace(like)
        if stop > MAX_ENTRIES:
            raise ArgumentError("stop", f"must be at most {MAX_ENTRIES}, got {stop}")
        blocks = xp.arange(
            start // 4, -(-stop // 4), dtype=xp.int64, device=device(like)
        )
        words = xp.reshape(xp.stack(self._of_blocks(blocks), axis=1), (-1,))
        first = start % 4
        return words[first : first + stop - start]

    def words_at(self, indices: Indices) -> Array:
        """Return one random 32-bit word for each of ``indices``, as int64."""
        xp = array_namespace(indices)
        w0, w1, w2, w3 = self._of_blocks(indices >> 2)
        lane = indices & 3
        return xp.where(
            lane < 2, xp.where(lane == 0, w0, w1), xp.where(lane == 2, w2, w3)
        )

    def uniform_at(self, indices: Indices) -> Array:
        """Return a float64 in [0, 1), a multiple of 2**-32, for each index."""
        return to_unit(self.words_at(indices))

    def _of_blocks(self, blocks: Array) -> Words:
        xp = array_namespace(blocks)
        purpose, round_number, client = (
            xp.full_like(blocks, word) for word in self.counter_tail
        )
        return philox((blocks, purpose, round_number, client), self.key)


def to_unit(words: Array) -> Array:
    """Return 32-bit words as float64 in [0, 1): exactly ``word / 2**32``."""
    xp = array_namespace(words)
    return xp.astype(words, xp.float64) * 2.0**-32
