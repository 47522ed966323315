"""Top-k: every client sends its k largest entries with their indices to the server.

Stich et al., "Sparsified SGD with Memory", NeurIPS 2018: the classic sparsifier. A
switch cannot help it, since clients send other indices.

Deviations: none in the algorithm; the server returns the union of all sent indices.
"""

from dataclasses import dataclass

from array_api_compat import array_namespace

from fediac.compressors.protocol import (
    Facts,
    Outcome,
    Round,
    State,
    ask,
    begin,
    check_common,
    check_count,
    left_energy,
)
from fediac.core.exchange import ServerSum, ServerTotals
from fediac.core.magnitudes import indices_of_largest
from fediac.core.mean import FloatMean, Mean
from fediac.core.quantize import energy_of
from fediac.core.residual import fade_residual, keep_missed
from fediac.core.rng import Stream
from fediac.core.types import Update


@dataclass(frozen=True, slots=True)
class TopK:
    """The ``n_sent`` largest entries, as floats, past the switch.

    Attributes:
        residual: Keep the other entries for the next round.
        fade: Share of what is kept that is forgotten every round.
    """

    n_clients: int
    n_sent: int
    residual: bool = True
    fade: float = 0.0

    def __post_init__(self) -> None:
        check_common(self, residual=self.residual, fade=self.fade)
        check_count("n_sent", self.n_sent)

    def run_round(
        self, update: Update, state: State, stream: Stream, *, out: Update | None = None
    ) -> Round:
        """Yield one sum at the server; return the mean update."""
        check_count("n_sent", self.n_sent, update)
        corrected = begin(update, state, stream, keeps_residual=self.residual, out=out)
        values = corrected.values
        indices = indices_of_largest(values, self.n_sent)
        chosen = values[indices]
        totals: ServerTotals = yield from ask(ServerSum(chosen, indices))
        missed = totals.contributors.missed(stream.client, len(update))
        nothing = array_namespace(chosen).zeros_like(chosen)
        left, n_counted = keep_missed(nothing, chosen, indices, missed)
        kept = None
        if self.residual:
            kept = values
            kept[indices] = left
        facts = Facts(
            n_votes=self.n_sent,
            n_chosen=n_counted,
            bits=0,
            peak=0.0,
            scale=0.0,
            energy=corrected.energy,
            left_energy=left_energy(
                corrected, chosen=energy_of(chosen), left=energy_of(left)
            ),
        )
        mean = Mean((FloatMean(totals.values, totals.indices),))
        return Outcome(mean, State(fade_residual(kept, self.fade)), facts)
