"""The Triton kernels on CUDA tensors: each method gives the bits of core's function.

A round in PyTorch's own operations takes some 700 launches a client, most of them too
short to fill a GPU. Here it is about fifteen.
"""

import struct
from collections.abc import Sequence
from types import ModuleType

from array_api_compat import array_namespace, device

from fediac.native.arrays import Array, empty_like
from fediac.native.kernels import BLOCK, Grid, Stream

_VOTE_BYTES = 128
"""Bytes of packed votes that one program writes."""

_LANES = 1024
"""Lanes or bytes of lanes that one program works on."""


def _n_blocks(n_items: int, length: int) -> int:
    return -(-n_items // length)


def _pattern(value: float) -> int:
    """Return the bits of a float64 as a signed integer."""
    (bits,) = struct.unpack("<q", struct.pack("<d", value))
    return int(bits)


class DeviceKernels:
    """The functions of `device_kernels`, on tensors that ``kernels_for`` has checked.

    Args:
        kernels: The module; whoever imports it needs Triton.
    """

    def __init__(self, kernels: ModuleType) -> None:
        self._k = kernels

    def first_pass(
        self, update: Array, residual: Array | None, out: Array
    ) -> tuple[float, float, float, int]:
        """Return mass, peak, energy and non-finite entries of ``update + residual``.

        The sum goes to ``out``, which may be ``residual``; if it is ``update``,
        nothing is written.
        """
        n_entries = update.shape[0]
        n_blocks = max(1, _n_blocks(n_entries, BLOCK))
        facts = empty_like(update, 4 * n_blocks, "float64")
        self._k.first_pass[(n_blocks,)](
            update,
            update if residual is None else residual,
            out,
            facts,
            n_entries,
            n_blocks,
            HAS_RESIDUAL=residual is not None,
            WRITES=out is not update,
            BLOCK=BLOCK,
            enable_fp_fusion=False,
        )
        while n_blocks > 1:
            n_columns, n_blocks = n_blocks, _n_blocks(n_blocks, BLOCK)
            gathered = empty_like(update, 4 * n_blocks, "float64")
            self._k.gather_facts[(n_blocks,)](
                facts, gathered, n_columns, n_blocks, BLOCK=BLOCK
            )
            facts = gathered
        mass, energy, peak, n_nonfinite = facts.tolist()
        return mass, peak, energy, int(n_nonfinite)

    def count_nonfinite(self, update: Array, residual: Array | None) -> int:
        """Return how many entries of ``update + residual`` no round can use."""
        out = update if residual is None else empty_like(update, len(update), "float32")
        return self.first_pass(update, residual, out)[3]

    def draw_votes(
        self, values: Array, mass: float, n_votes: int, stream: Stream
    ) -> Array:
        """Return packed votes, each with probability 1 − (1 − |U|/mass)^n_votes."""
        n_entries = values.shape[0]
        n_bytes = _n_blocks(n_entries, 8)
        votes = empty_like(values, n_bytes, "uint8")
        words = _words(values, *stream.key, *stream.counter_tail, _pattern(mass))
        self._k.draw_votes[(_n_blocks(n_bytes, _VOTE_BYTES),)](
            values,
            votes,
            words,
            n_entries,
            n_votes,
            BLOCK=_VOTE_BYTES,
            enable_fp_fusion=False,
        )
        return votes

    def agree(self, votes: Sequence[Array], threshold: int) -> Array:
        """Return the packed bits that at least ``threshold`` of ``votes`` have set."""
        n_bytes = votes[0].shape[0]
        gia = empty_like(votes[0], n_bytes, "uint8")
        together = empty_like(votes[0], len(votes) * n_bytes, "uint8")
        for place, each in enumerate(votes):
            together[place * n_bytes : (place + 1) * n_bytes] = each
        self._k.agree[(_n_blocks(n_bytes, _VOTE_BYTES),)](
            together, gia, len(votes), n_bytes, threshold, BLOCK=_VOTE_BYTES
        )
        return gia

    def count_bits(self, bits: Array) -> int:
        """Return how many packed bits are set."""
        return int(self._block_counts(bits, 8 * bits.shape[0]).sum())

    def _block_counts(self, packed: Array, n_bits: int) -> Array:
        n_blocks = _n_blocks(n_bits, BLOCK)
        counts = empty_like(packed, n_blocks, "int64")
        if n_blocks:
            self._k.count_bits[(n_blocks,)](packed, counts, n_bits, BLOCK=BLOCK)
        return counts

    def send_chosen(
        self,
        values: Array,
        gia: Array | None,
        grid: Grid,
        stream: Stream,
        out: Array | None,
    ) -> tuple[Array, int, float, float, int]:
        """Return lanes, their number, energies of chosen and left, levels clamped."""
        n_entries = n_levels = values.shape[0]
        ends = values
        if gia is not None:
            ends = self._block_counts(gia, n_entries).cumsum(0)
            n_levels = int(ends[-1]) if len(ends) else 0
        lanes = empty_like(values, n_levels, "int64")
        squares = empty_like(values, 2 * n_levels, "float64")
        n_clamped = empty_like(values, 1, "int64")
        n_clamped[0] = 0
        place = (*stream.key, *stream.counter_tail)
        words = _words(values, *place, _pattern(grid.scale), grid.limit)
        if n_levels:
            self._k.send_chosen[(_n_blocks(n_entries, BLOCK),)](
                values,
                values if gia is None else gia,
                ends,
                words,
                values if out is None else out,
                lanes,
                squares,
                n_clamped,
                n_entries,
                n_levels,
                HAS_GIA=gia is not None,
                WRITES=out is not None,
                BLOCK=BLOCK,
                enable_fp_fusion=False,
            )
        chosen, left = self._row_sums(squares, n_levels)
        packed = self.pack_lanes(lanes, grid.bits_up)
        return packed, n_levels, chosen, left, int(n_clamped[0])

    def _row_sums(self, values: Array, n_columns: int) -> tuple[float, float]:
        """Return the tree sums of the two rows of ``values``."""
        if not n_columns:
            return 0.0, 0.0
        while n_columns > 1:
            n_blocks = _n_blocks(n_columns, BLOCK)
            sums = empty_like(values, 2 * n_blocks, "float64")
            self._k.fold_rows[(n_blocks, 2)](
                values, sums, n_columns, n_blocks, BLOCK=BLOCK
            )
            values, n_columns = sums, n_blocks
        first, second = values.tolist()
        return first, second

    def pack_lanes(self, lanes: Array, bits: int) -> Array:
        """Return int64 lanes of ``bits`` bits as packed bytes."""
        n_lanes = lanes.shape[0]
        n_bytes = _n_blocks(n_lanes * bits, 8)
        packed = empty_like(lanes, n_bytes, "uint8")
        if n_bytes:
            self._k.pack_lanes[(_n_blocks(n_bytes, _LANES),)](
                lanes, packed, n_lanes, n_bytes, BITS=bits, BLOCK=_LANES
            )
        return packed

    def unpack_lanes(self, packed: Array, n_lanes: int, bits: int) -> Array:
        """Return the first ``n_lanes`` packed lanes of ``bits`` bits as int64."""
        n_bytes = _n_blocks(n_lanes * bits, 8)
        if packed.shape[0] < n_bytes:
            raise ValueError(f"packed must have {n_bytes} bytes, got {packed.shape[0]}")
        lanes = empty_like(packed, n_lanes, "int64")
        if n_lanes:
            self._k.unpack_lanes[(_n_blocks(n_lanes, _LANES),)](
                packed, lanes, n_lanes, n_bytes, BITS=bits, BLOCK=_LANES
            )
        return lanes


def _words(like: Array, *words: int) -> Array:
    """Return integers as an int64 tensor where ``like`` is."""
    xp = array_namespace(like)
    return xp.asarray(words, dtype=xp.int64, device=device(like))
