"""SwitchML: agree on a peak, then add all entries as b-bit levels.

Sapio et al., "Scaling Distributed Machine Learning with In-Network Aggregation",
NSDI 2021. The FediAC paper's best setting is 12 bits.

Deviations: one peak for the whole update instead of one a chunk; stochastic instead of
nearest rounding, as the FediAC paper's comparison implies; error feedback unless
``residual=False``; lanes of any width instead of 32-bit registers.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from fediac.compressors.feedback import ErrorFeedback
from fediac.compressors.forecast import Asks, AsksSum, Conditions, Expected
from fediac.compressors.protocol import Round, State
from fediac.compressors.shared_steps import add_levels, scale_to_peak, unsent
from fediac.core.corrected import Corrected
from fediac.core.exchange import Max, Sum
from fediac.core.integers import as_whole
from fediac.core.quantize import check_lanes
from fediac.core.rng import Stream
from fediac.core.types import Update
from fediac.core.widths import Lanes, Widths, check_rule, lane_widths


@dataclass(frozen=True, slots=True)
class SwitchML(ErrorFeedback):
    """Add b-bit levels of all entries in the switch.

    Attributes:
        bits: Width of the switch's sums (b).
        lanes: How wide lanes are: ``same``, as many bits up as down, as published;
            ``dense``, only as many bits up as a client's own levels need, for the same
            sums; ``words``, the same but in 4, 8, 16 or 32 bits, which leaves levels
            more room.
    """

    bits: int = 12
    lanes: Lanes = "same"

    def __post_init__(self) -> None:
        ErrorFeedback.__post_init__(self)
        as_whole("bits", self.bits)
        check_rule(self.lanes)
        check_lanes(bits=self.bits, n_clients=self.n_clients)

    def asks(self) -> Iterator[Asks]:
        """Yield a sum."""
        yield AsksSum((self._widths,))

    def expect(self, conditions: Conditions) -> Iterator[tuple[Expected, ...]]:
        """Yield a maximum and a sum of all entries."""
        yield (Expected(Max),)
        dim = conditions.dim
        yield (Expected(Sum, dim, dim, bits=self._widths),)

    @property
    def _widths(self) -> Widths:
        return lane_widths(bits=self.bits, n_clients=self.n_clients, lanes=self.lanes)

    def compress(
        self, corrected: Corrected, state: State, stream: Stream, kept: Update | None
    ) -> Round:
        """Yield a maximum and a sum; return the mean update."""
        peak, grid = yield from scale_to_peak(
            corrected, bits=self.bits, n_clients=self.n_clients, lanes=self.lanes
        )
        if grid is None:
            return unsent(corrected, state, n_votes=0, bits=self.bits, peak=peak)
        added = yield from add_levels(corrected, None, grid, stream, kept=kept)
        return added.outcome(state, peak=peak)
