"""OmniReduce: every client sends the blocks that hold one of its k largest entries.

Fei et al., "Efficient Sparse Collective Communication and its Application to Accelerate
Distributed Deep Learning", SIGCOMM 2021. The FediAC paper's best setting is k = 5 % of
the entries.

Deviations: the switch is integer, so clients first agree on a peak and send 32-bit
levels; a block is a packet; a client's first packet only announces its first block;
error feedback unless ``residual=False``.
"""

from dataclasses import dataclass

from array_api_compat import array_namespace, device

from fediac.compressors.protocol import (
    Facts,
    Outcome,
    Round,
    State,
    ask,
    begin,
    check_common,
    check_count,
    check_whole,
    left_energy,
    scale_to_peak,
    unsent,
)
from fediac.core.exchange import BlockSum, BlockTotals
from fediac.core.magnitudes import indices_of_largest
from fediac.core.mean import BlockMean, Mean
from fediac.core.quantize import (
    energy_of,
    level_limit,
    stochastic_round,
    subtract_sent,
)
from fediac.core.residual import fade_residual, keep_missed
from fediac.core.rng import Stream
from fediac.core.types import Indices, Levels, Update

BITS = 32


@dataclass(frozen=True, slots=True)
class OmniReduce:
    """Blocks with a non-zero entry after top-k.

    Attributes:
        n_sent: k, entries a client keeps.
        block: Entries of a block; 360 levels fill a packet.
        residual: Keep the other entries for the next round.
        fade: Share of what is kept that is forgotten every round.
    """

    n_clients: int
    n_sent: int
    block: int = 360
    residual: bool = True
    fade: float = 0.0

    def __post_init__(self) -> None:
        check_common(self, residual=self.residual, fade=self.fade)
        level_limit(bits=BITS, n_clients=self.n_clients)
        check_count("n_sent", self.n_sent)
        check_whole("block", self.block, at_least=1)

    def run_round(
        self, update: Update, state: State, stream: Stream, *, out: Update | None = None
    ) -> Round:
        """Yield a maximum and a block sum; return the mean update."""
        check_count("n_sent", self.n_sent, update)
        corrected = begin(update, state, stream, keeps_residual=self.residual, out=out)
        values = corrected.values
        kept = values if self.residual else None
        peak, grid = yield from scale_to_peak(
            corrected, bits=BITS, n_clients=self.n_clients
        )
        if grid is None:
            after = State(fade_residual(kept, self.fade))
            return unsent(corrected, after, n_votes=0, bits=BITS, peak=peak)
        indices = indices_of_largest(values, self.n_sent)
        indices = indices[values[indices] != 0]
        chosen = values[indices]
        levels = stochastic_round(chosen, indices, grid, stream.purpose("rounding"))
        totals: BlockTotals = yield from ask(self._blocks(indices, levels))
        missed = totals.contributors.missed(stream.client, len(update))
        left, n_counted = keep_missed(
            subtract_sent(chosen, levels, grid), chosen, indices, missed
        )
        if kept is not None:
            kept[indices] = left
        facts = Facts(
            n_votes=self.n_sent,
            n_chosen=n_counted,
            bits=BITS,
            peak=peak,
            scale=grid.scale,
            energy=corrected.energy,
            left_energy=left_energy(
                corrected, chosen=energy_of(chosen), left=energy_of(left)
            ),
        )
        mean = Mean((BlockMean(totals, grid.scale),))
        return Outcome(mean, State(fade_residual(kept, self.fade)), facts)

    def _blocks(self, indices: Indices, levels: Levels) -> BlockSum:
        """Return the blocks that hold ``indices``, zero but for their levels."""
        xp = array_namespace(indices)
        numbers = indices // self.block
        blocks = xp.unique_values(numbers)
        rows = xp.zeros(
            (blocks.shape[0], self.block), dtype=xp.int32, device=device(indices)
        )
        row = xp.searchsorted(blocks, numbers)
        rows[row, indices % self.block] = xp.astype(levels, xp.int32)
        return BlockSum(blocks, rows)
