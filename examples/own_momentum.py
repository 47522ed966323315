"""An algorithm around another one: FediAC on updates with momentum.

Every client adds a part of its earlier updates to the new one before it votes, as in
Lin et al., "Deep Gradient Compression", ICLR 2018, Sec. 3.2. What it keeps for that
lies in the extras of its state, so a run that is interrupted goes on to the same bits:

    fediac compare examples/digits.toml \
        --algorithms fediac,examples.own_momentum:momentum --out runs/momentum
    fediac report runs/momentum
"""

from dataclasses import dataclass

from fediac import FediAC
from fediac.extend import Round, State, Stream, Update, Wrapper


@dataclass(frozen=True, slots=True)
class Momentum(Wrapper):
    """What ``inner`` does, with ``share`` of all earlier updates added to each one."""

    share: float = 0.5

    def run_round(
        self, update: Update, state: State, stream: Stream, *, out: Update | None = None
    ) -> Round:
        """Run a round of ``inner`` with the velocity instead of the update."""
        velocity = self.share * state.extras.get("velocity", 0.0) + update
        outcome = yield from self.inner.run_round(velocity, state, stream, out=out)
        return outcome.keeping(velocity=velocity)


def momentum(n_clients: int) -> Momentum:
    """Return FediAC with the paper's votes and threshold on updates with momentum."""
    return Momentum(FediAC(n_clients))
