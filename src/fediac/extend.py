"""Everything that you need to write your own algorithm, in one place.

A compressor is a dataclass with ``n_clients`` and ``run_round``, a generator: each
``yield from ask(...)`` carries an exchange, and the end is ``return Outcome(...)``.
One made from `ErrorFeedback` writes ``compress`` instead, and has a residual and its
fade; one made from `Wrapper` runs another's round with another update.
`examples/own_compressor.py` and `examples/own_momentum.py` are whole ones;
CONTRIBUTING.md has a table of exchanges.
"""

from fediac.compressors.feedback import ErrorFeedback
from fediac.compressors.forecast import (
    AsksBlockSum,
    AsksIndexedSum,
    AsksSum,
    AsksTally,
    Conditions,
    Expected,
    share_of_some,
    union_of,
)
from fediac.compressors.protocol import (
    Compressor,
    Facts,
    Outcome,
    Round,
    State,
    ask,
)
from fediac.compressors.settings import count_share
from fediac.compressors.shared_steps import (
    Added,
    add_levels,
    begin,
    left_energy,
    scale_to_peak,
    unsent,
)
from fediac.compressors.wrapper import Wrapper
from fediac.core.bitpack import count_bits, indices_of, pack_bits, unpack_bits
from fediac.core.corrected import Corrected
from fediac.core.exact import divide, tree_sum
from fediac.core.exchange import (
    BlockSum,
    BlockTotals,
    Consensus,
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
from fediac.core.rng import Stream, to_unit
from fediac.core.shares import Share
from fediac.core.types import Indices, Levels, Packed, Update
from fediac.core.voting import draw_votes
from fediac.core.widths import Lanes, lane_widths, make_grid

__all__ = [
    "MIN_PEAK",
    "Added",
    "AsksBlockSum",
    "AsksIndexedSum",
    "AsksSum",
    "AsksTally",
    "BlockMean",
    "BlockSum",
    "BlockTotals",
    "Compressor",
    "Conditions",
    "Consensus",
    "Corrected",
    "ErrorFeedback",
    "Expected",
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
    "Share",
    "State",
    "Stream",
    "Sum",
    "Tally",
    "Totals",
    "Update",
    "Wrapper",
    "add_levels",
    "ask",
    "begin",
    "count_bits",
    "count_share",
    "divide",
    "draw_votes",
    "energy_of",
    "float32_above",
    "indices_of",
    "indices_of_largest",
    "lane_widths",
    "largest",
    "left_energy",
    "make_grid",
    "pack_bits",
    "scale_to_peak",
    "send_chosen",
    "share_of_some",
    "stochastic_round",
    "subtract_sent",
    "to_unit",
    "tree_sum",
    "union_of",
    "unpack_bits",
    "unsent",
]
