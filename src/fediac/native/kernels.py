"""The compiled kernels: each method gives the bits of the core function of its name."""

import ctypes
from collections.abc import Callable, Sequence
from ctypes import c_double, c_int, c_int32, c_size_t, c_uint32, c_uint64
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fediac.native import threads
from fediac.native.arrays import Array, View, empty_like, floats, packed, view, writable
from fediac.native.library import declare, isa_of
from fediac.native.packets import DataPlane

BLOCK = 4096
"""Entries of a block of the tree sum; shares of threads are whole blocks."""

_MIN_LEVELS = 1 << 14
_N_PATTERNS = 1 << 15
_N_DIGITS = 1 << 16
_N_TABLES = 4
_POINTER = ctypes.c_void_p


class Stream(Protocol):
    """What kernels need of ``fediac.core.rng.Stream``."""

    @property
    def key(self) -> tuple[int, int]:
        """The Philox key."""
        ...

    @property
    def counter_tail(self) -> tuple[int, int, int]:
        """The counter's last three words."""
        ...


class Grid(Protocol):
    """What kernels need of ``fediac.core.quantize.Grid``."""

    @property
    def scale(self) -> float:
        """Levels for a unit of the update."""
        ...

    @property
    def limit(self) -> int:
        """The largest magnitude of a level."""
        ...

    @property
    def bits_up(self) -> int:
        """The width of a lane that is sent."""
        ...


class _Stream(ctypes.Structure):
    _fields_ = (("key", c_uint32 * 2), ("tail", c_uint32 * 3))


class _Grid(ctypes.Structure):
    _fields_ = (("scale", c_double), ("limit", c_uint32), ("bits", c_int32))


class _Facts(ctypes.Structure):
    _fields_ = (("peak", ctypes.c_float), ("unused", c_uint32), ("bad", c_uint64))


_SIGNATURES: dict[str, tuple[Any, Sequence[Any]]] = {
    "fediac_words": (None, [c_uint64, c_size_t, _POINTER, _POINTER]),
    "fediac_first_pass": (None, [*[_POINTER] * 3, c_size_t, *[_POINTER] * 3]),
    "fediac_count_nonfinite": (None, [_POINTER, _POINTER, c_size_t, _POINTER]),
    "fediac_tree_sum": (c_double, [_POINTER, c_size_t]),
    "fediac_draw_votes": (
        None,
        [_POINTER, c_uint64, c_size_t, c_double, c_uint64, _POINTER, _POINTER],
    ),
    "fediac_agree": (
        None,
        [_POINTER, c_size_t, c_size_t, c_size_t, c_uint32, _POINTER],
    ),
    "fediac_count_bits": (None, [_POINTER, c_size_t, _POINTER]),
    "fediac_select_bit": (c_size_t, [_POINTER, c_size_t, c_size_t]),
    "fediac_send_chosen": (
        None,
        [_POINTER, _POINTER, c_size_t, c_size_t, c_size_t, *[_POINTER] * 7],
    ),
    "fediac_pack_lanes": (None, [_POINTER, c_int, c_size_t, c_int, _POINTER]),
    "fediac_unpack_lanes": (None, [_POINTER, c_size_t, c_int, _POINTER]),
    "fediac_add_lanes": (None, [_POINTER, _POINTER, c_size_t]),
    "fediac_pattern_counts": (None, [_POINTER, c_size_t, _POINTER]),
    "fediac_digit_counts": (None, [_POINTER, c_size_t, c_uint32, _POINTER]),
    "fediac_group_peaks": (None, [_POINTER, c_size_t, c_size_t, _POINTER]),
    "fediac_group_rms": (None, [_POINTER, c_size_t, c_size_t, _POINTER]),
    "fediac_spread_groups": (None, [_POINTER, c_size_t, c_size_t, _POINTER]),
    "fediac_mark_largest": (None, [_POINTER, c_size_t, c_uint32, c_uint64, _POINTER]),
}


def _at(seen: View | None, start: int = 0) -> int | None:
    """Return the address of entry ``start``; None for an array that is not there."""
    return None if seen is None else seen.ctypes.data + start * seen.itemsize


def _fill(stream: Stream) -> _Stream:
    return _Stream((c_uint32 * 2)(*stream.key), (c_uint32 * 3)(*stream.counter_tail))


class Kernels(DataPlane):
    """The functions of the C library, on arrays that ``kernels_for`` has checked.

    Arrays come back in the kind they came in. Nothing is copied. Where the work is
    long it is split over threads, see ``fediac.native.threads``.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        super().__init__(library)
        declare(library, _SIGNATURES)

    @property
    def isa(self) -> str:
        """The instruction set in use."""
        return isa_of(self._c)

    def words(self, first: int, n_words: int, stream: Stream) -> NDArray[np.uint32]:
        """Return the random words of the entries from ``first`` on, a multiple of 4."""
        words = np.empty(n_words, np.uint32)
        self._c.fediac_words(first, n_words, ctypes.byref(_fill(stream)), _at(words))
        return words

    def first_pass(
        self, update: Array, residual: Array | None, out: Array
    ) -> tuple[float, float, float, int]:
        """Return mass, peak, energy and non-finite entries of ``update + residual``.

        The sum goes to ``out``, which may be ``residual``; if it is ``update``,
        nothing is written.
        """
        seen, kept = _update_and_residual(update, residual)
        target = None
        if out is not update:
            target = writable(floats(out, "out", seen.size), "out")
        sums = np.empty((2, -(-seen.size // BLOCK)))
        masses, energies = sums

        def work(start: int, stop: int) -> tuple[float, int]:
            facts = _Facts()
            self._c.fediac_first_pass(
                *(_at(seen, start), _at(kept, start), _at(target, start)),
                stop - start,
                *(_at(masses, start // BLOCK), _at(energies, start // BLOCK)),
                ctypes.byref(facts),
            )
            return facts.peak, facts.bad

        found = threads.run(work, threads.split(seen.size, grain=BLOCK))
        peak = max(share_peak for share_peak, _ in found)
        n_nonfinite = sum(n_bad for _, n_bad in found)
        return self._tree_sum(masses), peak, self._tree_sum(energies), n_nonfinite

    def count_nonfinite(self, update: Array, residual: Array | None) -> int:
        """Return how many entries of ``update + residual`` no round can use."""
        seen, kept = _update_and_residual(update, residual)

        def work(start: int, stop: int) -> int:
            total = c_uint64()
            self._c.fediac_count_nonfinite(
                _at(seen, start), _at(kept, start), stop - start, ctypes.byref(total)
            )
            return total.value

        return sum(threads.run(work, threads.split(seen.size, grain=BLOCK)))

    def draw_votes(
        self, values: Array, mass: float, n_votes: int, stream: Stream
    ) -> Array:
        """Return packed votes, each with probability 1 − (1 − |U|/mass)^n_votes."""
        seen = floats(values, "values")
        votes = empty_like(values, -(-seen.size // 8), "uint8")
        bits = view(votes)
        keyed = ctypes.byref(_fill(stream))

        def work(start: int, stop: int) -> None:
            self._c.fediac_draw_votes(
                *(_at(seen, start), start, stop - start),
                *(mass, n_votes, keyed, _at(bits, start // 8)),
            )

        threads.run(work, threads.split(seen.size, grain=BLOCK))
        return votes

    def agree(self, votes: Sequence[Array], threshold: int) -> Array:
        """Return the packed bits that at least ``threshold`` of ``votes`` have set."""
        n_bytes = view(votes[0]).size
        seen = [packed(vote, "votes", n_bytes) for vote in votes]
        gia = empty_like(votes[0], n_bytes, "uint8")
        agreed = view(gia)
        if threshold > len(votes):
            agreed[:] = 0
            return gia
        addresses = (_POINTER * len(seen))(*[_at(vote) for vote in seen])

        def work(start: int, stop: int) -> None:
            self._c.fediac_agree(
                *(addresses, len(seen), start // 8, (stop - start) // 8),
                *(threshold, _at(agreed)),
            )

        threads.run(work, threads.split(8 * n_bytes, grain=BLOCK))
        return gia

    def count_bits(self, bits: Array) -> int:
        """Return how many packed bits are set."""
        seen = packed(bits, "packed")
        total = c_uint64()
        self._c.fediac_count_bits(_at(seen), seen.size, ctypes.byref(total))
        return total.value

    def send_chosen(
        self,
        values: Array,
        gia: Array | None,
        grid: Grid,
        stream: Stream,
        out: Array | None,
    ) -> tuple[Array, int, float, float, int]:
        """Return lanes, their number, energies of chosen and left, levels clamped."""
        seen = floats(values, "values")
        kept = None
        if out is not None:
            kept = writable(floats(out, "out", seen.size), "out")
        mask = None
        if gia is not None:
            mask = packed(gia, "gia", -(-seen.size // 8))
        n_levels = seen.size if mask is None else self._n_chosen(mask, seen.size)
        lanes = empty_like(values, -(-n_levels * grid.bits_up // 8), "uint8")
        lane_bytes = view(lanes)
        sums = np.empty((2, -(-n_levels // BLOCK)))
        chosen_energies, left_energies = sums
        n_clamped = np.empty(len(chosen_energies), np.uint64)
        keyed = ctypes.byref(_fill(stream))
        sized = ctypes.byref(_Grid(grid.scale, grid.limit, grid.bits_up))

        def work(start: int, stop: int) -> None:
            first = start
            if start and mask is not None:
                first = self._c.fediac_select_bit(_at(mask), mask.size, start)
            self._c.fediac_send_chosen(
                *(_at(seen), _at(mask), seen.size, first, stop - start),
                *(sized, keyed, _at(kept), _at(lane_bytes, start * grid.bits_up // 8)),
                _at(chosen_energies, start // BLOCK),
                _at(left_energies, start // BLOCK),
                _at(n_clamped, start // BLOCK),
            )

        shares = threads.split(n_levels, grain=BLOCK, min_share=_MIN_LEVELS)
        threads.run(work, shares)
        chosen, left = self._tree_sum(chosen_energies), self._tree_sum(left_energies)
        return lanes, n_levels, chosen, left, int(n_clamped.sum())

    def _n_chosen(self, mask: View, dim: int) -> int:
        """Return how many of the first ``dim`` bits are set."""
        n_beyond = (int(mask[-1]) >> dim % 8).bit_count() if dim % 8 else 0
        return self.count_bits(mask) - n_beyond

    def pack_lanes(self, lanes: Array, bits: int) -> Array:
        """Return int64 or int32 lanes of ``bits`` bits as packed bytes."""
        n_lanes = lanes.size
        done = np.empty(-(-n_lanes * bits // 8), np.uint8)
        self._c.fediac_pack_lanes(_at(lanes), lanes.itemsize, n_lanes, bits, _at(done))
        return done

    def unpack_lanes(self, lanes: Array, n_lanes: int, bits: int) -> Array:
        """Return the first ``n_lanes`` packed lanes of ``bits`` bits as int64."""
        seen = packed(lanes, "packed")
        n_bytes = -(-n_lanes * bits // 8)
        if seen.size < n_bytes:
            raise ValueError(f"packed must have {n_bytes} bytes, got {seen.size}")
        done = empty_like(lanes, n_lanes, "int64")
        self._c.fediac_unpack_lanes(_at(seen), n_lanes, bits, _at(view(done)))
        return done

    def add_lanes(self, total: Array, lanes: Array) -> None:
        """Add ``lanes`` to ``total`` in place, as long little-endian integers."""
        sums = writable(packed(total, "total"), "total")
        seen = packed(lanes, "packed", sums.size)
        self._c.fediac_add_lanes(_at(sums), _at(seen), sums.size)

    def pattern_counts(self, values: Array) -> Array:
        """Return how many magnitudes have each leading 15-bit pattern."""
        seen = floats(values, "values")
        counts = empty_like(values, _N_PATTERNS, "int64")
        shares = threads.split(seen.size, grain=BLOCK)
        view(counts)[:] = sum(self._pattern_counts(seen, shares))
        return counts

    def largest(self, values: Array, n_largest: int) -> Array:
        """Return the packed mask of the ``n_largest`` entries of largest magnitude."""
        seen = floats(values, "values")
        mask = empty_like(values, -(-seen.size // 8), "uint8")
        bits = view(mask)
        shares = threads.split(seen.size, grain=BLOCK)
        counts: NDArray[np.int64] = sum(self._pattern_counts(seen, shares))
        leading, n_wanted = _digit_of_nth(counts, n_largest)
        digit_counts = self._digit_counts(seen, leading, shares)
        last, n_equal = _digit_of_nth(sum(digit_counts), n_wanted)
        # Ties go to the lowest entries, so to the first shares.
        quotas = {}
        for (start, _), digits in zip(shares, digit_counts, strict=True):
            quotas[start] = min(n_equal, int(digits[last]))
            n_equal -= quotas[start]

        def work(start: int, stop: int) -> None:
            self._c.fediac_mark_largest(
                *(_at(seen, start), stop - start, leading << 16 | last),
                *(quotas[start], _at(bits, start // 8)),
            )

        threads.run(work, shares)
        return mask

    def group_peaks(self, values: Array, length: int) -> Array:
        """Return the largest magnitude of every ``length`` entries."""
        return self._of_groups(self._c.fediac_group_peaks, values, length)

    def group_rms(self, values: Array, length: int) -> Array:
        """Return the root mean square of every ``length`` entries."""
        return self._of_groups(self._c.fediac_group_rms, values, length)

    def _of_groups(
        self, kernel: Callable[..., None], values: Array, length: int
    ) -> Array:
        seen = floats(values, "values")
        found = empty_like(values, -(-seen.size // length), "float32")
        done = view(found)

        def work(start: int, stop: int) -> None:
            kernel(_at(seen, start), stop - start, length, _at(done, start // length))

        threads.run(work, threads.split(seen.size, grain=BLOCK))
        return found

    def spread_groups(self, bits: Array, n_bytes: int, n_bytes_each: int) -> Array:
        """Return ``n_bytes`` bytes, so many for each bit: all zeros or all ones."""
        n_groups = -(-n_bytes // n_bytes_each)
        seen = packed(bits, "packed", -(-n_groups // 8))
        spread = empty_like(bits, n_bytes, "uint8")
        self._c.fediac_spread_groups(
            _at(seen), n_bytes_each, n_bytes, _at(view(spread))
        )
        return spread

    def _pattern_counts(self, seen: View, shares: list[threads.Share]) -> list[Any]:
        def work(start: int, stop: int) -> NDArray[np.int64]:
            tables = np.zeros((_N_TABLES, _N_PATTERNS), np.uint32)
            self._c.fediac_pattern_counts(_at(seen, start), stop - start, _at(tables))
            counts: NDArray[np.int64] = tables.sum(axis=0, dtype=np.int64)
            return counts

        return threads.run(work, shares)

    def _digit_counts(
        self, seen: View, leading: int, shares: list[threads.Share]
    ) -> list[Any]:
        def work(start: int, stop: int) -> NDArray[np.int64]:
            counts = np.zeros(_N_DIGITS, np.uint32)
            self._c.fediac_digit_counts(
                _at(seen, start), stop - start, leading, _at(counts)
            )
            return counts.astype(np.int64)

        return threads.run(work, shares)

    def _tree_sum(self, values: NDArray[np.float64]) -> float:
        """Return the sum in core's order; overwrites ``values``."""
        total: float = self._c.fediac_tree_sum(_at(values), values.size)
        return total


def _update_and_residual(
    update: Array, residual: Array | None
) -> tuple[View, View | None]:
    seen = floats(update, "update")
    if residual is None:
        return seen, None
    return seen, floats(residual, "residual", seen.size)


def _digit_of_nth(counts: NDArray[np.int64], n: int) -> tuple[int, int]:
    """Return the bin of the ``n``-th largest entry, and its place from that bin on."""
    at_least = np.cumsum(counts[::-1])
    place = int(np.searchsorted(at_least, n))
    digit = counts.size - 1 - place
    return digit, n - int(at_least[place]) + int(counts[digit])
