"""How many rounds a run will take, before it has run: simulated, without training."""

import math

from fediac.experiments.expected import ExpectedRound
from fediac.experiments.networks import NetworkSetting
from fediac.experiments.paper.plan import PlannedRun, Until
from fediac.experiments.settings import RunSettings
from fediac.experiments.shares import parse_share
from fediac.experiments.simulate import simulate


def estimate_rounds(run: PlannedRun, until: Until) -> int | None:
    """Return how many rounds a run has at most, or about, until its end.

    Only a clock needs an estimate: one round on expected traffic tells how long it is.
    """
    limits = [] if until.rounds is None else [until.rounds]
    if until.simulated_s is not None:
        round_s = _round_s(run.settings, run.scenario.paper.dim)
        limits.append(math.ceil(until.simulated_s / round_s))
    return min(limits, default=None)


def _round_s(settings: RunSettings, dim: int) -> float:
    """Return how long a round is on the fastest switch, which ends last."""
    n_clients = settings.clients.number
    sent = {"libra": settings.libra.sent, "omnireduce": settings.omnireduce.sent}
    share = sent.get(settings.algorithm)
    expected = ExpectedRound(
        algorithm=settings.algorithm,
        dim=dim,
        n_clients=n_clients,
        n_chosen=None if share is None else parse_share(share, of=dim, name="sent"),
        threshold=parse_share(
            settings.fediac.threshold, of=n_clients, name="threshold"
        ),
        **_bits(settings),
    )
    network = settings.network
    times = []
    for switch in network.switches:
        setting = NetworkSetting(switch, network.rates, None, network.compute_s)
        simulation = simulate(expected, setting, n_rounds=1, seed=settings.seed)
        times.append(simulation.rounds[0].round_s)
    return min(times)


def _bits(settings: RunSettings) -> dict[str, int]:
    """Return the width of a level where it is given; FediAC's is agreed later."""
    if settings.algorithm == "switchml":
        return {"bits": settings.switchml.bits}
    bits = settings.fediac.bits
    return {"bits": bits} if isinstance(bits, int) else {}
