"""An algorithm around another one: FediAC on updates with momentum.

Every client adds a part of its earlier updates to the new one before it votes, as in
Lin et al., "Deep Gradient Compression", ICLR 2018, Sec. 3.2. What it keeps for that
lies in the extras of its state, so a run that is interrupted goes on to the same bits:

    fediac compare examples/digits.toml \
        --algorithms fediac,examples.own_momentum:momentum --out runs/momentum
    fediac report runs/momentum
"""

from dataclasses import dataclass, replace

from fediac import FediAC
from fediac.extend import Round, State, Stream, Update


@dataclass(frozen=True, slots=True)
class Momentum:
    """What ``inner`` does, with ``share`` of all earlier updates added to each one."""

    inner: FediAC
    share: float = 0.5

    @property
    def n_clients(self) -> int:
        """Clients of the round."""
        return self.inner.n_clients

    @property
    def threshold(self) -> int:
        """Votes an entry needs, by which a switch with bounded memory is timed."""
        return self.inner.threshold

    def run_round(
        self, update: Update, state: State, stream: Stream, *, out: Update | None = None
    ) -> Round:
        """Run a round of ``inner`` with the velocity instead of the update."""
        velocity = self.share * state.extras.get("velocity", 0.0) + update
        outcome = yield from self.inner.run_round(
            velocity, replace(state, extras={}), stream, out=out
        )
        after = replace(outcome.state, extras={"velocity": velocity})
        return replace(outcome, state=after)


def momentum(n_clients: int, dim: int) -> Momentum:
    """Return FediAC with the paper's votes and threshold on updates with momentum."""
    return Momentum(FediAC(n_clients, n_votes=-(-dim // 20), threshold=3))
