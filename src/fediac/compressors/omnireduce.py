"""OmniReduce: every client sends the blocks that hold one of its k largest entries.

Fei et al., "Efficient Sparse Collective Communication and its Application to Accelerate
Distributed Deep Learning", SIGCOMM 2021. The FediAC paper's best setting is k = 5 % of
the entries.

Deviations: the switch is integer, so clients first agree on a peak and send 32-bit
levels; a block is a packet; a client's first packet only announces its first block;
error feedback unless ``residual=False``.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from array_api_compat import array_namespace, device

from fediac.compressors.feedback import ErrorFeedback
from fediac.compressors.forecast import (
    Asks,
    AsksBlockSum,
    Blocks,
    Conditions,
    Expected,
    share_of_some,
)
from fediac.compressors.protocol import Facts, Outcome, Round, State, ask
from fediac.compressors.settings import check_share, count_share
from fediac.compressors.shared_steps import left_energy, scale_to_peak, unsent
from fediac.core.corrected import Corrected
from fediac.core.exchange import BlockSum, BlockTotals, Max
from fediac.core.integers import as_whole
from fediac.core.magnitudes import indices_of_largest
from fediac.core.mean import BlockMean, Mean
from fediac.core.quantize import (
    energy_of,
    level_limit,
    stochastic_round,
    subtract_sent,
)
from fediac.core.rng import Stream
from fediac.core.shares import Share
from fediac.core.types import Indices, Levels, Update

BITS = 32


@dataclass(frozen=True, slots=True)
class OmniReduce(ErrorFeedback):
    """Add the blocks that hold a top-k entry.

    Attributes:
        n_sent: Entries a client sends, its largest (k): a count, or a share of all
            entries.
        block: Entries in a block; 352 levels fill a packet.
    """

    n_sent: Share = "5%"
    block: int = 352

    def __post_init__(self) -> None:
        ErrorFeedback.__post_init__(self)
        level_limit(bits=BITS, n_clients=self.n_clients)
        check_share("n_sent", self.n_sent)
        as_whole("block", self.block, at_least=1)

    @property
    def measured(self) -> tuple[int, int]:
        """Payload of stored rounds in percent of the expected: ResNet-18 and UNIPEN."""
        return 8, 100

    def check_dim(self, dim: int) -> None:
        """Raise unless this many entries can be sent."""
        self._count(dim)

    def asks(self) -> Iterator[Asks]:
        """Yield a block sum."""
        yield AsksBlockSum(self.block)

    def expect(self, conditions: Conditions) -> Iterator[tuple[Expected, ...]]:
        """Yield a maximum and a sum of the blocks that some client has."""
        yield (Expected(Max),)
        dim = conditions.dim
        n_blocks = -(-dim // self.block)
        # A block of n entries holds a chosen one with probability 1 − (1 − k/d)^n.
        share = share_of_some(self._count(dim) / dim, min(self.block, dim))
        n_union = max(1, round(n_blocks * share_of_some(share, self.n_clients)))
        union = _spread(n_union, n_blocks)
        own = union[_spread(max(1, round(n_blocks * share)), n_union)]
        up, down = len(own) * self.block, len(union) * self.block
        yield (Expected(BlockSum, up, down, BITS, blocks=(own, union)),)

    def compress(
        self, corrected: Corrected, state: State, stream: Stream, kept: Update | None
    ) -> Round:
        """Yield a maximum and a block sum; return the mean update."""
        values = corrected.values
        dim = values.shape[0]
        n_sent = self._count(dim)
        peak, grid = yield from scale_to_peak(
            corrected, bits=BITS, n_clients=self.n_clients
        )
        if grid is None:
            return unsent(corrected, state, n_votes=0, bits=BITS, peak=peak)
        indices = indices_of_largest(values, n_sent)
        indices = indices[values[indices] != 0]
        chosen = values[indices]
        levels = stochastic_round(chosen, indices, grid, stream.purpose("rounding"))
        totals: BlockTotals = yield from ask(self._blocks(indices, levels, dim))
        left = subtract_sent(chosen, levels, grid)
        if kept is not None:
            kept[indices] = left
        facts = Facts(
            n_votes=n_sent,
            n_chosen=indices.shape[0],
            bits=BITS,
            peak=peak,
            scale=grid.scale,
            energy=corrected.energy,
            left_energy=left_energy(
                corrected, chosen=energy_of(chosen), left=energy_of(left)
            ),
        )
        mean = Mean((BlockMean(totals, grid.scale),))
        return Outcome(mean, state, facts)

    def _count(self, dim: int) -> int:
        return count_share("n_sent", self.n_sent, of=dim, what="dim")

    def _blocks(self, indices: Indices, levels: Levels, dim: int) -> BlockSum:
        """Return the blocks that hold ``indices``, zero but for their levels."""
        xp = array_namespace(indices)
        numbers = indices // self.block
        # They ascend, so a block begins wherever one differs from the one before.
        begins = xp.ones_like(numbers, dtype=xp.bool)
        begins[1:] = numbers[1:] != numbers[:-1]
        blocks = numbers[begins]
        rows = xp.zeros(
            (blocks.shape[0], self.block), dtype=xp.int32, device=device(indices)
        )
        row = xp.cumulative_sum(xp.astype(begins, xp.int64)) - 1
        rows[row, indices % self.block] = xp.astype(levels, xp.int32)
        return BlockSum(blocks, rows, n_blocks=-(-dim // self.block))


def _spread(n_chosen: int, n_blocks: int) -> Blocks:
    """Return ``n_chosen`` evenly spaced block numbers."""
    return np.arange(n_chosen, dtype=np.int64) * n_blocks // n_chosen
