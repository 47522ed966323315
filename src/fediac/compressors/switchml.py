"""SwitchML: agree on a peak, then add all entries as b-bit levels.

Sapio et al., "Scaling Distributed Machine Learning with In-Network Aggregation",
NSDI 2021. The FediAC paper's best setting is 12 bits.

Deviations: one peak for the whole update instead of one a chunk; stochastic instead of
nearest rounding, as the FediAC paper's comparison implies; error feedback unless
``residual=False``; lanes of any width instead of 32-bit registers.
"""

from dataclasses import dataclass

from fediac.compressors.protocol import (
    Facts,
    Outcome,
    Round,
    State,
    ask,
    begin,
    check_common,
    check_whole,
    scale_to_peak,
    unsent,
)
from fediac.core.exchange import Sum, Totals
from fediac.core.mean import LaneMean, Mean
from fediac.core.quantize import check_lanes, send_chosen
from fediac.core.residual import fade_residual, take_back
from fediac.core.rng import Stream
from fediac.core.types import Update
from fediac.core.widths import Lanes, check_rule


@dataclass(frozen=True, slots=True)
class SwitchML:
    """All entries, quantized.

    Attributes:
        bits: Width of a lane.
        residual: Keep the rounding error for the next round.
        fade: Share of what is kept that is forgotten every round.
        lanes: How wide lanes are, see `fediac.core.widths`; with ``"same"``, the
            paper's, all have ``bits`` bits.
    """

    n_clients: int
    bits: int = 12
    residual: bool = True
    fade: float = 0.0
    lanes: Lanes = "same"

    def __post_init__(self) -> None:
        check_common(self, residual=self.residual, fade=self.fade)
        check_whole("bits", self.bits)
        check_rule(self.lanes)
        check_lanes(bits=self.bits, n_clients=self.n_clients)

    def run_round(
        self, update: Update, state: State, stream: Stream, *, out: Update | None = None
    ) -> Round:
        """Yield a maximum and a sum; return the mean update."""
        corrected = begin(update, state, stream, keeps_residual=self.residual, out=out)
        values = corrected.values
        kept = values if self.residual else None
        peak, grid = yield from scale_to_peak(
            corrected, bits=self.bits, n_clients=self.n_clients, lanes=self.lanes
        )
        if grid is None:
            after = State(fade_residual(kept, self.fade))
            return unsent(corrected, after, n_votes=0, bits=self.bits, peak=peak)
        sent = send_chosen(values, None, grid, stream.purpose("rounding"), out=kept)
        totals: Totals = yield from ask(
            Sum(sent.lanes, sent.n_levels, grid.bits_up, grid.bits_down, grid.limit)
        )
        missed = totals.contributors.missed(stream.client, sent.n_levels)
        counted = take_back(sent, missed, values, None, grid, out=kept)
        facts = Facts(
            n_votes=sent.n_levels,
            n_chosen=counted.n_levels,
            bits=grid.bits_down,
            peak=peak,
            scale=grid.scale,
            energy=corrected.energy,
            left_energy=counted.left_energy,
        )
        mean = Mean((LaneMean(totals, grid.scale, None),))
        return Outcome(mean, State(fade_residual(kept, self.fade)), facts)
