"""libra: hot entries are added by the switch, cold ones at a far server.

Pan et al., "Enabling Fast and Flexible Distributed Deep Learning with Programmable
Switches", 2022: a few parameters are updated often; only these get a register. The
FediAC paper's best setting is k = 1 % of the entries.

Deviations: the switch is integer, so clients first agree on a peak and send 32-bit
levels of hot entries; cold entries go to the server as floats; error feedback unless
``residual=False``. Which entries are hot is decided before training (`find_hot`).

As published, an entry takes 64 bits, an index and a value of 32 each. Ours, so that
libra pays no more than it must: with fewer ``bits`` hot and cold entries are levels
alike, and ``narrow`` indices have as many bits as tell registers, or entries, apart.
"""

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from array_api_compat import array_namespace, device

from fediac.compressors.feedback import ErrorFeedback
from fediac.compressors.forecast import (
    Asks,
    AsksIndexedSum,
    Conditions,
    Expected,
    union_of,
)
from fediac.compressors.protocol import Facts, Outcome, Round, State, ask
from fediac.compressors.settings import SUPPLIED, check_flag, check_share, count_share
from fediac.compressors.shared_steps import left_energy, scale_to_peak, unsent
from fediac.core.bitpack import unpack_bits
from fediac.core.corrected import Corrected
from fediac.core.exchange import (
    INDEX_BITS,
    Exchange,
    IndexedSum,
    IndexedTotals,
    Max,
    ServerSum,
    ServerTotals,
    least_index_bits,
)
from fediac.core.integers import as_whole
from fediac.core.magnitudes import indices_of_largest, largest
from fediac.core.mean import FloatMean, IndexedMean, Mean, MeanPart
from fediac.core.quantize import (
    Grid,
    check_lanes,
    energy_of,
    stochastic_round,
    subtract_sent,
)
from fediac.core.rng import Stream
from fediac.core.shares import Share
from fediac.core.types import Array, Indices, Levels, Update
from fediac.errors import ArgumentError

BITS = 32
"""The width at which cold entries are sent as floats instead of levels."""


def choose_hot(counts: Array, n_hot: int) -> Indices:
    """Return the ``n_hot`` entries with the highest counts, ascending.

    Args:
        counts: How often each entry was among a client's k largest.
        n_hot: At most what the switch's registers hold
            (``Switch.indexed_capacity``).
    """
    as_whole("n_hot", n_hot)
    if not hasattr(counts, "shape"):
        raise TypeError(
            "counts must be a vector, NumPy's or PyTorch's, "
            f"got {type(counts).__name__}"
        )
    if len(counts.shape) != 1:
        rule = f"must be a vector, got shape {tuple(counts.shape)}"
        raise ArgumentError("counts", rule)
    n_entries = counts.shape[0]
    if not 1 <= n_hot <= n_entries:
        raise ArgumentError("n_hot", f"must be in 1..{n_entries} (dim), got {n_hot}")
    xp = array_namespace(counts)
    as_floats = xp.astype(counts, xp.float64)
    if not bool(xp.all(as_floats >= 0.0)):
        raise ArgumentError("counts", "must be at least 0, got a negative one or NaN")
    return indices_of_largest(as_floats, n_hot)


def _round(
    values: Update, entries: Indices, grid: Grid, stream: Stream
) -> tuple[Levels, Update]:
    """Return the levels of some entries, and what rounding leaves of these."""
    chosen = values[entries]
    levels = stochastic_round(chosen, entries, grid, stream)
    return levels, subtract_sent(chosen, levels, grid)


def _check_hot(hot: Indices) -> None:
    """Raise unless these are ascending entry numbers; a round checks the last one."""
    dtype = str(getattr(hot, "dtype", type(hot).__name__)).removeprefix("torch.")
    if "int" not in dtype or len(getattr(hot, "shape", ())) != 1:
        shape = tuple(getattr(hot, "shape", ()))
        raise TypeError(
            "hot must be a vector of whole numbers, NumPy's or PyTorch's, "
            f"got {dtype} of shape {shape}"
        )
    xp = array_namespace(hot)
    hot = xp.astype(hot, xp.int64)  # PyTorch cannot compare its unsigned ones
    if hot.shape[0] and (int(hot[0]) < 0 or bool(xp.any(hot[1:] <= hot[:-1]))):
        raise ArgumentError(
            "hot",
            "must be ascending entry numbers from 0, got "
            f"{', '.join(str(int(each)) for each in hot[:8])}"
            f"{' ...' if hot.shape[0] > 8 else ''}",
        )


@dataclass(frozen=True, slots=True)
class Libra(ErrorFeedback):
    """Top-k; hot entries in the switch, cold ones at a server.

    Attributes:
        n_sent: Entries a client sends, its largest (k): a count, or a share of all
            entries.
        hot: Entry numbers that have a register, ascending; equal on all clients.
        bits: Width of an entry's value. With 32, as published, the server gets floats;
            with less, all values are integers whose sum over all clients fits.
        narrow: Give an entry's index only as many bits as it needs to address the
            switch's registers, or all entries at the server; as published it has 32.
        hot_rounds: Rounds of an earlier training from which a run learns which entries
            are hot.
    """

    n_sent: Share = "1%"
    hot: Indices = field(
        default_factory=lambda: np.zeros(0, dtype=np.int64), metadata=SUPPLIED
    )
    bits: int = BITS
    narrow: bool = False
    hot_rounds: int = 3
    TITLE: ClassVar[str] = "libra"

    def __post_init__(self) -> None:
        ErrorFeedback.__post_init__(self)
        check_flag("narrow", self.narrow)
        as_whole("bits", self.bits)
        check_lanes(bits=self.bits, n_clients=self.n_clients)
        check_share("n_sent", self.n_sent)
        as_whole("hot_rounds", self.hot_rounds, at_least=1)
        _check_hot(self.hot)

    @property
    def measured(self) -> tuple[int, int] | None:
        """Payload of stored rounds in percent of the expected: ResNet-18 and UNIPEN.

        The least are of the beginning: at first clients choose much the same entries.
        Only pairs as published were compared.
        """
        return (32, 99) if self.bits == BITS and not self.narrow else None

    def check_dim(self, dim: int) -> None:
        """Raise unless this many entries can be sent, and hot ones are among them."""
        self.count_sent(dim)
        if self.hot.shape[0] and int(self.hot[-1]) >= dim:
            raise ArgumentError(
                "hot",
                f"must be entry numbers below {dim} (dim), got {int(self.hot[-1])}",
            )

    def asks(self) -> Iterator[Asks]:
        """Yield an indexed sum with an address for every hot entry."""
        size = self.hot.shape[0]
        yield AsksIndexedSum(size, self._pair_bits(size))

    def expect(self, conditions: Conditions) -> Iterator[tuple[Expected, ...]]:
        """Yield a maximum, then both sums together.

        Without hot entries as many are taken to be hot as the switch has addresses for.
        """
        yield (Expected(Max),)
        dim, n_clients = conditions.dim, self.n_clients
        n_sent = self.count_sent(dim)
        n_hot = self.hot.shape[0] or min(conditions.n_addresses, dim)
        n_cold = dim - n_hot
        n_sent_hot = round(n_sent * n_hot / dim)
        n_sent_cold = n_sent - n_sent_hot
        hot = union_of(n_sent, conditions, n_clients, n_hot)
        cold = union_of(n_sent, conditions, n_clients, n_cold)
        sums = (
            Expected(IndexedSum, n_sent_hot, hot, self._pair_bits(n_hot)),
            Expected(ServerSum, n_sent_cold, cold, self._pair_bits(dim)),
        )
        yield sums[not n_hot : 2 if n_cold else 1]

    def compress(
        self, corrected: Corrected, state: State, stream: Stream, kept: Update | None
    ) -> Round:
        """Yield a maximum, then both sums together; return the mean update."""
        values = corrected.values
        dim = values.shape[0]
        n_sent = self.count_sent(dim)
        peak, grid = yield from scale_to_peak(
            corrected, bits=self.bits, n_clients=self.n_clients
        )
        if grid is None:
            return unsent(corrected, state, n_votes=0, bits=self.bits, peak=peak)
        indices = indices_of_largest(values, n_sent)
        hot, addresses, cold = self._split(indices)
        rounding = stream.purpose("rounding")
        levels, hot_left = _round(values, hot, grid, rounding)
        pairs = IndexedSum(addresses, levels, self.hot.shape[0], self.bits, self.narrow)
        others, cold_left = self._send_cold(values, cold, grid, rounding)
        added, averaged = yield from self._ask(pairs, others, n_entries=dim)
        hot_values, cold_values = values[hot], values[cold]
        if kept is not None:
            kept[hot], kept[cold] = hot_left, cold_left
        facts = Facts(
            n_votes=n_sent,
            n_chosen=n_sent,
            bits=self.bits,
            peak=peak,
            scale=grid.scale,
            energy=corrected.energy,
            left_energy=left_energy(
                corrected,
                chosen=energy_of(hot_values) + energy_of(cold_values),
                left=energy_of(hot_left) + energy_of(cold_left),
            ),
        )
        return Outcome(self._mean(added, averaged, grid), state, facts)

    def count_sent(self, dim: int) -> int:
        """Return how many of ``dim`` entries a client sends."""
        return count_share("n_sent", self.n_sent, of=dim, what="dim")

    def find_hot(self, updates: Iterable[Update], n_addresses: int) -> Indices:
        """Return the entries that are most often among clients' largest, ascending.

        Args:
            updates: Those of a training before the run, of all clients and rounds.
            n_addresses: Entries that the switch has a register for.
        """
        counts: Array | None = None
        for update in updates:
            dim = update.shape[0]
            chosen = unpack_bits(largest(update, self.count_sent(dim)), dim)
            xp = array_namespace(chosen)
            own = xp.astype(chosen, xp.int32)
            counts = own if counts is None else counts + own
        if counts is None:
            raise ArgumentError("updates", "must be at least one, got none")
        return choose_hot(counts, min(n_addresses, counts.shape[0]))

    def _pair_bits(self, n_places: int) -> int:
        """Return the bits of an entry on its way: its value and one of ``n_places``."""
        return self.bits + (least_index_bits(n_places) if self.narrow else INDEX_BITS)

    def _split(self, indices: Indices) -> tuple[Indices, Indices, Indices]:
        """Return the hot ones of ``indices``, their registers, and the cold ones."""
        xp = array_namespace(indices)
        n_hot = self.hot.shape[0]
        if not n_hot:
            return indices[:0], indices[:0], indices
        table = self._table(indices)
        address = xp.searchsorted(table, indices)
        address = xp.minimum(address, xp.full_like(address, n_hot - 1))
        is_hot = table[address] == indices
        return indices[is_hot], address[is_hot], indices[~is_hot]

    def _table(self, like: Indices) -> Indices:
        """Return ``hot`` where ``like`` is; short numbers would be masks to PyTorch."""
        xp = array_namespace(like)
        return xp.asarray(self.hot, dtype=xp.int64, device=device(like))

    def _send_cold(
        self, values: Update, cold: Indices, grid: Grid, stream: Stream
    ) -> tuple[ServerSum, Update]:
        """Return what is sent to the server, and what rounding leaves of it."""
        index_bits = least_index_bits(len(values)) if self.narrow else INDEX_BITS
        xp = array_namespace(values)
        if self.bits == BITS:
            floats = values[cold]
            return ServerSum(floats, cold, None, index_bits), xp.zeros_like(floats)
        levels, left = _round(values, cold, grid, stream)
        # float64 adds levels of any width exactly.
        whole = xp.astype(levels, xp.float64)
        return ServerSum(whole, cold, self.bits, index_bits), left

    def _ask(
        self, pairs: IndexedSum, cold: ServerSum, *, n_entries: int
    ) -> Generator[
        tuple[Exchange, ...], Any, tuple[IndexedTotals | None, ServerTotals | None]
    ]:
        """Yield both sums together, or only one if all or no entries are hot.

        A server that can never be sent anything is not waited for.
        """
        if not pairs.size:
            return None, (yield from ask(cold))
        if pairs.size == n_entries:
            return (yield from ask(pairs)), None
        answers: tuple[IndexedTotals, ServerTotals] = yield from ask(pairs, cold)
        return answers

    def _mean(
        self, added: IndexedTotals | None, averaged: ServerTotals | None, grid: Grid
    ) -> Mean:
        parts: list[MeanPart] = []
        if added is not None:
            entries = self._table(added.indices)
            parts.append(IndexedMean(added, grid.scale, entries))
        if averaged is not None:
            scale = None if self.bits == BITS else grid.scale
            parts.append(FloatMean(averaged.values, averaged.indices, scale))
        return Mean(parts)
