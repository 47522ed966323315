"""Federated averaging: every client sends everything to a far parameter server.

McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized
Data", AISTATS 2017: the accuracy every compressor is measured against.

Deviations: clients weigh the same, as in the FediAC paper. Nothing is left unsent, so
there is no residual.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from fediac.compressors.forecast import Conditions, Expected
from fediac.compressors.protocol import Facts, Outcome, Round, State, ask
from fediac.compressors.settings import check_numbers
from fediac.compressors.shared_steps import begin
from fediac.core.exchange import ServerSum, ServerTotals
from fediac.core.mean import FloatMean, Mean
from fediac.core.rng import Stream
from fediac.core.types import Update


@dataclass(frozen=True, slots=True)
class FedAvg:
    """All entries as floats at a parameter server."""

    n_clients: int

    def __post_init__(self) -> None:
        check_numbers(self)

    def expect(self, conditions: Conditions) -> Iterator[tuple[Expected, ...]]:
        """Yield a sum of all entries."""
        yield (Expected(ServerSum, conditions.dim, conditions.dim),)

    def run_round(
        self,
        update: Update,
        state: State,
        stream: Stream,
        *,
        out: Update | None = None,  # noqa: ARG002 - there is no residual to keep
    ) -> Round:
        """Yield one sum at the server; return the mean update."""
        corrected = begin(update, state, stream, keeps_residual=False, out=None)
        totals: ServerTotals = yield from ask(ServerSum(update))
        dim = update.shape[0]
        facts = Facts(dim, dim, 0, 0.0, 0.0, corrected.energy, 0.0)
        mean = Mean((FloatMean(totals.values, None),))
        return Outcome(mean, replace(state, residual=None), facts)
