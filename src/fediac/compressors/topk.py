"""Top-k: every client sends its k largest entries with their indices to the server.

Stich et al., "Sparsified SGD with Memory", NeurIPS 2018: the classic sparsifier. A
switch cannot help it, since clients send other indices.

Deviations: none in the algorithm; the server returns the union of all sent indices.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from fediac.compressors.feedback import ErrorFeedback
from fediac.compressors.forecast import Conditions, Expected, union_of
from fediac.compressors.protocol import Facts, Outcome, Round, State, ask
from fediac.compressors.settings import check_share, count_share
from fediac.compressors.shared_steps import left_energy
from fediac.core.corrected import Corrected
from fediac.core.exchange import ServerSum, ServerTotals
from fediac.core.magnitudes import indices_of_largest
from fediac.core.mean import FloatMean, Mean
from fediac.core.quantize import energy_of
from fediac.core.rng import Stream
from fediac.core.shares import Share
from fediac.core.types import Update


@dataclass(frozen=True, slots=True)
class TopK(ErrorFeedback):
    """Top-k entries with indices at a parameter server.

    Attributes:
        n_sent: Entries a client sends, its largest (k): a count, or a share of all
            entries.
    """

    n_sent: Share = "1%"
    TITLE: ClassVar[str] = "top-k"

    def __post_init__(self) -> None:
        ErrorFeedback.__post_init__(self)
        check_share("n_sent", self.n_sent)

    def check_dim(self, dim: int) -> None:
        """Raise unless this many entries can be sent."""
        self._count(dim)

    def expect(self, conditions: Conditions) -> Iterator[tuple[Expected, ...]]:
        """Yield a sum at the server, which returns the union of all indices."""
        dim = conditions.dim
        n_sent = self._count(dim)
        union = union_of(n_sent, conditions, self.n_clients, dim)
        yield (Expected(ServerSum, n_sent, union, bits=64),)

    def compress(
        self,
        corrected: Corrected,
        state: State,
        stream: Stream,  # noqa: ARG002 - nothing is random
        kept: Update | None,
    ) -> Round:
        """Yield one sum at the server; return the mean update."""
        values = corrected.values
        dim = values.shape[0]
        n_sent = self._count(dim)
        indices = indices_of_largest(values, n_sent)
        chosen = values[indices]
        totals: ServerTotals = yield from ask(ServerSum(chosen, indices))
        if kept is not None:
            kept[indices] = 0.0
        facts = Facts(
            n_votes=n_sent,
            n_chosen=n_sent,
            bits=0,
            peak=0.0,
            scale=0.0,
            energy=corrected.energy,
            left_energy=left_energy(corrected, chosen=energy_of(chosen)),
        )
        mean = Mean((FloatMean(totals.values, totals.indices),))
        return Outcome(mean, state, facts)

    def _count(self, dim: int) -> int:
        return count_share("n_sent", self.n_sent, of=dim, what="dim")
