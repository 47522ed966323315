"""Everything that an algorithm of your own is written with, in one place.

A compressor is a dataclass with ``n_clients`` and ``run_round``, a generator: each
``yield from ask(...)`` carries an exchange, and the end is ``return Outcome(...)``.
`examples/own_compressor.py` is a whole one; CONTRIBUTING.md has a table of exchanges.
"""

from fediac.compressors.protocol import (
    Compressor,
    Facts,
    Outcome,
    Round,
    State,
    ask,
    begin,
    left_energy,
    scale_to_peak,
    unsent,
)
from fediac.core.bitpack import count_bits, indices_of, pack_bits, unpack_bits
from fediac.core.exact_divide import divide
from fediac.core.exchange import (
    BlockSum,
    BlockTotals,
    Consensus,
    Contributors,
    IndexedSum,
    IndexedTotals,
    Max,
    Peak,
    ServerSum,
    ServerTotals,
    Sum,
    Tally,
    Totals,
)
from fediac.core.magnitudes import indices_of_largest, largest
from fediac.core.mean import BlockMean, FloatMean, IndexedMean, LaneMean, Mean
from fediac.core.quantize import (
    MIN_PEAK,
    Grid,
    energy_of,
    float32_above,
    send_chosen,
    stochastic_round,
    subtract_sent,
)
from fediac.core.residual import fade_residual, keep_missed, take_back
from fediac.core.rng import Stream, to_unit
from fediac.core.sums import tree_sum
from fediac.core.types import Indices, Levels, Packed, Update
from fediac.core.voting import draw_votes
from fediac.core.widths import Lanes, make_grid

__all__ = [
    "MIN_PEAK",
    "BlockMean",
    "BlockSum",
    "BlockTotals",
    "Compressor",
    "Consensus",
    "Contributors",
    "Facts",
    "FloatMean",
    "Grid",
    "IndexedMean",
    "IndexedSum",
    "IndexedTotals",
    "Indices",
    "LaneMean",
    "Lanes",
    "Levels",
    "Max",
    "Mean",
    "Outcome",
    "Packed",
    "Peak",
    "Round",
    "ServerSum",
    "ServerTotals",
    "State",
    "Stream",
    "Sum",
    "Tally",
    "Totals",
    "Update",
    "ask",
    "begin",
    "count_bits",
    "divide",
    "draw_votes",
    "energy_of",
    "fade_residual",
    "float32_above",
    "indices_of",
    "indices_of_largest",
    "keep_missed",
    "largest",
    "left_energy",
    "make_grid",
    "pack_bits",
    "scale_to_peak",
    "send_chosen",
    "stochastic_round",
    "subtract_sent",
    "take_back",
    "to_unit",
    "tree_sum",
    "unpack_bits",
    "unsent",
]
